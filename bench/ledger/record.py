"""Bring the ledger and asv's results to what is stored.

In: a results folder. Out: `asv/ledger` and `asv/recorded` in it hold its nights, all of them and no others; and word of what
changed. The same call again changes nothing; one that was killed is completed by the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.ledger import asked, place, repository
from bench.ledger.nights import Night
from bench.ledger.place import FOLDER, LEDGER, RECORDED
from bench.ledger.stored import any_night
from bench.provenance import ROOT
from bench.spec import BadInput
from bench.store import Damaged

BENCHMARKS = ROOT / "bench" / "asv_bench"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger holds now: `nights` in all (one per machine and date), of which `added` are new to it.

    `rewritten_from` is the first night whose commit, and those after it, took the place of others: one that came late, or that
    has another environment than was recorded. None where history only grew, or stayed.
    """

    nights: int
    added: int
    rewritten_from: str | None
    damaged: tuple[Damaged, ...] = ()

    def to_json(self) -> dict[str, Any]:
        damaged = [str(each) for each in self.damaged]
        return {"nights": self.nights, "added": self.added, "rewritten_from": self.rewritten_from, "damaged": damaged}

    def describe(self) -> str:
        """In a line."""
        if not self.nights:
            return "no run belongs to a night yet: `wingspan run SUITE --night DATE` makes some"
        late = f"; history rewritten from the night of {self.rewritten_from} on" if self.rewritten_from else ""
        return f"{self.nights:,} night{'s' * (self.nights != 1)} in the ledger, {self.added:,} new{late}"


def record(results: Path, benchmarks: Path = BENCHMARKS) -> Recorded:
    """Bring `results`/asv to the nights that are stored; `benchmarks` is the folder that asv takes its benchmarks from.

    Waits for another that does so in the same folder. Raises BadInput where asv or git is missing or the ledger is no folder of
    its own, OSError naming what cannot be read or written.
    """
    require_tools()
    from bench.ledger import recording

    folder = results / FOLDER
    found, damaged = any_night(results)
    if not found:
        return Recorded(0, 0, None, damaged)
    with place.held(results):
        asked.known.cache_clear()
        stored = asked.known(results)  # within the turn: a snapshot from before it could undo what another has recorded since
        if not stored.nights:
            return Recorded(0, 0, None, stored.damaged)
        before = repository.commits(folder / LEDGER)
        hashes = repository.write(folder / LEDGER, stored.nights)
        recording.write(results, folder / RECORDED, stored.nights, hashes, benchmarks)
    return Recorded(len(hashes), len(set(hashes) - set(before)), _rewritten(before, hashes, stored.nights), stored.damaged)


def require_tools() -> None:
    """Raises BadInput where git or asv is not installed, or asv cannot be imported."""
    repository.require_git()
    try:
        import_module("bench.ledger.recording")  # which imports all of asv that is used
    except ImportError as error:
        fault = f"cannot be imported ({error})" if find_spec("asv") else "is not installed"
        raise BadInput(f"asv, which draws the history of nights, {fault}: pip install -e '.[nightly]'") from error


def _rewritten(before: Sequence[str], after: Sequence[str], nights: Sequence[Night]) -> str | None:
    """The first night at which the old history is not the new one's beginning."""
    pairs = zip(before, after, nights, strict=False)
    return next((night.label for old, new, night in pairs if old != new), None)
