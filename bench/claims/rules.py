"""The rules of judging, one for each kind of claim. `docs/verdicts.md` says them in words.

In: a claim and its estimates, all of one tier. Out: a `Ruling`. Pure functions of numbers: scale-free, and the same when both
machines change places and the ratio is turned over. Each estimate is first answered by itself; then they are weighed together so
that more evidence in one direction never turns the verdict the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench.claims.claim import Claim, Estimate, Expected, Kind, Side, Verdict
from bench.intervals import widening

Answer = Literal["inside", "outside", "wrong", "unclear"]
"""What one estimate says of the claim: its number holds; another number does, in its direction; the direction, or the fit, is
wrong; it cannot be told yet."""
ORDER_OF_MAGNITUDE = math.sqrt(10)
"""A value further than this factor from the claim's is of another order of magnitude: no refinement of it, but its refutation."""
SURE = 0.9
"""From this probability on something fits, and up to one less it does not: as in `predict`."""
NAMED = 3
"""Of those that say otherwise, so many are named in the reason."""
ROOM = 0.1
"""Of the capacity: what a fit that is called tight may leave free at most."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """`verdict` is never of a prediction: the judge renames it. `replacement` is (value, low, high) of what was found."""

    verdict: Verdict
    reason: str
    replacement: tuple[float, float | None, float | None] | None = None
    more_runs: int | None = None


def rule(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """The verdict on estimates that have a value; `untested` without any."""
    if not estimates:
        return Ruling("untested", "nothing that answers it is known")
    return RULES[claim.kind](claim, estimates)


def band(expected: Expected, tolerance: float) -> tuple[float, float]:
    """What still counts as the claim's number: tolerance as a factor, so that it is alike above and below."""
    low = 0.0 if expected.low is None else expected.low / (1 + tolerance)
    high = math.inf if expected.high is None else expected.high * (1 + tolerance)
    return low, high


