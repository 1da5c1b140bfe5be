"""What was found in the place of a claim's number: what the answers that a ruling speaks of say together.

In: estimates, and the edges of what counts as claimed. Out: a `Found`, which has a middle only where they agree: between answers
on either side of a claim lies the claim itself, which none of them says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.claims.claim import Estimate, Expected

Edges = tuple[float, float]
ANY: Edges = (0.0, math.inf)
"""Edges that nothing lies beside."""


@dataclass(frozen=True, slots=True)
class Found:
    """What `speaking` answers say: `value` is their middle, None where they do not agree; `least` and `most` are the ends of
    their values, `low` and `high` those of their intervals (None where a single one has no interval).
    """

    value: float | None
    low: float | None
    high: float | None
    least: float
    most: float
    speaking: int


def band(expected: Expected, tolerance: float) -> Edges:
    """What still counts as the claim's number: tolerance as a factor, so that it is alike above and below."""
    low = 0.0 if expected.low is None else expected.low / (1 + tolerance)
    high = math.inf if expected.high is None else expected.high * (1 + tolerance)
    return low, high


def together(estimates: Sequence[Estimate], edges: Edges = ANY, agreed: bool = True) -> Found | None:
    """What these estimates say together; None where none has a finite value. `agreed`: they answer alike."""
    values = sorted(each.value for each in estimates if each.value is not None and math.isfinite(each.value))
    if not values:
        return None
    lows = [each.low for each in estimates if each.low is not None]
    highs = [each.high for each in estimates if each.high is not None]
    bare = len(values) == 1 and not lows
    return Found(
        value=_middle(values) if agreed and not _astride(values, edges) else None,
        low=None if bare else min([*lows, values[0]]),
        high=None if bare else max([*highs, values[-1]]),
        least=values[0],
        most=values[-1],
        speaking=len(values),
    )


def astride(least: float, most: float, edges: Edges) -> bool:
    """Whether the ends lie on either side of what is claimed."""
    return least < edges[0] and most > edges[1]


def _astride(values: Sequence[float], edges: Edges) -> bool:
    """On either side of what is claimed, and none of them there."""
    return astride(values[0], values[-1], edges) and not any(edges[0] <= value <= edges[1] for value in values)


def _middle(values: Sequence[float]) -> float:
    """The median of sorted values, on logs."""
    if values[0] <= 0:
        return values[len(values) // 2]
    return math.sqrt(values[(len(values) - 1) // 2] * values[len(values) // 2])
