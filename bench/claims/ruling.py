"""What a rule ends with, and what the rules share: the names of sides, and how many runs more would settle a claim.

In: a claim and its estimates. Out: a `Ruling`, and the parts of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.claims.claim import Claim, Estimate, Side, Verdict
from bench.claims.found import Edges, Found, band


@dataclass(frozen=True, slots=True)
class Ruling:
    """`verdict` is never of a prediction: the judge renames it. `found` is the number that speaks for it."""

    verdict: Verdict
    reason: str
    found: Found | None = None
    more_runs: int | None = None


def named(side: Side) -> str:
    """The side's machines, its stacks, or both."""
    where, who = ", ".join(side.machines), ", ".join(side.backends or side.devices)
    return f"{where} ({who})" if who and where else where or who or "any"


def edges_of(claim: Claim) -> Edges:
    """Between what lies what is claimed: a number, or a tie. Of a claimed winner both are 1, where neither is ahead."""
    if claim.expected is not None:
        return band(claim.expected, claim.tolerance)
    margin = 1 + claim.tolerance if claim.winner == "tie" else 1.0
    return 1 / margin, margin


def more_runs(claim: Claim, estimates: Sequence[Estimate]) -> int | None:
    """How many runs more would narrow the widest interval to one side of its nearest edge: intervals shrink by the root of n."""
    needed = [_needed(edges_of(claim), each) for each in estimates]
    return max((each for each in needed if each is not None), default=None)


def _needed(edges: Edges, estimate: Estimate) -> int | None:
    if estimate.low is None or estimate.high is None:
        return max(1, 3 - estimate.n) if estimate.tier == "measured" else None
    if not (estimate.value and estimate.low > 0) or estimate.n < 1:
        return None
    middle, reach = math.log(estimate.value), (math.log(estimate.high) - math.log(estimate.low)) / 2
    away = min((abs(math.log(edge) - middle) for edge in edges if 0 < edge < math.inf), default=0.0)
    if away <= 0 or reach <= away:
        return None
    return math.ceil(estimate.n * (reach / away) ** 2) - estimate.n
