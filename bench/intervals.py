"""Means and intervals of what spreads by factors: rates, times, bytes.

In: the values of repeated runs. Out: geometric means, and 95% intervals from Student's t on logs (Welch's for ratios). These
cover as often as they say with as few as three runs (a test simulates it); percentile bootstraps of so few are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

CONFIDENCE = 0.95


def geometric_mean(values: pd.Series[float]) -> float:
    """The geometric mean of measured values: zero where one is zero, NaN where none was measured or one is below zero."""
    known = values.dropna()
    if known.empty or known.min() < 0:
        return math.nan
    least, most = float(known.min()), float(known.max())
    return least if least in (0, most) else float(np.exp(np.log(known).mean()))


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float] | None:
    """(ratio, low, high): ratio of geometric means with Welch's 95% interval on logs.

    Low and high are NaN where a side has fewer than two values; None where a side has none, or one not above zero.
    """
    if not len(above) or not len(below) or min(*above, *below) <= 0:
        return None
    first, second = np.log(np.asarray(above, float)), np.log(np.asarray(below, float))
    ratio = float(np.exp(first.mean() - second.mean()))
    if len(first) < 2 or len(second) < 2:
        return ratio, math.nan, math.nan
    if first.std() == 0 and second.std() == 0:
        return ratio, ratio, ratio
    bounds = stats.ttest_ind(first, second, equal_var=False).confidence_interval(CONFIDENCE)
    return ratio, float(np.exp(bounds.low)), float(np.exp(bounds.high))


@cache
def t_quantile(n: int) -> float:
    """How many standard errors of n values the interval reaches to each side; NaN without a degree of freedom."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
