"""What others published, as evidence for a claim: every figure with its source, its meter and what it leaves open.

In: published rows (`bench.cited`) and a claim. Out: estimates. A row answers only where every condition that its source states is
the claim's; what the source does not state is listed (`bench.claims.stated`). Rows of one source are one voice: an interval needs
two sources. Vendors' claims and crashes are evidence of nothing (`Cited.unusable`); what another trainer took is shown and judges
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from bench.cited import Cited
from bench.claims.asked import described, differing, profiles
from bench.claims.beside import PEAK_METERS, PEAKS, against, of_row
from bench.claims.claim import Claim, Estimate
from bench.claims.claim import Side as Asked
from bench.claims.stated import SERVED, agree, apart, left_open
from bench.intervals import interval
from bench.predict.cited_machines import machine_of
from bench.predict.cited_models import model_named
from bench.predict.evidence import Observation, observe
from bench.spec import Cell

Pair = tuple[Cited, Observation]


@dataclass(frozen=True)
class Published:
    """Every row, and those that prove something with what they prove."""

    rows: tuple[Cited, ...]
    pairs: tuple[Pair, ...]

    @property
    def observed(self) -> tuple[Observation, ...]:
        return tuple(seen for _, seen in self.pairs)


def prepared(rows: Iterable[Cited]) -> Published:
    """The rows with what each proves; those that are no evidence of anything prove nothing."""
    kept = tuple(rows)
    return Published(kept, tuple((row, seen) for row in kept if isinstance(seen := observe(row), Observation)))


def estimates(claim: Claim, known: Published) -> list[Estimate]:
    """What the rows say of the claim; those that cannot judge it come with the reason."""
    if claim.kind == "fit":
        return list(_fits(claim, known.pairs))
    if claim.kind == "ratio":
        return list(_ratios(claim, known.pairs))
    if claim.kind == "winner":
        return [each for side in claim.sides for row in _usable(known) for each in _alone(claim, side, row)]
    if len(claim.sides) == 1:
        return _by_source(_numbers(claim, known))
    return []


def _usable(known: Published) -> Iterator[Cited]:
    return (row for row in known.rows if row.unusable is None)


def _numbers(claim: Claim, known: Published) -> Iterator[Estimate]:
    """Peaks, watts and rates of generating, a row each."""
    if claim.quantity in PEAKS:
        yield from (each for row, seen in known.pairs for each in _peak(claim, row, seen))
    elif claim.quantity == "power_w":
        yield from (each for row in _usable(known) for each in _watts(claim, row))
    elif claim.quantity == "tokens_per_s":
        yield from (each for row in _usable(known) for each in _decoded(claim, claim.sides[0], row))


def _by_source(found: Iterable[Estimate]) -> list[Estimate]:
    """Usable estimates of one work pooled, a source's median a voice; the refused as they are."""
    every = list(found)
    usable: dict[str, list[Estimate]] = {}
    for each in every:
        if each.refused is None:
            usable.setdefault(each.what, []).append(each)
    return [*(_pooled(group) for group in usable.values()), *(each for each in every if each.refused is not None)]


def _pooled(group: Sequence[Estimate]) -> Estimate:
    sources: dict[str, list[float]] = {}
    for each in group:
        sources.setdefault(each.source, []).append(each.value or 0.0)
    mean, low, high = interval([median(values) for values in sources.values()])
    return replace(
        group[0],
        value=mean,
        low=None if math.isnan(low) else low,
        high=None if math.isnan(high) else high,
        n=len(group),
        who="; ".join(sorted({each.who for each in group})),
        evidence=tuple(row_id for each in group for row_id in each.evidence),
        unstated=tuple(sorted({name for each in group for name in each.unstated})),
        source="; ".join(sorted(sources)),
    )


def _peak(claim: Claim, row: Cited, seen: Observation) -> Iterator[Estimate]:
    cell = seen.cells[0]
    if seen.peak_bytes is None or not _is_asked(claim, cell) or not _is_there(claim.sides[0], seen, cell):
        return
    per = (cell.workload.model.parameters or 0) if claim.quantity == "peak_bytes_per_parameter" else 1
    if not per:
        return
    meter = f"meter {seen.meter}: not the framework's own peak" if seen.meter not in PEAK_METERS else None
    yield replace(_of(claim, row, seen), value=seen.peak_bytes / per, refused=_refused(claim, row, seen, meter))


def _is_asked(claim: Claim, cell: Cell) -> bool:
    """Whether the claim is about that model and method; every cell that a row may be of has the same."""
    return differing(claim, cell.workload.model.name, cell.workload.method, {}) is not None


def _is_there(asked: Asked, seen: Observation, cell: Cell) -> bool:
    """Whether the row is of the side's machine, where it names one."""
    named = seen.machine is not None and seen.machine.name in asked.machines
    return (not asked.machines or named) and (not asked.backends or cell.backend in asked.backends)


