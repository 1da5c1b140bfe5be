"""A number with its interval, and the evidence that it rests on.

In: nothing. Out: `Figure`, which every part of an advice is told in. The interval of what was measured is 95%, of what is
predicted 80%; None where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bench.claims.claim import Tier
from bench.predict.capacity import Z80

Z95 = 1.96
LONE_SPREAD = 0.1
"""Of the logarithm of a single run's rate, which shows no spread of its own: an assumption, wider than repeated runs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`evidence` are run ids, or how it was predicted. `scope` says what watts, joules and money cover; None for all else."""

    value: float
    low: float | None
    high: float | None
    tier: Tier
    evidence: tuple[str, ...]
    scope: str | None = None

    def times(self, factor: float) -> Figure:
        """The figure in another unit, or so many times over."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return replace(self, value=self.value * factor, low=low, high=high)

    def dividing(self, total: float) -> Figure:
        """How long a total takes at this rate: the interval turns over."""
        low, high = (None if not end else total / end for end in (self.high, self.low))
        return replace(self, value=total / self.value, low=low, high=high)

    @property
    def spread(self) -> float:
        """Standard deviation of its logarithm, by its interval: of few runs rather too much, for theirs is wide (Student's t)."""
        if not self.low or self.high is None:
            return LONE_SPREAD
        return math.log(self.high / self.low) / 2 / (Z80 if self.tier == "predicted" else Z95)
