"""Other ways to notice a slowdown, asked of the same series as ours (`trials.py`).

In: one number a night until tonight, up is worse, None where nothing was measured. Out: the nights (indices) on which the rival
says, tonight, that the series got slower. asv comes with the extra `nightly`; the others are a line or two each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

THRESHOLD = 0.03
"""Of the rivals that compare with a fixed factor; as large as the least effect that ours confirms."""
QUIET_NIGHTS = 90
ALLOWED = 0.02
"""The false alarms that the t-test is set to: in two series of a hundred, of `QUIET_NIGHTS` each."""

Levels = Sequence[float | None]
Rival = Callable[[Levels], tuple[int, ...]]


def asv(levels: Levels, threshold: float) -> tuple[int, ...]:
    """Steps by asv, and of those the regressions, as `asv publish` lists them by this one of its `regressions_thresholds`."""
    from asv.step_detect import detect_regressions

    _, _, jumps = detect_regressions(_asv_steps(tuple(levels)), threshold)
    return tuple(first for _, first, _, _ in jumps or ())


@lru_cache(maxsize=1)
def _asv_steps(levels: tuple[float | None, ...]) -> list[tuple[int, int, float, float, float]]:
    from asv.step_detect import detect_steps

    steps: list[tuple[int, int, float, float, float]] = detect_steps(levels)
    return steps


def two_points(levels: Levels) -> tuple[int, ...]:
    """Tonight against the last night that was measured."""
    nights, values = _measured(levels)
    return (nights[-1],) if len(values) > 1 and values[-1] > values[-2] * (1 + THRESHOLD) else ()


def medians(levels: Levels) -> tuple[int, ...]:
    """The median of the last three nights against that of the fourteen before them (four at the least)."""
    nights, values = _measured(levels)
    new, old = values[-3:], values[-17:-3]
    return (nights[-3],) if len(old) >= 4 and np.median(new) > np.median(old) * (1 + THRESHOLD) else ()


def t_test(levels: Levels) -> tuple[int, ...]:
    """Student's t-test of the last three nights against all before them, at `ALLOWED` / `QUIET_NIGHTS` to one side.

    It looks for nothing else, and so marks what can be had: where noise is normal and its width unknown, no unbiased test of
    three nights against the rest finds more at this rate of false alarms (Lehmann and Romano, Testing Statistical Hypotheses,
    section 5.3).
    """
    nights, values = _measured(levels)
    logs = np.log(values)
    new, old = logs[-3:], logs[:-3]
    degrees = len(logs) - 2
    if len(old) < 4:
        return ()
    noise = math.sqrt((new.var() * len(new) + old.var() * len(old)) / degrees)
    reach = _quantile(degrees) * noise * math.sqrt(1 / len(new) + 1 / len(old))
    return (nights[-3],) if new.mean() - old.mean() > reach else ()


@lru_cache
def _quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1 - ALLOWED / QUIET_NIGHTS))


def _measured(levels: Levels) -> tuple[list[int], list[float]]:
    """The nights that were measured, and their levels."""
    pairs = [(night, level) for night, level in enumerate(levels) if level is not None]
    return [night for night, _ in pairs], [level for _, level in pairs]


RIVALS: dict[str, Rival] = {
    "asv, 5%": partial(asv, threshold=0.05),
    "asv, 3%": partial(asv, threshold=THRESHOLD),
    "last night, 3%": two_points,
    "medians, 3%": medians,
    "t-test": t_test,
}
