"""The rule of claims about winners: which of two machines is the one to do a work on.

In: a claim of kind `winner` and its estimates, one for each work. Out: a `Ruling`. A machine wins a work where it alone can do
it, else where it is surely faster. A work that neither can do is won by nobody, so it counts against a claimed winner; a work
that nothing is known of is as open as one whose interval reaches over 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from bench.claims.claim import Claim, Estimate, Verdict
from bench.claims.found import together
from bench.claims.ruling import Ruling, edges_of, more_runs, named

Outcome = Literal["first", "second", "equal", "neither", "open"]


def winners(claim: Claim, estimates: Sequence[Estimate]) -> Ruling:
    """A claim that holds for some of the work and not for other is refined."""
    outcomes = [_outcome(each, claim) for each in estimates]
    won = Counter(outcomes)
    silent = max(0, len(claim.models) * len(claim.methods) - len({each.what for each in estimates}))
    told = _told_of_a_tie if claim.winner == "tie" else _told
    verdict = (_of_a_tie if claim.winner == "tie" else _of_a_winner)(claim, won, won["open"] + silent)
    unsure = [each for each, outcome in zip(estimates, outcomes, strict=True) if outcome == "open"]
    more = more_runs(claim, unsure) if verdict == "inconclusive" else None
    return Ruling(verdict, told(claim, won, silent), together(estimates, edges_of(claim)), more)


def _outcome(estimate: Estimate, claim: Claim) -> Outcome:
    """What became of one work. A winner needs no lead but a sure one; where a tie is claimed, a lead beyond its tolerance."""
    value = estimate.value
    if value is None:
        return "open"
    if math.isnan(value):
        return "neither"
    if math.isinf(value) or value == 0:
        return "first" if value else "second"
    if estimate.low is None or estimate.high is None:
        return "open"
    least, most = edges_of(claim)
    if estimate.low > most or estimate.high < least:
        return "first" if estimate.low > most else "second"
    return "equal" if claim.winner == "tie" and least <= estimate.low and estimate.high <= most else "open"


def _of_a_winner(claim: Claim, won: Counter[Outcome], unsettled: int) -> Verdict:
    right, wrong = (won["first"], won["second"]) if claim.winner == "first" else (won["second"], won["first"])
    wrong += won["neither"]
    if right and wrong:
        return "refined"
    return "inconclusive" if unsettled else "refuted" if wrong else "verified"


def _of_a_tie(claim: Claim, won: Counter[Outcome], unsettled: int) -> Verdict:
    """Each wins some, or all are equal; what neither can do is no tie. One wins some and the rest are equal: part of one."""
    if won["first"] and won["second"]:
        return "refined" if won["neither"] else "verified"
    if unsettled:
        return "inconclusive"
    if not won["equal"]:
        return "refuted"
    return "refined" if won["first"] or won["second"] or won["neither"] else "verified"


def _told(claim: Claim, won: Counter[Outcome], silent: int) -> str:
    """How many works the claimed winner wins, and who or what has the others."""
    counts = [(named(claim.sides[0]), won["first"]), (named(claim.sides[1]), won["second"])]
    (mine, right), (other, lost) = counts if claim.winner == "first" else counts[::-1]
    told = f"{mine} wins {right} of {sum(won.values()) + silent}"
    return "; ".join([told, *([f"{other} wins {lost}"] if lost else []), *_rest(won, silent)])


def _told_of_a_tie(claim: Claim, won: Counter[Outcome], silent: int) -> str:
    one, two = (named(side) for side in claim.sides)
    all_ = sum(won.values()) + silent
    told = f"{one} wins {won['first']}, {two} {won['second']}, {won['equal']} are equal, of {all_}"
    return "; ".join([told, *_rest(won, silent)])


def _rest(won: Counter[Outcome], silent: int) -> list[str]:
    """What nobody has won, and why."""
    told = {
        f"neither can do {won['neither']}": won["neither"],
        f"{won['open']} cannot be told apart": won["open"],
        f"of {silent} nothing is known": silent,
    }
    return [text for text, count in told.items() if count]
