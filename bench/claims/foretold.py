"""Predictions as evidence for a claim, where nothing was measured or published.

In: a claim. Out: estimates, one for each work and stack of the machines that the claim names; of the machine-independent memory
claims, one for each stack that knows the work. Intervals are the predictor's, 80%. The evidence of each is the `predict` command
that gives the same figures, or two, where it sets two stacks against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from bench.catalog import MachineProfile, machine_profiles
from bench.claims.asked import cells, described, profiles, works
from bench.claims.claim import Claim, Estimate
from bench.claims.claim import Side as Asked
from bench.predict.answer import predict
from bench.predict.command import predict_command
from bench.predict.prediction import Prediction, verdict
from bench.reading.strict import BadFile
from bench.spec import BadInput, Cell, Workload

LESSON = ("pc-rtx-4090", "mac-studio-m3-ultra")
"""On whose stacks the claims are judged that name no machine: a peak depends on the stack, not on how large the memory is."""
PARTS = {f"{part}_bytes_per_parameter": part for part in ("weights", "gradients", "optimizer")}
NOTHING = (None, None, None)
FOUR_PARTS = ("weights", "gradients", "optimizer", "activations")
RULES = "rules"
"""In the place of a command, where no option of `predict` asks what the claim does: an implementation, say."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What is predicted of one stack."""

    machine: str
    cell: Cell
    found: Prediction

    @property
    def who(self) -> str:
        return f"{self.cell.backend}@{self.cell.device}"

    @property
    def command(self) -> str:
        """What gives the same figures."""
        return predict_command(self.cell, self.machine) or RULES


def estimates(claim: Claim) -> list[Estimate]:
    """What is predicted; nothing for what no prediction is about."""
    if claim.kind == "support" or claim.fits in ("slow", "crash"):  # how something ends that does not fit, nothing predicts
        return []
    if claim.kind == "winner":
        return list(_winners(claim))
    if len(claim.sides) == 2:
        return list(_ratios(claim))
    if claim.kind == "fit":
        return [_fit(work, each) for work in works(claim) for each in _predicted(claim.sides[0], work)]
    if claim.quantity in ("capacity_share", "memory_bytes_per_s"):
        return []
    made = (_number(claim, work, each) for work in works(claim) for each in _predicted(claim.sides[0], work))
    return [each for each in made if each is not None]


def _predicted(side: Asked, work: Workload) -> Iterator[Foretold]:
    machines = profiles(side) or tuple(each for each in machine_profiles() if each.name in LESSON)
    for profile in machines:
        for cell in cells(side, profile, work):
            found = answer(cell, profile)
            if found is not None:
                yield Foretold(profile.name, cell, found)


@cache
def answer(cell: Cell, profile: MachineProfile) -> Prediction | None:
    """A prediction by closed form, made once; None for a configuration that states no sizes."""
    try:
        return predict(cell, profile)
    except BadFile:  # a fault of the calibration
        raise
    except BadInput:  # a configuration without sizes
        return None


def _number(claim: Claim, work: Workload, each: Foretold) -> Estimate | None:
    value, low, high = _values(claim, work, each.found)
    if value is None or (claim.quantity in ("tokens_per_s", "power_w") and each.found.fits == "no"):
        return None
    return _estimate(work, each, value, low, high)


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


def _fit(work: Workload, each: Foretold) -> Estimate:
    there = each.found.capacity_bytes
    made = _estimate(work, each, each.found.fit_probability)
    room = None if not there else 1 - each.found.memory.held_bytes / there
    return replace(made, headroom=room)


def _estimate(
    work: Workload, each: Foretold, value: float | None, low: float | None = None, high: float | None = None
) -> Estimate:
    return Estimate(
        tier="predicted",
        what=described(work.model.name, work.method),
        who=each.who,
        value=value,
        low=low,
        high=high,
        n=1,
        evidence=(each.command,),
        conditions="by closed form and calibration",
        source="reports/prediction.md",
    )


def _ratios(claim: Claim) -> Iterator[Estimate]:
    """First over second, each by its best stack."""
    for work in works(claim):
        first, second = (_best(claim, side, work) for side in claim.sides)
        if first is None or second is None:
            continue
        (one, value, spread), (other, below, beside) = first, second
        width = math.exp(math.hypot(spread, beside))
        ratio = value / below
        yield Estimate(
            tier="predicted",
            what=described(work.model.name, work.method),
            who=f"{one.who} ÷ {other.who}",
            value=ratio,
            low=ratio / width,
            high=ratio * width,
            sides=(value, below),
            n=1,
            evidence=(one.command, other.command),
            conditions=f"workload {work.digest}",
            source="reports/prediction.md",
        )


def _best(claim: Claim, side: Asked, work: Workload) -> tuple[Foretold, float, float] | None:
    """(stack, value, half width of its interval in logs) of the fastest that surely fits, or of the one that needs least."""
    memory = claim.quantity == "peak_bytes"
    found = []
    for each in _predicted(side, work):
        value, low, high = _values(claim, work, each.found)
        if value is None or not value or (not memory and each.found.fits != "yes"):
            continue
        spread = math.log(high / low) / 2 if low and high else 0.0
        found.append((each, float(value), spread))
    if not found:
        return None
    return min(found, key=lambda each: each[1]) if memory else max(found, key=lambda each: each[1])


def _winners(claim: Claim) -> Iterator[Estimate]:
    """The only one that can, else the faster."""
    rates = {each.what: each for each in _ratios(replace(claim, quantity="tokens_per_s"))}
    for work in works(claim):
        what = described(work.model.name, work.method)
        likeliest = [each for side in claim.sides if (each := _likeliest(side, work)) is not None]
        names = [", ".join(side.machines) for side in claim.sides]
        if len(likeliest) < len(claim.sides):
            continue
        can = [verdict(each.found.fit_probability or 0.0) for each in likeliest]
        commands = [each.command for each in likeliest]
        if can == ["no", "no"]:
            yield _neither(what, names, commands)
            continue
        if can == ["yes", "yes"]:
            if what in rates:
                yield rates[what]
            continue
        yield _only(what, names, can, commands)


def _only(what: str, names: Sequence[str], can: Sequence[str], commands: Sequence[str]) -> Estimate:
    """One of them alone surely can; or it is not sure who can, and nobody has won."""
    sure = sorted(can) == ["no", "yes"]
    unsure = [name for name, each in zip(names, can, strict=True) if each == "tight"]
    return Estimate(
        tier="predicted",
        what=what,
        who=" ÷ ".join(names),
        value=(math.inf if can[0] == "yes" else 0.0) if sure else 1.0,
        n=1,
        evidence=tuple(commands),
        conditions=f"only {names[can.index('yes')]} can" if sure else f"it may fit {' and '.join(unsure)}, or not",
        source="reports/prediction.md",
    )


def _neither(what: str, names: Sequence[str], commands: Sequence[str]) -> Estimate:
    """Nobody has won what neither can do: it counts against whoever is said to win it."""
    return Estimate(
        tier="predicted",
        what=what,
        who=" ÷ ".join(names),
        value=math.nan,
        n=1,
        evidence=tuple(commands),
        conditions="neither can",
        source="reports/prediction.md",
    )


def _likeliest(side: Asked, work: Workload) -> Foretold | None:
    """Of the side's stacks the one that fits with the best probability."""
    found = [each for each in _predicted(side, work) if each.found.fit_probability is not None]
    return max(found, key=lambda each: each.found.fit_probability or 0.0, default=None)
