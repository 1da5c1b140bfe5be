"""Cuts a series into stretches of equal level, its noise unknown, and sets aside the nights that stand alone.

In: the logarithms of measured nights. Out: which of them belong to a level, and where each stretch begins and ends.

For every number of cuts ruptures gives the best places (exact dynamic programming over least squares, in C). The number is the
one that a penalised Gaussian likelihood of unknown variance likes best. So no estimate of the noise is needed beforehand; one
from the differences of twenty nights would err by a quarter.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST_NIGHTS = 7
"""Fewer measured nights give no change at all: five for a level and its noise, two for a new one."""
NOISE_FLOOR = 0.003
"""The least standard deviation of a night, of logs: nights equal to the last digit (bytes are) prove no noise of zero."""
PENALTY = 10.0
"""What a cut has to gain in twice the log-likelihood: a change of √10 = 3.2 standard errors. The test comes later."""
MOST_CUTS = 8
NIGHTS_A_CUT = 4
"""A cut for every four nights at most: a lone night takes two."""

Logs = NDArray[np.float64]


class Stretch(NamedTuple):
    """Nights of equal level: the place of the first, and of the first after them; the mean of their logs."""

    first: int
    end: int
    mean: float

    @property
    def nights(self) -> int:
        return self.end - self.first


def settled(logs: Logs) -> tuple[NDArray[np.intp], list[Stretch], bool]:
    """Which nights belong to a level, the stretches that those form, and whether the last night was set aside.

    A lone night is a stretch of one night. Between nights of one level it is odd; between two levels it is half way, as when an
    upgrade came in the middle of it; at either end of the series nobody knows yet what it is.
    """
    kept = np.arange(len(logs))
    while True:
        stretches = stretches_of(logs[kept], least=1)
        alone = _alone(stretches)
        if not alone or len(kept) - len(alone) < LEAST_NIGHTS:
            break
        kept = np.delete(kept, alone)
    if any(each.nights < 2 for each in stretches):
        stretches = stretches_of(logs[kept], least=2)
    return kept, stretches, bool(kept[-1] < len(logs) - 1)


def stretches_of(logs: Logs, least: int) -> list[Stretch]:
    """The best cut into stretches of `least` nights or more.

    It minimises n log(s²) + PENALTY k n / (n - 2k - 1), where s² is the mean square within the k + 1 stretches, no less than
    `NOISE_FLOOR` allows. The factor of n is Hurvich and Tsai's correction (1989) for few values, with a place and a level to
    each cut: without it a few nights are cut to pieces, each of which has hardly any noise.
    """
    n = len(logs)
    centred = logs - logs.mean()
    sums = [0.0, *np.cumsum(centred).tolist()]
    squares = float(centred @ centred)

    def cost(borders: list[int]) -> float:
        cuts = len(borders) - 2
        explained = sum((sums[b] - sums[a]) ** 2 / (b - a) for a, b in pairwise(borders))
        return n * math.log(max(squares - explained, 0.0) / n + NOISE_FLOOR**2) + PENALTY * cuts * n / (n - 2 * cuts - 1)

    best = min(_candidates(centred, least), key=cost)
    return [Stretch(a, b, float(logs[a:b].mean())) for a, b in pairwise(best)]


def squares_within(logs: Logs, stretches: list[Stretch]) -> float:
    """The sum of squared distances from the mean of one's own stretch."""
    return sum(float(((logs[each.first : each.end] - each.mean) ** 2).sum()) for each in stretches)


def _candidates(centred: Logs, least: int) -> list[list[int]]:
    """The borders of the best cuts, one list for each number of cuts, none included."""
    from ruptures import KernelCPD

    n = len(centred)
    most = min(MOST_CUTS, n // NIGHTS_A_CUT, n // least - 1)
    if most < 1:
        return [[0, n]]
    search = KernelCPD(kernel="linear", min_size=least).fit(centred[:, None])
    search.predict(n_bkps=most)  # the best places of fewer cuts come with it
    return [[0, n], *([0, *search.predict(n_bkps=cuts)] for cuts in range(1, most + 1))]


def _alone(stretches: list[Stretch]) -> list[int]:
    """The places of lone nights."""
    padded = [None, *stretches, None]
    return [
        each.first
        for before, each, after in zip(padded, stretches, padded[2:], strict=False)
        if each.nights == 1 and _is_alone(before, after)
    ]


def _is_alone(before: Stretch | None, after: Stretch | None) -> bool:
    """Whether a stretch of one night between these is set aside now; the last night only once the one before is a level's."""
    if before is None:
        return after is not None
    return after is not None or before.nights > 1
