"""Claims of support: which side of a claim has its techniques, from the support matrix.

In: a claim of kind `support` and a `Matrix`. Out: `Estimate`s. With two sides one for each technique: 1 where only the first side
has it, -1 where only the second, 0 where both or neither; with one side one for each technique and place, 1 where it is so and
0 where not. What is not known has no value and says why.

A machine has the stacks that are used on it: with an NVIDIA card hf and unsloth, with Apple silicon mlx and unsloth. A side that
names backends or devices has those of them alone. It has a technique where one of its stacks does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.catalog import machine_profiles
from bench.claims.claim import Claim, Estimate, Side, Tier
from bench.support import Answer, Has, Matrix
from bench.techniques import PLACES, Home, Place

CARD: Home = "cuda"
APPLE: Home = "metal"


@dataclass(frozen=True, slots=True)
class _Held:
    """What a side has of one technique, and the answers that say so."""

    has: Has
    answers: tuple[Answer, ...]


def estimates(claim: Claim, matrix: Matrix) -> list[Estimate]:
    """The claim's estimates, in the order of its techniques."""
    if len(claim.sides) == 1:
        return [_alone(technique, place, matrix) for technique in claim.techniques for place in places(claim.sides[0])]
    return [_between(technique, claim.sides, matrix) for technique in claim.techniques]


def places(side: Side) -> tuple[Place, ...]:
    """The stacks of a side, each on its device."""
    homes = _homes(side)
    return tuple(
        (stack, home)
        for stack, home in PLACES
        if home in homes and (not side.backends or stack in side.backends) and (not side.devices or home in side.devices)
    )


def _homes(side: Side) -> set[Home]:
    """The devices of the machines that the side names; all where it names none."""
    if not side.machines:
        return {CARD, APPLE}
    return {CARD if profile.gpu else APPLE for profile in machine_profiles() if profile.name in side.machines}


def _alone(technique: str, place: Place, matrix: Matrix) -> Estimate:
    held = _held(technique, (place,), matrix)
    who = "@".join(place)
    if held.has == "unknown":
        return _unknown(technique, who, held.answers)
    return _estimate(technique, who, 1.0 if held.has == "yes" else 0.0, held.answers)


def _between(technique: str, sides: Sequence[Side], matrix: Matrix) -> Estimate:
    """One technique on the first side against the second."""
    first, second = (_held(technique, places(side), matrix) for side in sides)
    who = " against ".join(_named(side) for side in sides)
    answers = (*first.answers, *second.answers)
    if "unknown" in (first.has, second.has):
        return _unknown(technique, who, tuple(each for each in answers if each.has == "unknown"))
    return _estimate(technique, who, float((first.has == "yes") - (second.has == "yes")), answers)


def _held(technique: str, where: tuple[Place, ...], matrix: Matrix) -> _Held:
    """`yes` where one of the places has it, `no` where none has; the answers that decide it, or leave it open."""
    answers = tuple(answer for place in where if (answer := matrix.of(technique, place)) is not None)
    there = tuple(each for each in answers if each.has == "yes")
    if there:
        return _Held("yes", there)
    unknown = tuple(each for each in answers if each.has == "unknown")
    if unknown or len(answers) < len(where) or not where:
        return _Held("unknown", unknown)
    return _Held("no", answers)


def _estimate(technique: str, who: str, value: float, answers: tuple[Answer, ...]) -> Estimate:
    return Estimate(
        tier=_tier(answers),
        what=technique,
        who=who,
        value=value,
        n=len(answers),
        evidence=tuple(f"{_place(each)} {each.has}: {each.reason}" for each in answers),
        source="; ".join(dict.fromkeys(each.evidence for each in answers if each.evidence)),
    )


def _unknown(technique: str, who: str, answers: tuple[Answer, ...]) -> Estimate:
    why = "; ".join(f"{_place(each)} {each.reason}" for each in answers) or "no such technique, or no stack on that side"
    return Estimate(tier=_tier(answers), what=technique, who=who, value=None, refused=why)


def _tier(answers: tuple[Answer, ...]) -> Tier:
    """The weakest of what it rests on."""
    return "measured" if answers and all(each.probed for each in answers) else "published"


def _place(answer: Answer) -> str:
    return f"{answer.stack}@{answer.home}"


def _named(side: Side) -> str:
    """The side's machines, or its stacks."""
    return ", ".join(side.machines) or ", ".join("@".join(place) for place in places(side))
