"""How far nights lie from their level by chance, and what that excludes.

In: the logarithms of nights and the stretches of equal level they were cut into. Out: the noise about a night, and from it
intervals and Student's t-test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.history.stretches import NOISE_FLOOR, Logs, Stretch

CONFIDENCE = 0.95
SHOWN_BY, SHOWN_NIGHTS = 0.75, 2
"""A night shows the new level where it lies at least so far along the way there; so many nights have to."""
NIGHTS_BEFORE, NIGHTS_AFTER = 80, 40
"""The noise at a change is that of so many nights before it and from it on: later ones change nothing about an old change."""

CLOSE, ALSO_BEFORE = (8, 16, 32), (5, 10, 20)
"""Noise may grow. So that of these many nights before a change, and from it on, is looked at by itself; and of all from it on
with these many before."""
LEAST_DEGREES, GROWN_TAIL = 4, 0.03
"""Nights close by count by themselves where they have so many degrees of freedom, and chance shows as much so seldom. Chosen by
simulation: at 3% no slowdown is found later for it, at 10% some are. Their few degrees do not enter the t-test: a chance outlier
among nine groups of nights would hide a slowdown that was red already."""


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a night about its level, of logs, and of how many degrees of freedom it comes."""

    deviation: float
    degrees: int

    def reach(self, error: float) -> float:
        """Half the width of a 95% interval, `error` being the standard error in units of the deviation."""
        return self.deviation * error * _quantile(self.degrees, (1 - CONFIDENCE) / 2)

    def excludes(self, size: float, error: float, tail: float) -> bool:
        """Whether chance alone shows `size` more seldom than `tail`, to its side."""
        return abs(size) > self.deviation * error * _quantile(self.degrees, tail)

    def surely_exceeds(self, other: Noise) -> bool:
        """Whether this noise is greater, by the F-test at `GROWN_TAIL`."""
        from scipy.special import fdtrc

        enough = self.degrees >= LEAST_DEGREES
        return enough and bool(fdtrc(self.degrees, other.degrees, (self.deviation / other.deviation) ** 2) < GROWN_TAIL)


class Nights:
    """Nights that belong to levels: their logs, and the stretches that they form."""

    def __init__(self, logs: Logs, stretches: list[Stretch]) -> None:
        self.logs = logs
        self.stretches = stretches
        self._firsts = np.array([each.first for each in stretches])
        means = np.repeat([each.mean for each in stretches], [each.nights for each in stretches])
        self._squares = np.concatenate([[0.0], np.cumsum((logs - means) ** 2)])

    def show(self, first: int, end: int, old: float, size: float) -> bool:
        """Whether enough of these nights lie `SHOWN_BY` of the way from `old` by `size`."""
        return int(np.sum((self.logs[first:end] - old) / size >= SHOWN_BY)) >= SHOWN_NIGHTS

    def noise(self, at: int) -> Noise:
        """The noise at a change on night `at`, pooled; where it is surely greater in some nights close by, theirs."""
        first, end = max(0, at - NIGHTS_BEFORE), min(len(self.logs), at + NIGHTS_AFTER)
        pooled = greatest = self._pooled(first, end)
        close = [(at - nights, at) for nights in CLOSE] + [(at, at + nights) for nights in CLOSE]
        for since, until in [*close, *((at - nights, end) for nights in ALSO_BEFORE)]:
            near = self._pooled(max(first, since), min(end, until))
            if near.deviation > greatest.deviation and near.surely_exceeds(pooled):
                greatest = Noise(near.deviation, pooled.degrees)
        return greatest

    def _pooled(self, first: int, end: int) -> Noise:
        """Of nights from `first` to before `end`, about the means of their stretches; of no degrees where they are too few."""
        of = int(np.searchsorted(self._firsts, end, "left") - np.searchsorted(self._firsts, first, "right")) + 1
        degrees = end - first - of
        if degrees < 1:
            return Noise(0.0, 0)
        return Noise(max(math.sqrt(max(self._squares[end] - self._squares[first], 0.0) / degrees), NOISE_FLOOR), degrees)


@cache
def _quantile(degrees: int, tail: float) -> float:
    """How many standard errors Student's t exceeds with this chance."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1 - tail))