def _numbers(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Values, ranges, ratios and orders."""
    assert claim.expected is not None
    answers = [_guarded(claim, each, len(estimates)) for each in estimates]
    found = together(estimates)
    if "wrong" in answers:
        said = f"{_of(answers, 'wrong')} {_opposite(claim)}"
        return Ruling("refuted", said + _named(answers, "wrong", estimates), together(_those(answers, "wrong", estimates)))
    if "outside" in answers:
        said = f"{_of(answers, 'outside')} another number than the claim's, in its direction"
        return Ruling("refined", said + _named(answers, "outside", estimates), together(_those(answers, "outside", estimates)))
    if all(answer == "inside" for answer in answers):
        return Ruling("verified", f"{_of(answers, 'inside')} the claim's number, within {claim.tolerance:.0%}", found)
    return Ruling("inconclusive", _why_unclear(answers, estimates), found, _more_runs(claim, estimates))


def _opposite(claim: Claim) -> str:
    return "the opposite direction" if claim.kind in ("ratio", "order") else "another order of magnitude"


def _guarded(claim: Claim, estimate: Estimate, family: int) -> Answer:
    """One of many refutes the whole claim, so its interval has to be so wide that one of many seldom errs."""
    answer = _of_number(claim, estimate)
    if answer != "wrong" or family == 1 or estimate.tier != "measured" or not estimate.low or estimate.high is None:
        return answer
    middle = math.sqrt(estimate.low * estimate.high)
    reach = (estimate.high / estimate.low) ** (widening(estimate.n, family) / 2)
    wider = replace(estimate, low=middle / reach, high=middle * reach)
    return "wrong" if _of_number(claim, wider) == "wrong" else "unclear"


def _of_number(claim: Claim, estimate: Estimate) -> Answer:
    expected = claim.expected
    assert expected is not None
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "unclear"
    low, high = band(expected, claim.tolerance)
    if low <= estimate.low and estimate.high <= high:
        return "inside"
    if estimate.high >= low and estimate.low <= high:
        return "unclear"
    if claim.kind == "order":
        return "wrong"
    return _ratio_outside(expected, estimate) if claim.kind == "ratio" else _value_outside(estimate, low, high)


def _ratio_outside(expected: Expected, estimate: Estimate) -> Answer:
    """An interval beside the claim's: on the same side of one, on the other, or on both."""
    if expected.direction == 0:
        return "outside"
    above, below = (estimate.low or 0) > 1, (estimate.high or 0) < 1
    if not (above or below):
        return "unclear"
    return "outside" if above == (expected.direction > 0) else "wrong"


def _value_outside(estimate: Estimate, low: float, high: float) -> Answer:
    """An interval beside the claim's: of the same order of magnitude, wholly of another, or across the line between."""
    assert estimate.low is not None
    assert estimate.high is not None
    if estimate.high <= 0:
        return "wrong"
    nearest = low / estimate.high if estimate.high < low else estimate.low / high
    return "wrong" if nearest > ORDER_OF_MAGNITUDE else "outside"


def _fits(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Whether a machine can do it: what any of its stacks can do, it can. Estimates of one work (`what`) are of its stacks."""
    works: dict[str, list[Estimate]] = {}
    for each in estimates:
        works.setdefault(each.what, []).append(each)
    answers = [_of_fit(claim, stacks) for stacks in works.values()]
    if "wrong" in answers:
        said = {"no": "fits", "crash": "runs, if slowly", "slow": "does not run"}.get(claim.fits or "", "does not fit")
        return Ruling("refuted", f"{_of(answers, 'wrong')} that it {said}")
    if "outside" in answers:
        how = "with room to spare" if claim.fits == "tight" else "with less room than claimed"
        return Ruling("refined", f"{_of(answers, 'outside')} that it fits, {how}", _headroom(estimates))
    if all(answer == "inside" for answer in answers):
        return Ruling("verified", f"{_of(answers, 'inside')} as claimed", _headroom(estimates))
    return Ruling("inconclusive", "it may fit or not: some runs ended either way, or a prediction is between")


def _of_fit(claim: Claim, stacks: Sequence[Estimate]) -> Answer:
    """Of one work: the stack that leaves the most free counts, for one is enough."""
    best = max(stacks, key=lambda each: (each.value or 0.0, each.headroom or 0.0))
    chance, room = best.value or 0.0, best.headroom
    if claim.fits in ("slow", "crash"):
        chance = max(chance, float(any(each.slow for each in stacks)))
    if claim.fits in ("no", "crash"):
        return "inside" if chance <= 1 - SURE else "wrong" if chance >= SURE else "unclear"
    if chance <= 1 - SURE:
        return "wrong"
    if claim.fits == "tight":
        return _of_tight(chance, room)
    if chance < SURE or (claim.headroom and room is None):
        return "unclear"
    return "inside" if claim.headroom == 0 or room is None or room >= claim.headroom else "outside"


def _of_tight(chance: float, room: float | None) -> Answer:
    """It just fits: so little room that it hardly can be otherwise, or now it fits and now it does not."""
    if chance >= SURE:
        return "unclear" if room is None else "outside" if room > ROOM else "inside"
    return "inside" if room is None or room <= ROOM else "unclear"


def _headroom(estimates: Sequence[Estimate]) -> tuple[float, float | None, float | None] | None:
    rooms = [each.headroom for each in estimates if each.headroom is not None]
    return (max(rooms), min(rooms), max(rooms)) if rooms else None


def _winners(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Who should do it: the only one that can, else the faster. A claim that holds for some work and not for other is refined."""
    won = [_winner(each, claim.tolerance) for each in estimates]
    if claim.winner == "tie":
        return _a_tie(claim, estimates, won)
    right, wrong = won.count(claim.winner), sum(each not in (claim.winner, None) for each in won)
    told = f"{_name(claim.sides[0 if claim.winner == 'first' else 1])} wins {right} of {len(won)}"
    if right and wrong:
        return Ruling("refined", f"{told}; elsewhere it does not", together(estimates))
    if right == len(won):
        return Ruling("verified", told, together(estimates))
    if wrong == len(won):
        return Ruling("refuted", told, together(estimates))
    return Ruling("inconclusive", f"{told}; the rest cannot be told apart", together(estimates), _more_runs(claim, estimates))


def _winner(estimate: Estimate, tolerance: float) -> str | None:
    """`first`, `second`, `tie`; None where it cannot be told."""
    value = estimate.value
    if value is None:
        return None
    if math.isinf(value) or value == 0:
        return "first" if value else "second"
    if estimate.low is None or estimate.high is None:
        return None
    if 1 / (1 + tolerance) <= estimate.low and estimate.high <= 1 + tolerance:
        return "tie"
    return "first" if estimate.low > 1 else "second" if estimate.high < 1 else None


def _a_tie(claim: Claim, estimates: Sequence[Estimate], won: Sequence[str | None]) -> Ruling:
    first, second, ties = (won.count(who) for who in ("first", "second", "tie"))
    one, two = (_name(side) for side in claim.sides)
    told = f"{one} wins {first}, {two} {second}, {ties} are equal, of {len(won)}"
    if (first and second) or ties == len(won):
        return Ruling("verified", told, together(estimates))
    if None in won:
        return Ruling("inconclusive", told, together(estimates))
    return Ruling("refuted", told, together(estimates))


def _name(side: Side) -> str:
    return ", ".join(side.machines or side.backends) or "any"


def _support(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Which stack has what. Two sides: 1 where only the first has it, -1 where only the second, else 0. One side: 1 where so."""
    values = [each.value or 0.0 for each in estimates]
    for_it, against = sum(value > 0 for value in values), sum(value < 0 for value in values)
    if len(claim.sides) > 1:
        told = f"of {len(values)} techniques {for_it} are on the first side alone, {against} on the second alone"
        most = for_it > claim.share * len(values) and not against
        verdict: Verdict = ("verified" if most else "refined") if for_it else "refuted" if against else "inconclusive"
        return Ruling(verdict, told)
    told = f"so on {for_it} of {len(values)}"
    return Ruling("verified" if for_it == len(values) else "refined" if for_it else "refuted", told)


RULES: dict[Kind, Callable[[Claim, Sequence[Estimate]], Ruling]] = {
    "value": _numbers,
    "range": _numbers,
    "ratio": _numbers,
    "order": _numbers,
    "fit": _fits,
    "winner": _winners,
    "support": _support,
}


def together(estimates: Sequence[Estimate]) -> tuple[float, float | None, float | None] | None:
    """What all estimates span: the middle one, and the ends of all intervals (of the values, where there are none)."""
    values = sorted(each.value for each in estimates if each.value is not None and math.isfinite(each.value))
    if not values:
        return None
    middle = math.sqrt(values[(len(values) - 1) // 2] * values[len(values) // 2]) if values[0] > 0 else values[len(values) // 2]
    lows = [each.low for each in estimates if each.low is not None]
    highs = [each.high for each in estimates if each.high is not None]
    if len(values) == 1 and not lows:
        return middle, None, None
    return middle, min([*lows, values[0]]), max([*highs, values[-1]])


def _of(answers: Sequence[Answer], which: Answer) -> str:
    count = sum(answer == which for answer in answers)
    return f"{count} of {len(answers)} say" + ("s" if count == 1 else "")


def _those(answers: Sequence[Answer], which: Answer, estimates: Sequence[Estimate]) -> list[Estimate]:
    """Those that answer so: theirs is the number that takes the claim's place."""
    return [each for answer, each in zip(answers, estimates, strict=True) if answer == which]


def _named(answers: Sequence[Answer], which: Answer, estimates: Sequence[Estimate]) -> str:
    """Who says so, where some say otherwise."""
    named = [f"{each.what} by {each.who}" for each in _those(answers, which, estimates)]
    if len(named) == len(answers):
        return ""
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f": {', '.join(named[:NAMED])}{more}"


def _why_unclear(answers: Sequence[Answer], estimates: Sequence[Estimate]) -> str:
    single = sum(each.low is None for each in estimates)
    unclear = sum(answer == "unclear" for answer in answers)
    if single:
        return f"{single} of {len(estimates)} have no interval: one run, or one source, says nothing of its spread"
    return f"{unclear} of {len(answers)} intervals reach over the edge of what is claimed"


def _more_runs(claim: Claim, estimates: Sequence[Estimate]) -> int | None:
    """How many runs more would narrow the widest interval to one side of its nearest edge: intervals shrink by the root of n."""
    needed = [_needed(claim, each) for each in estimates]
    return max((each for each in needed if each is not None), default=None)


def _needed(claim: Claim, estimate: Estimate) -> int | None:
    if estimate.low is None or estimate.high is None:
        return max(1, 3 - estimate.n) if estimate.tier == "measured" else None
    if not (estimate.value and estimate.low > 0) or estimate.n < 1:
        return None
    edges = (1.0,) if claim.kind == "winner" or claim.expected is None else band(claim.expected, claim.tolerance)
    middle, reach = math.log(estimate.value), (math.log(estimate.high) - math.log(estimate.low)) / 2
    away = min((abs(math.log(edge) - middle) for edge in edges if 0 < edge < math.inf), default=0.0)
    if away <= 0 or reach <= away:
        return None
    return math.ceil(estimate.n * (reach / away) ** 2) - estimate.n
