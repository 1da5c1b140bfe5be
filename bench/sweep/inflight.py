"""Runs that have begun and not yet ended, so that none of them can vanish.

In: a run's skeleton, before its worker starts. Out: after a crash of the harness or of the machine, the skeletons of the runs
that were under way, for the next sweep to enter as `interrupted` or `machine_lost`. A marker is a small JSON file in
`results/.inflight/`, removed once the run's row is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from bench.files.atomic import adopted, publish, staged, sweep
from bench.files.layout import checked_run_id, set_aside
from bench.limits import Limit
from bench.record import checked_night
from bench.spec import Cell

FOLDER = ".inflight"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Marker:
    """One run under way: which, since when, of which machine, in which life of its operating system, under what memory limit,
    for which night.
    """

    run_id: str
    started_at: datetime
    machine: str
    machine_id: str
    suite: str
    question: str
    boot: str
    cell: Cell
    limit: Limit | None = None
    night: str | None = None

    def path(self, results: Path) -> Path:
        return results / FOLDER / f"{self.run_id}.json"


def boot_id() -> str:
    """What tells one boot of this system from the next; without /proc, the time of boot in whole minutes."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        import psutil

        return str(round(psutil.boot_time() / 60))


@contextmanager
def under_way(results: Path, marker: Marker) -> Iterator[None]:
    """Mark the run for the block. The marker is on disk when the block begins, and goes with its end, but stays after an error.

    It stays locked meanwhile, so that no other sweep takes a run that is being measured for one that was left behind.
    """
    path = marker.path(results)
    content = {**asdict(marker), "started_at": marker.started_at.isoformat()}
    with staged(path, json.dumps(content).encode()) as temporary:
        publish(temporary, path)
        temporary.unlink()
        yield
        forget(results, marker.run_id)


def forget(results: Path, run_id: str) -> None:
    """The run's row is stored: remove its marker."""
    (results / FOLDER / f"{run_id}.json").unlink(missing_ok=True)


def left_behind(results: Path, machine_id: str, note: Callable[[str], None]) -> Iterator[Marker]:
    """Markers of this machine whose harness is gone, oldest first, each held against other sweeps while it is dealt with.

    One that cannot be read (of a newer version, or somebody's own file) is set aside in `results/quarantine/`, with a note; the
    temporary files of killed writers are removed.
    """
    sweep(results / FOLDER)
    for path in sorted((results / FOLDER).glob("*.json")):
        with adopted(path) as ours:
            if not ours:
                continue
            try:
                marker = _read(path)
            except UNREADABLE as error:
                moved_to = set_aside(results, path)
                note(f"{path}: no marker of a run ({error}); {f'moved to {moved_to}' if moved_to else 'it stays where it is'}")
                continue
            if marker.machine_id == machine_id:
                yield marker


def _read(path: Path) -> Marker:
    content = json.loads(path.read_text())
    if path.stem != checked_run_id(content["run_id"]):
        raise ValueError("it names another run than its file")
    started_at = datetime.fromisoformat(content["started_at"])
    if started_at.tzinfo is None:
        raise ValueError("its time has no zone")
    texts = {name: str(content[name]) for name in ("run_id", "machine", "machine_id", "suite", "question", "boot")}
    limit = Limit(**content["limit"]) if content.get("limit") else None
    night = None if content.get("night") is None else checked_night(content["night"])
    return Marker(**texts, started_at=started_at, cell=Cell.from_json(content["cell"]), limit=limit, night=night)
