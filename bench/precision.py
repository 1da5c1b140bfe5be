"""When a cell has been run often enough for the precision asked for (`run --precision 2%`).

In: the rates of a cell's clean runs in the order in which they were made, and the half-width wanted of the 95% interval of their
geometric mean, as a share of it (0.02: ±2%). Out: how many more runs to make now, and an estimate of how many it would take.

The rule: stop when the interval that is reported anyway (`bench.intervals`) has been narrow enough after each of the last six
runs. So no cell stops before its seventh. Why not at the first narrow one: intervals are narrow when runs happen to agree, so
whoever stops there reports intervals that cover the truth 90% of the time instead of 95%. Six in a row are the correction: a
lucky agreement seldom lasts. By simulation with spreads of 0.5% to 10% and precisions of 1% to 5% the interval at stopping covers
about 94% where the spread is one to two and a half times the precision (93.5 to 94% at worst), and 95% where
it is small. For the same coverage a stricter level, an inflated spread or few looks far apart cost more runs on the mean.

What it costs: mean runs against the fewest that would do if the spread were known (the oracle, three at least):

    spread / precision    0.1   0.5    1    1.5    2    2.5    3
    oracle                  3     4    7     12   18     27   38
    this rule             7.3   8.7   12     16   23     31   41
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.intervals import interval, t_quantile

IN_A_ROW = 6
"""After how many runs in a row the interval has to be narrow enough; the earliest of them is the second."""
FEWEST_RUNS = IN_A_ROW + 1
"""No cell stops before, and one that has no clean rate by then is given up."""
MOST_RUNS = 50
"""The ceiling on runs of a cell, those without a rate included; the caller keeps it (here they can't be seen)."""


def missing(rates: Sequence[float], precision: float) -> int:
    """How many more runs to make now, whatever they show; then ask again. 0: the interval is narrow enough.

    They may be made one by one or as a batch: none of them can turn out superfluous. Rates that are not finite and above zero
    are no measurements and don't count. The answer depends on nothing else, so a sweep that is resumed goes on as it would have.
    `precision` is above 0.
    """
    known = _usable(rates)
    if not known:
        return FEWEST_RUNS
    return IN_A_ROW - _narrow_in_a_row(known, precision)


def needed(rates: Sequence[float], precision: float) -> int | None:
    """How many more runs it would take in all, if they spread as these do; 0 when done, None with fewer than two rates.

    It follows the square of the spread, which few runs tell badly: from five, 95% of estimates lie between an eighth and three
    times what it takes (the chi-squared distribution of four degrees of freedom).
    """
    known = _usable(rates)
    if len(known) < 2:
        return None
    more = missing(known, precision)
    return more if more < IN_A_ROW else max(0, _enough(known, precision) - len(known) - 1) + more


def _usable(rates: Sequence[float]) -> list[float]:
    return [rate for rate in rates if 0 < rate < math.inf]


def _narrow_in_a_row(rates: Sequence[float], precision: float) -> int:
    """After how many of the last runs, without a gap and `IN_A_ROW` at most, the interval was narrow enough."""
    last = range(len(rates), max(1, len(rates) - IN_A_ROW), -1)
    return next((count for count, n in enumerate(last) if not _is_narrow(rates[:n], precision)), len(last))


def _is_narrow(rates: Sequence[float], precision: float) -> bool:
    mean, low, high = interval(rates)
    return low >= mean * (1 - precision) and high <= mean * (1 + precision)


def _enough(rates: Sequence[float], precision: float) -> int:
    """The fewest runs whose t-interval is narrow enough at the spread of these (two rates or more)."""
    spread, half_width = float(np.log(rates).std(ddof=1)), math.log1p(precision)
    enough = max(2, math.ceil((1.96 * spread / half_width) ** 2))  # as if the spread were known: a little too few
    while t_quantile(enough) * spread > half_width * math.sqrt(enough):
        enough += 1
    return enough
