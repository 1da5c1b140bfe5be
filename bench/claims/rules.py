"""The rules of judging, one for each kind of claim. `docs/verdicts.md` says them in words.

In: a claim and its estimates, all of one tier. Out: a `Ruling`. Pure functions of numbers: scale-free, and the same when both
machines change places and the ratio is turned over. Each estimate is first answered by itself; then they are weighed together so
that more evidence in one direction never turns the verdict the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from bench.claims.claim import Claim, Estimate, Expected, Kind, Verdict
from bench.claims.contest import winners
from bench.claims.found import Edges, Found, band, together
from bench.claims.ruling import Ruling, more_runs, named
from bench.intervals import widening

Answer = Literal["inside", "outside", "wrong", "unclear"]
"""What one estimate says of the claim: its number holds; another number does, in its direction; the direction, or the fit, is
wrong; it cannot be told yet."""
AGAINST: tuple[Answer, ...] = ("wrong", "outside")
"""The answers that contradict a claim, the worst first."""
ABOVE = (1.0, None)
"""What an order expects where the claim says no more."""
ORDER_OF_MAGNITUDE = math.sqrt(10)
"""A value further than this factor from the claim's is of another order of magnitude: no refinement of it, but its refutation."""
SURE = 0.9
"""From this probability on something fits, and up to one less it does not: as in `predict`."""
NAMED = 3
"""Of those that say otherwise, so many are named in the reason."""
ROOM = 0.1
"""Of the capacity: what a fit that is called tight may leave free at most."""


def rule(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """The verdict on estimates that have a value; `untested` without any."""
    if not estimates:
        return Ruling("untested", "nothing that answers it is known")
    return RULES[claim.kind](claim, estimates)


def _numbers(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Values, ranges, ratios and orders."""
    assert claim.expected is not None
    edges = band(claim.expected, claim.tolerance)
    answers = [_guarded(claim, _speaking(each), len(estimates)) for each in estimates]
    against = [each for answer, each in zip(answers, estimates, strict=True) if answer in AGAINST]
    if against:
        alike = not set(AGAINST) <= set(answers)
        said = _said_against(claim, answers, estimates) + _reach(against, edges)
        return Ruling("refuted" if "wrong" in answers else "refined", said, together(against, edges, alike))
    found = together(estimates, edges)
    if all(answer == "inside" for answer in answers):
        return Ruling("verified", _said_for(claim, answers), found)
    return Ruling("inconclusive", _why_unclear(answers, estimates), found, more_runs(claim, estimates))


def _speaking(estimate: Estimate) -> Estimate:
    """A prediction speaks by its middle value: its interval says how far to trust it, and is shown."""
    return replace(estimate, low=estimate.value, high=estimate.value) if estimate.tier == "predicted" else estimate


def _said_for(claim: Claim, answers: Sequence[Answer]) -> str:
    expected = claim.expected
    assert expected is not None
    if claim.kind == "order" and (expected.low, expected.high) == ABOVE:
        return f"{_of(answers, 'inside', 'lie')} above 1"
    within = f", within {claim.tolerance:.0%}" if claim.tolerance else ""
    if expected.low == expected.high:
        return f"{_of(answers, 'inside')} the claim's number{within}"
    return f"{_of(answers, 'inside', 'lie')} in the claimed range{within}"


def _said_against(claim: Claim, answers: Sequence[Answer], estimates: Sequence[Estimate]) -> str:
    """How many contradict the claim, and how far; those that are named are the worst."""
    there = [which for which in AGAINST if which in answers]
    told = [_contradiction(claim, answers, which) for which in there]
    return "; ".join([told[0] + _named(answers, there[0], estimates), *told[1:]])


def _contradiction(claim: Claim, answers: Sequence[Answer], which: Answer) -> str:
    expected = claim.expected
    assert expected is not None
    if claim.kind == "order":
        where = "below 1" if (expected.low, expected.high) == ABOVE else "outside the claimed range"
        return f"{_of(answers, which, 'lie')} {where}"
    ratio = claim.kind == "ratio"
    if which == "wrong":
        return f"{_of(answers, which)} {'the opposite direction' if ratio else 'another order of magnitude'}"
    how = ", of its order of magnitude" if not ratio else ", in its direction" if expected.direction else ""
    return f"{_of(answers, which)} another number than the claim's{how}"


def _reach(against: Sequence[Estimate], edges: Edges) -> str:
    """Of predictions that contradict the claim, how many have an interval that does not."""
    reaching = sum(
        each.tier == "predicted" and each.low is not None and each.high is not None and _meets(each.low, each.high, edges)
        for each in against
    )
    if not reaching:
        return ""
    return f"; the 80% interval {f'of {reaching} of them ' if reaching < len(against) else ''}reaches what is claimed"


def _meets(low: float, high: float, edges: Edges) -> bool:
    return high >= edges[0] and low <= edges[1]


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
    if _meets(estimate.low, estimate.high, (low, high)):
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


def _headroom(estimates: Sequence[Estimate]) -> Found | None:
    rooms = [each.headroom for each in estimates if each.headroom is not None]
    least, most = min(rooms, default=0.0), max(rooms, default=0.0)
    return Found(most, least, most, least, most, len(rooms)) if rooms else None


def _support(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """Which stack has what. Two sides: 1 where only the first has it, -1 where only the second, else 0. One side: 1 where so."""
    values = [each.value or 0.0 for each in estimates]
    for_it, against = sum(value > 0 for value in values), sum(value < 0 for value in values)
    if len(claim.sides) > 1:
        one, two = (named(side) for side in claim.sides)
        told = f"of {len(values)} techniques {for_it} are on {one} alone, {against} on {two} alone"
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
    "winner": winners,
    "support": _support,
}


def _of(answers: Sequence[Answer], which: Answer, verb: str = "say") -> str:
    count = sum(answer == which for answer in answers)
    return f"{count} of {len(answers)} {verb}" + ("s" if count == 1 else "")


def _named(answers: Sequence[Answer], which: Answer, estimates: Sequence[Estimate]) -> str:
    """Who says so, where some say otherwise."""
    names = [f"{each.what} by {each.who}" for answer, each in zip(answers, estimates, strict=True) if answer == which]
    if len(names) == len(answers):
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f": {', '.join(names[:NAMED])}{more}"


def _why_unclear(answers: Sequence[Answer], estimates: Sequence[Estimate]) -> str:
    single = sum(each.low is None for each in estimates)
    unclear = sum(answer == "unclear" for answer in answers)
    if single:
        return f"{single} of {len(estimates)} have no interval: one run, or one source, says nothing of its spread"
    return f"{unclear} of {len(answers)} intervals reach over the edge of what is claimed"
