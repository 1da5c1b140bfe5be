"""Who wins what: size × method × context -> which of two machines, by how much, and where it flips.

In: what is known of both machines' best stacks for each work (`bench.advise.stack`), gathered by `bench.refine.gather`. Out: a
`Contest` for each work, and the `Flip`s between neighbours along size and along context. The winner is the machine that is the
likelier one to choose: it fits, and the other does not or is slower. Where no choice is right with even odds, nobody wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from bench.advise.contest import chances, likely
from bench.advise.stack import Stack
from bench.claims.claim import TIERS, Tier
from bench.predict.prediction import EVEN

Why = Literal["faster", "the only one that fits", "neither fits", "probably neither fits", "undecided", "not known"]
Axis = Literal["parameters", "sequence_length"]
AXES: tuple[Axis, ...] = ("parameters", "sequence_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """One work on two machines. `winner` is a machine's name; None: neither fits (surely, or more likely than not), neither is
    the one to choose with even odds ("undecided"), or nothing is known.

    `chance` is the probability that the winner is the one to choose, or of neither fitting, where that is said. `ratio` is the
    first machine's rate over the second's, with an interval of both sides' own levels; None where one of them is unlikely to fit.
    """

    model: str
    parameters: int
    method: str
    sequence_length: int
    stacks: tuple[Stack, Stack]
    winner: str | None
    why: Why
    chance: float | None
    ratio: float | None
    low: float | None
    high: float | None
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class Flip:
    """Where the winner changes along an axis, all else equal: between two neighbours.

    `about` is the place between them by interpolation: of what is needed against what is there, or of the ratio of the rates.
    None where neither changes sides alone.
    """

    axis: Axis
    below: Contest
    above: Contest
    about: float | None


@dataclass(frozen=True, slots=True)
class WinnerMap:
    """All contests of two machines, by method, size and context, and the flips among them."""

    first: str
    second: str
    contests: tuple[Contest, ...]
    flips: tuple[Flip, ...]


def winner_map(first: str, second: str, contests: Iterable[Contest]) -> WinnerMap:
    """The map of given contests."""
    ordered = tuple(sorted(contests, key=lambda each: (each.method, each.parameters, each.sequence_length)))
    return WinnerMap(first, second, ordered, tuple(flip for axis in AXES for flip in flips(ordered, axis)))


def contest(first: Stack, second: Stack) -> Contest:
    """The work of both stacks, which is the same; each is the best one of its machine."""
    work = first.cell.workload
    place, why, chance = _won(first, second)
    ratio, low, high = _ratio(first, second) if likely(first) and likely(second) else (None, None, None)
    evidence = {each.tier for stack in (first, second) for each in (stack.fit, stack.rate) if each is not None}
    return Contest(
        model=work.model.name,
        parameters=work.model.parameters or 0,
        method=work.method,
        sequence_length=work.sequence_length,
        stacks=(first, second),
        winner=None if place is None else (first, second)[place].profile.name,
        why=why,
        chance=chance,
        ratio=ratio,
        low=low,
        high=high,
        tiers=tuple(tier for tier in TIERS if tier in evidence),
    )


def _won(first: Stack, second: Stack) -> tuple[int | None, Why, float | None]:
    """(which of the two, why, how likely): the first, the second or neither is right, and one of the three has to be likely."""
    if first.fit is None or second.fit is None:
        return None, "not known", None
    right = chances([first, second])
    neither = (1 - first.chance) * (1 - second.chance)
    if neither > EVEN:
        return None, "neither fits" if first.fit.fits == second.fit.fits == "no" else "probably neither fits", neither
    place = right.index(max(right))
    if right[place] < EVEN:
        return None, "undecided", None
    return place, "faster" if likely(first) and likely(second) else "the only one that fits", right[place]


def _ratio(first: Stack, second: Stack) -> tuple[float | None, float | None, float | None]:
    one, other = first.rate, second.rate
    if one is None or other is None:
        return None, None, None
    value = one.value / other.value
    if not one.low or not other.low or one.high is None or other.high is None:
        return value, None, None
    width = math.exp(math.hypot(math.log(one.high / one.low), math.log(other.high / other.low)) / 2)
    return value, value / width, value * width


def flips(contests: Sequence[Contest], axis: Axis) -> Iterator[Flip]:
    """Between neighbours along the axis: of one method, and of one context or one model."""
    held = _context if axis == "parameters" else _model
    ordered = sorted(contests, key=lambda each: (each.method, held(each), getattr(each, axis)))
    for _, group in groupby(ordered, key=lambda each: (each.method, held(each))):
        for below, above in pairwise(group):
            if below.winner != above.winner:
                yield Flip(axis, below, above, _about(below, above, axis))


def _context(each: Contest) -> str:
    return f"{each.sequence_length:012}"


def _model(each: Contest) -> str:
    return each.model


def _about(below: Contest, above: Contest, axis: Axis) -> float | None:
    """Where the one thing that changes sides crosses over, on logs of both."""
    pairs = [(_shortage(one), _shortage(other)) for one, other in zip(below.stacks, above.stacks, strict=True)]
    pairs.append((_lead(below), _lead(above)))
    crossing = [(one, other) for one, other in pairs if one is not None and other is not None and (one > 0) != (other > 0)]
    start, end = (math.log(getattr(each, axis) or 1) for each in (below, above))
    if len(crossing) != 1:
        return None
    one, other = crossing[0]
    return math.exp(start + (end - start) * one / (one - other))


def _shortage(stack: Stack) -> float | None:
    """Above zero where more is needed than there is: the logarithm of their ratio."""
    return None if not stack.needs_bytes else math.log(stack.needs_bytes / stack.capacity_bytes)


def _lead(each: Contest) -> float | None:
    return None if not each.ratio else math.log(each.ratio)
