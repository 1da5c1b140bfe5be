"""What others published, as evidence for a claim: every figure with its source, its meter and what it leaves open.

In: published rows (`bench.cited`) and a claim. Out: estimates. A row answers only where every condition that its source states is
the claim's; what the source does not state is listed. Rows of one source are one voice: an interval needs two sources. Vendors'
claims and crashes are evidence of nothing (`Cited.unusable`); what another trainer took is shown and judges nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from bench.cited import Cited
from bench.claims.asked import described, differing, profiles
from bench.claims.claim import Claim, Estimate
from bench.claims.claim import Side as Asked
from bench.intervals import interval
from bench.predict.cited_machines import machine_of
from bench.predict.cited_models import cited_models
from bench.predict.evidence import Observation, observe
from bench.spec import Cell

PEAK_METERS = ("allocated", "mlx_peak", "active")
"""Meters of the framework's own peak, which the claims mean; others are shown and judge nothing."""
PEAKS = ("peak_bytes", "peak_bytes_per_parameter")
SCOPES = ((re.compile(r"per card|GPU alone", re.IGNORECASE), "gpu-board"), (re.compile(r"wall", re.IGNORECASE), "wall"))
"""What a source says that its watts cover."""
SERVED = "inference"


@dataclass(frozen=True)
class Published:
    """The rows, and of each what it proves, or why nothing."""

    rows: tuple[Cited, ...]
    observed: tuple[Observation, ...]


def prepared(rows: Iterable[Cited]) -> Published:
    """The rows with what each proves."""
    kept = tuple(row for row in rows if row.unusable is None)
    found = tuple(each for row in kept if isinstance(each := observe(row), Observation))
    return Published(kept, found)


def estimates(claim: Claim, known: Published) -> list[Estimate]:
    """What the rows say of the claim; those that cannot judge it come with the reason."""
    if claim.kind == "fit":
        return list(_fits(claim, known.observed))
    if claim.kind == "ratio":
        return list(_ratios(claim, known.observed))
    if claim.kind == "winner":
        return [each for side in claim.sides for row in known.rows for each in _decoded(claim, side, row)]
    if len(claim.sides) == 1:
        return _by_source(_numbers(claim, known))
    return []


def _numbers(claim: Claim, known: Published) -> Iterator[Estimate]:
    """Peaks, watts and rates of generating, a row each."""
    if claim.quantity in PEAKS:
        yield from (each for seen in known.observed for each in _peak(claim, seen))
    elif claim.quantity == "power_w":
        yield from (each for row in known.rows for each in _watts(claim, row))
    elif claim.quantity == "tokens_per_s":
        yield from (each for row in known.rows for each in _decoded(claim, claim.sides[0], row))


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


def _peak(claim: Claim, seen: Observation) -> Iterator[Estimate]:
    cell, apart = _nearest(claim, seen)
    if cell is None or seen.peak_bytes is None or not _is_there(claim.sides[0], seen, cell):
        return
    per = (cell.workload.model.parameters or 0) if claim.quantity == "peak_bytes_per_parameter" else 1
    if not per:
        return
    meter = f"meter {seen.meter}: not the framework's own peak" if seen.meter not in PEAK_METERS else None
    yield replace(_of(seen, cell, apart), value=seen.peak_bytes / per, refused=_refused(seen, apart) or meter)


def _nearest(claim: Claim, seen: Observation) -> tuple[Cell | None, list[str]]:
    """The cell among those that the row may be of that meets most of the claim's conditions, and those that it does not meet."""
    found: list[tuple[list[str], Cell]] = []
    for cell in seen.cells:
        work = cell.workload
        declared = {name: getattr(work, name) for name in claim.conditions}
        apart = differing(claim, work.model.name, work.method, declared)
        if apart is not None:
            found.append((apart, cell))
    if not found:
        return None, []
    apart, cell = min(found, key=lambda each: len(each[0]))
    return cell, apart


def _is_there(asked: Asked, seen: Observation, cell: Cell) -> bool:
    """Whether the row is of the side's machine, where it names one."""
    named = seen.machine is not None and seen.machine.name in asked.machines
    return (not asked.machines or named) and (not asked.backends or cell.backend in asked.backends)


def _of(seen: Observation, cell: Cell, apart: Sequence[str]) -> Estimate:
    return Estimate(
        tier="published",
        what=described(cell.workload.model.name, cell.workload.method),
        who=f"{seen.framework} on {seen.machine.name if seen.machine else 'an unknown machine'}",
        value=None,
        n=1,
        evidence=(seen.id,),
        conditions=", ".join(apart) or f"meter {seen.meter or 'none'}",
        unstated=seen.missing,
        source=seen.source,
    )


