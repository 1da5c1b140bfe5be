"""Change points of a nightly series: on which night did the level change, by how much, and is that certain enough to alarm.

In: the nights' levels, and the stretches of equal level that they form (`past.py` puts both together). Out: the changes, oldest
first. Nothing here knows which direction is worse, nor what a night is. `docs/detector.md` says in words how it decides and shows
what it finds and what it misses, by simulation (`trials.py`).

The levels are taken as logarithms, so that a change is a factor. `stretches.py` finds the places, with ruptures; here a change
is confirmed, by a second night, by its size, and by a t-test at a confidence that is paid for asking every night anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.history.noise import Nights
from bench.history.stretches import PENALTY, Logs, Stretch, squares_within

LEAST_EFFECT = 1.03
"""A smaller factor is told and never confirmed: a warm room or another kernel of the operating system do as much."""
SETTLED_NIGHTS = 5
"""A level that was held so long is one to compare with: a return from a shorter stretch is no change."""
LEAST_NIGHTS_OF_A_SLOPE = 14
"""A slope over fewer nights cannot be told from a step."""

SECOND_NIGHT_TAIL, THIRD_NIGHT_TAIL, LEAST_TAIL = 2e-5, 8e-5, 1e-6
"""How seldom chance alone may show such a change, to one side: on the second night of the new level, the third, and ever."""
TAIL_PER_NIGHT = 0.6
"""From the third night on the chance that is allowed shrinks by this factor: what is real gets certain faster than that."""


@dataclass(frozen=True)
class Change:
    """The level changed on night `at` (an index into the levels: the first night of the new level).

    `ratio` is the new level divided by the old one, `low` to `high` its 95% interval, with the night taken as known.
    `confirmed`: two nights showed the new level, the factor is `LEAST_EFFECT` at least, and chance is as good as excluded.
    `gradual`: a slope fits better than a step, or small steps one way add up; `at` is then about where the level had left the
    old one, and `ratio` the whole way.
    """

    at: int
    ratio: float
    low: float
    high: float
    confirmed: bool
    gradual: bool


def measured_logs(levels: Sequence[float | None]) -> tuple[list[int], Logs]:
    """The places of the measured nights, and the logarithms of their levels.

    Raises ValueError where a level is not a positive finite number.
    """
    measured = [night for night, level in enumerate(levels) if level is not None]
    values = np.array([levels[night] for night in measured], float)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("a night's level is a positive finite number, or None where nothing was measured")
    return measured, np.log(values)


def judged(logs: Logs, kept: NDArray[np.intp], stretches: list[Stretch], last_alone: bool) -> list[Change]:
    """The changes between stretches of the nights `kept`, oldest first, `at` an index into `logs`; see `stretches.settled`."""
    nights = Nights(logs[kept], stretches)
    found = [replace(each, at=int(kept[each.at])) for each in _changes(nights)]
    if last_alone:
        found.append(_tonight(float(logs[-1]), nights, len(logs) - 1))
    return found


def _changes(nights: Nights) -> list[Change]:
    """Slopes are one change each; what lies before, between and after them are levels."""
    found: list[Change] = []
    part = nights.stretches[:1]
    for run in _runs(nights.stretches):
        slope = _slope(nights, run)
        if slope and slope.confirmed:
            found += [*_levels(nights, part), slope]
            part = run[-1:]
        else:
            part += run[1:]
    return [*found, *_levels(nights, part)]


def _runs(stretches: list[Stretch]) -> list[list[Stretch]]:
    """Stretches grouped so that within a group every border goes the same way; neighbouring groups share a stretch."""
    runs: list[list[Stretch]] = []
    for before, after in pairwise(stretches):
        if runs and (runs[-1][1].mean > runs[-1][0].mean) == (after.mean > before.mean):
            runs[-1].append(after)
        else:
            runs.append([before, after])
    return runs


def _levels(nights: Nights, stretches: list[Stretch]) -> list[Change]:
    """One change per border of two stretches; but one for all borders since the last confirmed change, where only together
    they make one: a night half way, stairs, a ratchet.
    """
    found: list[Change] = []
    waiting: list[Change] = []
    since = stretches[:1]
    for group in _groups(stretches):
        steps = [_step(nights, before, after, group[0]) for before, after in pairwise(group)]
        since += group[1:]
        changes = _told(nights, group, steps, since, waiting)
        if any(each.confirmed for each in changes):
            found += changes
            waiting, since = [], group[-1:]
        else:
            waiting += steps
        if since[0].nights < SETTLED_NIGHTS <= group[-1].nights:
            since = group[-1:]
    return found + waiting


def _groups(stretches: list[Stretch]) -> list[list[Stretch]]:
    """From one settled level to the next, with what is shorter between; neighbouring groups share the settled one."""
    groups = [stretches[:1]]
    for each in stretches[1:]:
        groups[-1].append(each)
        if each.nights >= SETTLED_NIGHTS:
            groups.append([each])
    return [group for group in groups if len(group) > 1]


def _told(nights: Nights, group: list[Stretch], steps: list[Change], since: list[Stretch], waiting: list[Change]) -> list[Change]:
    """What the nights until the end of `group` show: its steps, or all of it as one change, or all since the last change."""
    if all(each.confirmed for each in steps):
        return waiting + steps
    whole = _together(nights, group)
    if whole:
        return [*waiting, whole]
    if any(each.confirmed for each in steps):
        return waiting + steps
    whole = _together(nights, since)
    return [whole] if whole else waiting + steps


def _step(nights: Nights, before: Stretch, after: Stretch, old: Stretch) -> Change:
    """The step between two neighbours. `old` is the last settled level, from which the new one has to differ the same way."""
    noise = nights.noise(after.first)
    size, whole = after.mean - before.mean, after.mean - old.mean
    certain = (
        old.nights >= SETTLED_NIGHTS
        and size * whole > 0
        and abs(whole) >= math.log(LEAST_EFFECT)
        and nights.show(after.first, after.end, before.mean, size)
        and noise.excludes(whole, _error(old, after), _tail(after.nights))
    )
    return _change(after.first, size, noise.reach(_error(before, after)), certain, gradual=False)


def _together(nights: Nights, run: list[Stretch]) -> Change | None:
    """From the first to the last as one change, if that is confirmed: at its largest step, or gradual if all are small."""
    first, last = run[0], run[-1]
    size = last.mean - first.mean
    if first.nights < SETTLED_NIGHTS or abs(size) < math.log(LEAST_EFFECT):
        return None
    steps = [
        (abs(after.mean - before.mean), after.first) for before, after in pairwise(run) if (after.mean - before.mean) * size > 0
    ]
    largest, at = max(steps, key=lambda step: step[0])
    gradual = largest < math.log(LEAST_EFFECT)
    at = steps[0][1] if gradual else at
    noise, error = nights.noise(at), _error(first, last)
    if not (nights.show(at, last.end, first.mean, size) and noise.excludes(size, error, LEAST_TAIL)):
        return None
    return _change(at, size, noise.reach(error), True, gradual)


def _slope(nights: Nights, run: list[Stretch]) -> Change | None:
    """The run of stretches as one slope, where that fits no worse than its steps."""
    part = nights.logs[run[0].first : run[-1].end]
    if len(part) < LEAST_NIGHTS_OF_A_SLOPE:
        return None
    noise = nights.noise(run[1].first)
    places = np.arange(len(part)) - (len(part) - 1) / 2
    slope = float(places @ part / (places @ places))
    squares = float(((part - part.mean() - slope * places) ** 2).sum())
    if squares > squares_within(nights.logs, run) + PENALTY * noise.deviation**2 * (len(run) - 2):
        return None
    way = len(part) - 1
    error = way / math.sqrt(float(places @ places))
    return _change(run[1].first, slope * way, noise.reach(error), noise.excludes(slope * way, error, LEAST_TAIL), gradual=True)


def _tonight(log: float, nights: Nights, at: int) -> Change:
    """The last night, which stands alone so far, against the level before it: never confirmed."""
    before = nights.stretches[-1]
    reach = nights.noise(before.end).reach(math.sqrt(1 + 1 / before.nights))
    return _change(at, log - before.mean, reach, certain=False, gradual=False)


def _change(at: int, size: float, reach: float, certain: bool, gradual: bool) -> Change:
    confirmed = certain and abs(size) >= math.log(LEAST_EFFECT)
    return Change(at, math.exp(size), math.exp(size - reach), math.exp(size + reach), confirmed, gradual)


def _error(before: Stretch, after: Stretch) -> float:
    """The standard error of the difference of two means, in units of the noise of a night."""
    return math.sqrt(1 / before.nights + 1 / after.nights)


def _tail(nights: int) -> float:
    """The chance that is allowed to a new level of so many nights."""
    return SECOND_NIGHT_TAIL if nights < 3 else max(LEAST_TAIL, THIRD_NIGHT_TAIL * TAIL_PER_NIGHT ** (nights - 3))
