"""Which share of its limit a machine draws under load, fitted on metered watts.

In: published rows with watts. Out: `Metered`, the share of the limit that each saw, or why its watts say nothing; and the `Load`
of them all. A share is of one thing on both sides: a board's watts of the board's limit, a whole Mac's at the wall of what Apple
gives as its most. Decoding counts as load beside training: both keep the device busy, one by products, the other by reading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from bench.catalog import MachineProfile
from bench.cited import Cited
from bench.predict.cited_machines import machine_of
from bench.predict.cited_terms import method_of
from bench.predict.fractions import ASSUMED_LOAD, Load
from bench.predict.spelling import machine_parts
from bench.predict.spread import MOST_SPREAD

WALL = re.compile(r"\bwall\b|whole (machine|pc|computer)", re.IGNORECASE)
LEAST_SHARE = 0.01
LEAST_SPREAD = 0.05
"""Of watts, as a logarithm: boards of a kind differ, and a meter at the wall reads to a few per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """One row's watts, and the limit of what was metered, both of one device."""

    id: str
    source: str
    machine: MachineProfile
    watts: float
    limit_w: float
    doing: str

    @property
    def log_share(self) -> float:
        return math.log(self.watts / self.limit_w)


def power_rows(rows: Iterable[Cited]) -> tuple[tuple[Metered, ...], dict[str, str]]:
    """Those that say something, and by id why others do not."""
    found: list[Metered] = []
    refused: dict[str, str] = {}
    for row in rows:
        if row.watts is None:
            continue
        metered = _metered(row, row.watts)
        if isinstance(metered, Metered):
            found.append(metered)
        else:
            refused[row.id] = metered
    return tuple(found), refused


def _metered(row: Cited, watts: float) -> Metered | str:
    doing = "decoding" if row.method == "inference" else "training" if method_of(row) else None
    if doing is None:
        return "a vendor's maximum, not a reading" if "vendor" in (row.method or "") else f"{row.method}: not the GPU's load"
    machine = machine_of(row.hardware or "", row.memory_gb)
    if machine is None or machine.board_power_w is None:
        return "no limit is known of the machine"
    wall = bool(WALL.search(row.notes or "")) or machine_parts(row.hardware or "").chip != machine_parts(_own_name(machine)).chip
    if wall and machine.gpu is not None:
        return "a whole PC at the wall: no limit is known of its other parts"
    return Metered(id=row.id, source=row.family, machine=machine, watts=watts, limit_w=machine.board_power_w, doing=doing)


def _own_name(machine: MachineProfile) -> str:
    return machine.gpu or machine.chip or ""


def fit_load(found: Sequence[Metered]) -> Load:
    """Mean over sources, among which the assumption counts as one; so does its spread."""
    sources = source_shares(found)
    if not sources:
        return ASSUMED_LOAD
    share = (sum(sources.values()) + math.log(ASSUMED_LOAD.share)) / (len(sources) + 1)
    within = _within(found)
    between = (ASSUMED_LOAD.spread**2 + sum((each - share) ** 2 for each in sources.values())) / (len(sources) + 1)
    spread = math.sqrt(within + between)
    return Load(
        share=round(min(1.0, max(LEAST_SHARE, math.exp(share))), 3),
        spread=round(min(MOST_SPREAD, max(LEAST_SPREAD, spread)), 3),
        rows=len(found),
        sources=len(sources),
    )


def source_shares(found: Iterable[Metered]) -> dict[str, float]:
    """The median logarithm of each source."""
    ordered = sorted(found, key=lambda each: (each.source, each.log_share))
    return {source: median(each.log_share for each in rows) for source, rows in groupby(ordered, key=lambda each: each.source)}


def _within(found: Sequence[Metered]) -> float:
    """Variance of rows about their source's median; a source of one row tells none."""
    middles = source_shares(found)
    rows = [(each.log_share - middles[each.source]) ** 2 for each in found]
    return fmean(rows) * len(rows) / freedom if (freedom := len(rows) - len(middles)) > 0 else 0.0