def _refused(seen: Observation, apart: Sequence[str]) -> str | None:
    if not seen.own:
        return f"another trainer ({seen.framework})"
    return "under other conditions: " + ", ".join(apart) if apart else None


def _fits(claim: Claim, observed: Sequence[Observation]) -> Iterator[Estimate]:
    """What ran with no more memory than the machine has runs there; what ran out with no less does not."""
    for profile, seen in product(profiles(claim.sides[0]), observed):
        cell, apart = _nearest(claim, seen)
        there = seen.capacity_bytes
        if cell is None or there is None or cell.device != ("cuda" if profile.gpu else "metal"):
            continue
        ran = seen.outcome == "ok"
        if seen.outcome not in ("ok", "oom") or (there > profile.capacity_bytes if ran else there < profile.capacity_bytes):
            continue
        room = None if seen.peak_bytes is None else 1 - seen.peak_bytes / profile.capacity_bytes
        yield replace(_of(seen, cell, apart), value=float(ran), headroom=room, refused=_refused(seen, apart))


def _ratios(claim: Claim, observed: Sequence[Observation]) -> Iterator[Estimate]:
    """Pairs of rows whose every stated condition is the same, whatever they leave open."""
    usable = [(seen, *_nearest(claim, seen)) for seen in observed]
    sides = [
        [
            (seen, cell, apart)
            for seen, cell, apart in usable
            if cell is not None and _is_there(asked, seen, cell) and _figure(claim, seen)
        ]
        for asked in claim.sides
    ]
    for first, cell, apart in sides[0]:
        for second, other, _ in sides[1]:
            if cell.workload.digest != other.workload.digest:
                continue
            both = replace(_of(first, cell, apart), who=f"{first.framework} ÷ {second.framework}", evidence=(first.id, second.id))
            value = (_figure(claim, first) or 0.0) / (_figure(claim, second) or 1.0)
            unstated = tuple(sorted({*first.missing, *second.missing}))
            yield replace(both, value=value, unstated=unstated, refused=_refused(first, apart) or _refused(second, apart))


def _figure(claim: Claim, seen: Observation) -> float | None:
    if claim.quantity in PEAKS:
        return seen.peak_bytes if seen.meter in PEAK_METERS else None
    return seen.tokens_per_s


def _watts(claim: Claim, row: Cited) -> Iterator[Estimate]:
    """Watts while it trained; those while it generated are shown, and those that a vendor names as a maximum are none."""
    profile = machine_of(row.hardware or "", row.memory_gb)
    if row.watts is None or profile is None or profile.name not in claim.sides[0].machines or "vendor" in (row.method or ""):
        return
    scope = next((name for pattern, name in SCOPES if pattern.search(f"{row.notes} {row.source}")), None)
    trained = row.method in ("full", "LoRA", "QLoRA")
    obstacles = {
        "read while it generated, not while it trained": not trained and "serve" not in claim.methods,
        f"covers {scope or 'what is not stated'}, the claim's {claim.scope}": claim.scope is not None and scope != claim.scope,
    }
    yield replace(
        _of_row(row, profile.name),
        value=row.watts,
        refused=next((reason for reason, stands in obstacles.items() if stands), None),
    )


def _decoded(claim: Claim, side: Asked, row: Cited) -> Iterator[Estimate]:
    """Rates of generating on the side's chip or card, by whatever program: another than ours, so shown and judging nothing."""
    profile = machine_of(row.hardware or "", row.memory_gb)
    model = cited_models().get(row.model or "")
    asked = "serve" in claim.methods and row.method == SERVED and row.tokens_per_s is not None
    if (
        not asked
        or profile is None
        or not any((profile.chip, profile.gpu) == (each.chip, each.gpu) for each in profiles(side))
        or model is None
        or model.name not in claim.models
    ):
        return
    yield replace(_of_row(row, profile.name), value=row.tokens_per_s, refused=f"another program ({row.framework})")


def _of_row(row: Cited, machine: str) -> Estimate:
    return Estimate(
        tier="published",
        what=f"{row.model or 'unknown model'} {row.method or ''}".strip(),
        who=f"{row.framework or 'unknown'} on {machine}",
        value=None,
        n=1,
        evidence=(row.id,),
        conditions=(row.notes or "").partition(";")[0],
        source=row.source,
    )