def _of(claim: Claim, row: Cited, seen: Observation) -> Estimate:
    work = seen.cells[0].workload
    return Estimate(
        tier="published",
        what=described(work.model.name, work.method),
        who=f"{seen.framework} on {seen.machine.name if seen.machine else 'an unknown machine'}",
        value=None,
        n=1,
        evidence=(seen.id,),
        conditions=", ".join(apart(claim, row)) or f"meter {seen.meter or 'none'}",
        unstated=left_open(claim, row, seen.missing),
        source=seen.source,
    )


def _refused(claim: Claim, row: Cited, seen: Observation, more: str | None = None) -> str | None:
    """Every reason, `; ` between them; None where there is none."""
    others = ", ".join(apart(claim, row))
    reasons = (
        None if seen.own else f"another trainer ({seen.framework})",
        f"under other conditions: {others}" if others else None,
        more,
    )
    return "; ".join(filter(None, reasons)) or None


def _fits(claim: Claim, pairs: Sequence[Pair]) -> Iterator[Estimate]:
    """What ran with no more memory than the machine has runs there; what ran out with no less does not."""
    for profile, (row, seen) in product(profiles(claim.sides[0]), pairs):
        there, cell = seen.capacity_bytes, seen.cells[0]
        if there is None or not _is_asked(claim, cell) or cell.device != ("cuda" if profile.gpu else "metal"):
            continue
        ran = seen.outcome == "ok"
        if seen.outcome not in ("ok", "oom") or (there > profile.capacity_bytes if ran else there < profile.capacity_bytes):
            continue
        room = None if seen.peak_bytes is None else 1 - seen.peak_bytes / profile.capacity_bytes
        yield replace(_of(claim, row, seen), value=float(ran), headroom=room, refused=_refused(claim, row, seen))


def _ratios(claim: Claim, pairs: Sequence[Pair]) -> Iterator[Estimate]:
    """Pairs of rows of the same work that say nothing different of how it was done, whatever they leave open."""
    sides = [
        [(row, seen) for row, seen in pairs if _is_asked(claim, seen.cells[0]) and _is_of(claim, asked, seen)]
        for asked in claim.sides
    ]
    for (row, first), (other, second) in product(*sides):
        if _work(first) != _work(second) or not agree(claim, row, other):
            continue
        above, below = _figure(claim, first) or 0.0, _figure(claim, second) or 1.0
        both, against_it = _of(claim, row, first), _of(claim, other, second)
        yield replace(
            both,
            who=f"{first.framework} ÷ {second.framework}",
            evidence=(first.id, second.id),
            value=above / below,
            sides=(above, below),
            unstated=tuple(sorted({*both.unstated, *against_it.unstated})),
            source="; ".join(dict.fromkeys((first.source, second.source))),
            refused=_refused(claim, row, first) or _refused(claim, other, second),
        )


def _is_of(claim: Claim, asked: Asked, seen: Observation) -> bool:
    return _figure(claim, seen) is not None and _is_there(asked, seen, seen.cells[0])


def _work(seen: Observation) -> tuple[str, str]:
    """The model and the method of a row."""
    work = seen.cells[0].workload
    return work.model.name, work.method


def _figure(claim: Claim, seen: Observation) -> float | None:
    if claim.quantity in PEAKS:
        return seen.peak_bytes if seen.meter in PEAK_METERS else None
    return seen.tokens_per_s


def _watts(claim: Claim, row: Cited) -> Iterator[Estimate]:
    """Watts read on the machine; what is no mean of the claim's own work is shown, a vendor's maximum is no reading."""
    profile = machine_of(row.hardware or "", row.memory_gb)
    if row.watts is None or profile is None or profile.name not in claim.sides[0].machines or "vendor" in (row.method or ""):
        return
    yield replace(of_row(claim, row, profile.name), value=row.watts, refused=against(claim, row))


def _decoded(claim: Claim, side: Asked, row: Cited) -> Iterator[Estimate]:
    """Rates of generating on the side's chip or card, by whatever program and with whatever memory beside it."""
    profile, model = machine_of(row.hardware or "", row.memory_gb), model_named(row.model or "")
    asked = "serve" in claim.methods and row.method == SERVED and row.tokens_per_s is not None
    if not asked or profile is None or model is None or model.name not in claim.models:
        return
    if any((profile.chip, profile.gpu) == (each.chip, each.gpu) for each in profiles(side)):
        yield replace(of_row(claim, row, profile.name), value=row.tokens_per_s, refused=against(claim, row))


def _alone(claim: Claim, side: Asked, row: Cited) -> Iterator[Estimate]:
    """A rate of one machine is no contest: it is shown, and judges nothing."""
    for each in _decoded(claim, side, row):
        yield replace(each, quantity="tokens_per_s", refused=each.refused or "one machine's rate, with none beside it")
