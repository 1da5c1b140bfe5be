"""Means and intervals of what spreads by factors: rates, times, bytes.

In: the values of repeated runs, one value a run. Out: geometric means, and 95% intervals of them and of their ratios. Below ten
runs: Student's t on logs (Welch's for a ratio). From ten (a ratio: ten on both sides): the percentile bootstrap on logs, read
at levels further out than 2.5% and 97.5%, since of few values the plain one is too narrow. Both cover as often as they say
(a test simulates it). The resamples are drawn by a fixed seed, so equal values give equal intervals, in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95
BOOTSTRAP_FROM = 10
"""Runs a side from which the bootstrap takes over from Student's t."""
RESAMPLES = 5_000
"""So many that another seed would move a bound by 2% of its distance from the mean (one standard deviation, measured)."""

MOST_LOG = 709.0
"""The logarithm of the largest number of 64 bits."""

_Logs = NDArray[np.float64]
_Number = TypeVar("_Number", float, NDArray[np.float64])


def geometric_mean(values: pd.Series[float] | Sequence[float]) -> float:
    """The geometric mean of measured values: zero where one is zero, NaN where none was measured or one is below zero."""
    return _mean(_measured(values))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): the geometric mean and its 95% interval; NaN counts as not measured.

    Low and high are NaN with fewer than two values, or a value that is not above zero; the mean is as in `geometric_mean`.
    """
    known = _measured(values)
    mean = _mean(known)
    if len(known) < 2 or known.min() <= 0:
        return mean, math.nan, math.nan
    if known.min() == known.max():
        return mean, mean, mean
    low, high = _bounds(np.log(known))
    return mean, _exp(low), _exp(high)


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float] | None:
    """(ratio, low, high): ratio of geometric means with its 95% interval; the two sides may spread differently.

    Low and high are NaN where a side has fewer than two values; None where a side has none, or one not above zero.
    """
    if not len(above) or not len(below) or min(*above, *below) <= 0:
        return None
    first, second = (np.log(np.sort(np.asarray(side, float))) for side in (above, below))
    ratio = float(np.exp(first.mean() - second.mean()))
    if len(first) < 2 or len(second) < 2:
        return ratio, math.nan, math.nan
    if first.std() == 0 and second.std() == 0:
        return ratio, ratio, ratio
    low, high = _bounds(first, second)
    return ratio, _exp(low), _exp(high)


@cache
def t_quantile(n: int) -> float:
    """How many standard errors of n values Student's interval reaches to each side; NaN without a degree of freedom."""
    return _t_quantile(n - 1) if n > 1 else math.nan


@cache
def widening(n: int, family: int) -> float:
    """By how much a 95% interval of n values has to reach further, for all of a family of them to hold at once (Bonferroni)."""
    from scipy.special import stdtrit

    degrees = max(1, n - 1)
    return float(stdtrit(degrees, 1 - (1 - CONFIDENCE) / 2 / family) / stdtrit(degrees, (1 + CONFIDENCE) / 2))


def _measured(values: pd.Series[float] | Sequence[float]) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = np.asarray(values, float)
    known: NDArray[np.float64] = np.sort(numbers[~np.isnan(numbers)])
    return known


def _exp(log: float) -> float:
    """Infinite where the number would be too large: values a hundred powers of ten apart bound nothing."""
    return math.exp(log) if log < MOST_LOG else math.inf


def _mean(known: NDArray[np.float64]) -> float:
    if not len(known) or known.min() < 0:
        return math.nan
    least, most = float(known.min()), float(known.max())
    return least if least in (0, most) else float(np.exp(np.log(known).mean()))


def _t_quantile(degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def _bounds(*sides: _Logs) -> tuple[float, float]:
    """Of the first side's mean, less the second's where there are two. Sides are sorted; one of them at least spreads.

    Welch (1947): the squared standard errors add up; their degrees of freedom by Satterthwaite. Of one side that is Student's t.
    """
    errors = [float(side.var(ddof=1)) / len(side) for side in sides]
    error = math.sqrt(sum(errors))
    degrees = sum(errors) ** 2 / sum(each**2 / (len(side) - 1) for each, side in zip(errors, sides, strict=True))
    reach = _t_quantile(degrees)
    if min(map(len, sides)) >= BOOTSTRAP_FROM:
        return _bootstrap(sides, reach * error)
    centre = _difference([float(side.mean()) for side in sides])
    return centre - reach * error, centre + reach * error


def _bootstrap(sides: Sequence[_Logs], reach: float) -> tuple[float, float]:
    """The percentile bootstrap at expanded levels, of the difference of the sides' means.

    Resampled means spread too little, by sqrt((n - 1) / n), and plain percentiles take the spread as if it were known. So they
    are read where a normal distribution of the resampled spread would reach as far as Student's t does (`reach`); what is left
    to the bootstrap is the shape: a lopsided sample gets a lopsided interval. Hesterberg, "What Teachers Should Know About the
    Bootstrap" (2015), section 5.3: expanded percentiles. (The studentised bootstrap is as exact on normal logs, but one
    outlying run among ten equal ones makes it absurdly wide.)
    """
    from scipy.special import ndtr

    spread = math.sqrt(sum(float(side.var()) / len(side) for side in sides))
    level = float(ndtr(-reach / spread))
    means = _difference([_resampling(len(side), which) @ side for which, side in enumerate(sides)])
    low, high = np.quantile(means, [level, 1 - level])
    return float(low), float(high)


def _difference(means: list[_Number]) -> _Number:
    return means[0] - means[1] if len(means) == 2 else means[0]


@lru_cache(maxsize=64)
def _resampling(n: int, which: int) -> _Logs:
    """(RESAMPLES, n): with which weight each of n values counts in each resample; another draw for either side of a ratio.

    Kept (some 40 kB a run of n), for reports and sweeps ask for the same few n over and over.
    """
    random = np.random.default_rng([n, which])
    return random.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
