"""Whether a cell fits: what it is predicted to hold, against what a process can have.

In: a `Memory`, a capacity in bytes. Out: a probability. What is held is taken to be log-normal: its logarithm is normal, with the
predicted value as the middle and the 80% interval as wide as it is said to be. The two sides of the interval may differ; each
half of the distribution has its own width.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from bench.predict.prediction import Memory

Z80 = NormalDist().inv_cdf(0.9)
LEAST_SPREAD = 1e-3
"""An interval of no width would make a certainty of a rounding error."""


def fit_probability(memory: Memory, capacity_bytes: int) -> float:
    """The probability that what the process holds stays within `capacity_bytes`, 0 to 1."""
    away = math.log(max(capacity_bytes, 1) / memory.held_bytes)
    end = memory.held_high_bytes if away > 0 else memory.held_low_bytes
    spread = max(LEAST_SPREAD, abs(math.log(max(end, 1) / memory.held_bytes)) / Z80)
    return NormalDist().cdf(away / spread)
