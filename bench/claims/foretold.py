"""Predictions as evidence for a claim, where nothing was measured or published.

In: a claim. Out: estimates, one for each work and stack of the machines that the claim names; of the machine-independent memory
claims, one for each stack that knows the work. Intervals are the predictor's, 80%.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from bench.catalog import MachineProfile, machine_profiles
from bench.claims.asked import cells, described, profiles, works
from bench.claims.claim import Claim, Estimate
from bench.claims.claim import Side as Asked
from bench.predict.answer import predict
from bench.predict.prediction import Prediction, verdict
from bench.reading.strict import BadFile
from bench.spec import BadInput, Cell, Workload

LESSON = ("pc-rtx-4090", "mac-studio-m3-ultra")
"""On whose stacks the claims are judged that name no machine: a peak depends on the stack, not on how large the memory is."""
PARTS = {f"{part}_bytes_per_parameter": part for part in ("weights", "gradients", "optimizer")}
NOTHING = (None, None, None)
FOUR_PARTS = ("weights", "gradients", "optimizer", "activations")


def estimates(claim: Claim) -> list[Estimate]:
    """What is predicted; nothing for what no prediction is about."""
    if claim.kind == "support" or claim.fits in ("slow", "crash"):  # how something ends that does not fit, nothing predicts
        return []
    if claim.kind == "winner":
        return list(_winners(claim))
    if len(claim.sides) == 2:
        return list(_ratios(claim))
    if claim.kind == "fit":
        return [_fit(work, cell, found) for work in works(claim) for cell, found in _predicted(claim.sides[0], work)]
    if claim.quantity in ("capacity_share", "memory_bytes_per_s"):
        return []
    made = (_number(claim, work, cell, found) for work in works(claim) for cell, found in _predicted(claim.sides[0], work))
    return [each for each in made if each is not None]


def _predicted(side: Asked, work: Workload) -> Iterator[tuple[Cell, Prediction]]:
    machines = profiles(side) or tuple(each for each in machine_profiles() if each.name in LESSON)
    for profile in machines:
        for cell in cells(side, profile, work):
            found = answer(cell, profile)
            if found is not None:
                yield cell, found


@cache
def answer(cell: Cell, profile: MachineProfile) -> Prediction | None:
    """A prediction by closed form, made once; None for a configuration that states no sizes."""
    try:
        return predict(cell, profile)
    except BadFile:  # a fault of the calibration
        raise
    except BadInput:  # a configuration without sizes
        return None


def _number(claim: Claim, work: Workload, cell: Cell, found: Prediction) -> Estimate | None:
    value, low, high = _values(claim, work, found)
    if value is None or (claim.quantity in ("tokens_per_s", "power_w") and found.fits == "no"):
        return None
    return _estimate(work, cell, value, low, high)


def _values(claim: Claim, work: Workload, found: Prediction) -> tuple[float | None, float | None, float | None]:
    memory, speed, parameters = found.memory, found.speed, work.model.parameters
    quantity = claim.quantity or ""
    if quantity == "tokens_per_s":
        return speed.tokens_per_s, speed.tokens_per_s_low, speed.tokens_per_s_high
    if quantity == "power_w":
        watts = (speed.power_w, speed.power_low_w, speed.power_high_w)
        return watts if claim.scope in (None, speed.power_scope) else NOTHING
    if quantity == "parts_over_rest":
        four = sum(memory.parts[name] for name in FOUR_PARTS)
        rest = sum(memory.parts.values()) - four
        return (four / rest if rest else None), None, None
    per = parameters or 0 if quantity.endswith("_per_parameter") else 1
    if quantity in PARTS and per:
        return memory.parts[PARTS[quantity]] / per, None, None
    if quantity.startswith("peak_bytes") and per:
        return memory.peak_bytes / per, memory.peak_low_bytes / per, memory.peak_high_bytes / per
    return NOTHING


def _fit(work: Workload, cell: Cell, found: Prediction) -> Estimate:
    there = found.capacity_bytes
    made = _estimate(work, cell, found.fit_probability)
    room = None if not there else 1 - found.memory.held_bytes / there
    return replace(made, headroom=room)


def _estimate(work: Workload, cell: Cell, value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(
        tier="predicted",
        what=described(work.model.name, work.method),
        who=f"{cell.backend}@{cell.device}",
        value=value,
        low=low,
        high=high,
        n=1,
        evidence=("rules",),
        conditions="by closed form and calibration",
        source="reports/prediction.md",
    )


def _ratios(claim: Claim) -> Iterator[Estimate]:
    """First over second, each by its best stack."""
    for work in works(claim):
        first, second = (_best(claim, side, work) for side in claim.sides)
        if first is None or second is None:
            continue
        (cell, value, spread), (other, below, beside) = first, second
        width = math.exp(math.hypot(spread, beside))
        ratio = value / below
        yield Estimate(
            tier="predicted",
            what=described(work.model.name, work.method),
            who=f"{cell.backend}@{cell.device} ÷ {other.backend}@{other.device}",
            value=ratio,
            low=ratio / width,
            high=ratio * width,
            n=1,
            evidence=("rules",),
            conditions=f"workload {work.digest}",
            source="reports/prediction.md",
        )


def _best(claim: Claim, side: Asked, work: Workload) -> tuple[Cell, float, float] | None:
    """(cell, value, half width of its interval in logs) of the fastest stack that surely fits, or of the one that needs least."""
    memory = claim.quantity == "peak_bytes"
    found = []
    for cell, prediction in _predicted(side, work):
        value, low, high = _values(claim, work, prediction)
        if value is None or not value or (not memory and prediction.fits != "yes"):
            continue
        spread = math.log(high / low) / 2 if low and high else 0.0
        found.append((cell, float(value), spread))
    if not found:
        return None
    return min(found, key=lambda each: each[1]) if memory else max(found, key=lambda each: each[1])


def _winners(claim: Claim) -> Iterator[Estimate]:
    """The only one that can, else the faster."""
    rates = {each.what: each for each in _ratios(replace(claim, quantity="tokens_per_s"))}
    for work in works(claim):
        what = described(work.model.name, work.method)
        chances = [_chance(side, work) for side in claim.sides]
        names = [", ".join(side.machines) for side in claim.sides]
        if None in chances:
            continue
        can = [verdict(each or 0.0) for each in chances]
        if can == ["no", "no"]:
            continue
        if can == ["yes", "yes"]:
            if what in rates:
                yield rates[what]
            continue
        yield _only(what, names, can)


def _only(what: str, names: Sequence[str], can: Sequence[str]) -> Estimate:
    """One of them alone surely can; or it is not sure who can, and nobody has won."""
    sure = sorted(can) == ["no", "yes"]
    unsure = [name for name, each in zip(names, can, strict=True) if each == "tight"]
    return Estimate(
        tier="predicted",
        what=what,
        who=" ÷ ".join(names),
        value=(math.inf if can[0] == "yes" else 0.0) if sure else 1.0,
        n=1,
        evidence=("rules",),
        conditions=f"only {names[can.index('yes')]} can" if sure else f"it may fit {' and '.join(unsure)}, or not",
        source="reports/prediction.md",
    )


def _chance(side: Asked, work: Workload) -> float | None:
    """The best probability of fitting among the side's stacks."""
    found: Sequence[float] = [each.fit_probability for _, each in _predicted(side, work) if each.fit_probability is not None]
    return max(found, default=None)
