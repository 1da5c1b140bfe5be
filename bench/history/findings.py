"""The shifts of one cell: slower, hungrier, hotter, no longer running, or better.

In: a `Track`. Out: its `Finding`s, in the order of metrics and nights. Which direction is worse is the metric's
(`bench.metrics`); what counts as a change, and when it is confirmed, is the detector's (`bench.history.changes`).

A regression stays one until the level is back: until later changes have made good all of it but what would be no regression by
itself, and two nights show it. Then the finding says on which night it recovered. A return needs no more proof than that: the
detector confirms one only from a level that had settled, and a fault that was mended after three nights never had. By the same
token a level that was back and left again is no longer back: the detector cannot confirm a step from a level that never settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from bench.history.changes import LEAST_EFFECT, SETTLED_NIGHTS, Change
from bench.history.past import changes
from bench.history.series import Series, Track
from bench.history.stretches import LEAST_NIGHTS
from bench.metrics import METRICS

Kind = Literal["worse", "better"]
OUTCOME = "outcome"
"""In a metric's place: the cell ran, and now fails."""
SUSPECTED_NIGHTS = 3
"""An unconfirmed change so many measured nights old is no longer suspected: more nights came, and did not confirm it."""
BACK_NIGHTS = 2
"""A level is back that was held for so many nights."""
FAILED_NIGHTS, OF_NIGHTS = 2, 4
"""A cell fails that failed altogether on so many of the last nights that tried it: in a row, or now and then."""
SAME_NIGHTS = 4
"""Shifts of one metric in two scopes that lie no further apart are one."""
SURE = 2.0
"""A change is sure that is so many times half its 95% interval: by four standard errors, which chance shows once in 30,000."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One shift of one metric of one cell.

    `night` is the first of the new level, `before` the last measured one of the old. `ratio` is the new level divided by the old,
    with its 95% interval; `level_before` and `level_after` are medians over the nights of either, in the metric's unit; None for
    a cell that no longer runs, whose `reason` says how it failed, and levels too for a drift, which has none. `nights` are those
    measured since (failed, of a cell that no longer runs, of `tried`). `recovered` is the night on which the level was back.
    `small`: certain, held for some nights, and never confirmed because it is less than the least effect. `scope` is what the
    figures cover; `outdated` are those of the scope before, once the new one can be judged.
    """

    track: Track
    metric: str
    kind: Kind
    confirmed: bool
    night: str
    before: str
    nights: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    level_before: float | None = None
    level_after: float | None = None
    gradual: bool = False
    reason: str = ""
    recovered: str | None = None
    tried: int | None = None
    small: bool = False
    scope: str = ""
    outdated: bool = False


def findings(track: Track) -> tuple[Finding, ...]:
    """All shifts of a cell: confirmed ones, those of the last nights that one more night would confirm, and small ones."""
    return (*_failing(track), *(found for series in track.series for found in _of_metric(track, series)))


def _failing(track: Track) -> Iterator[Finding]:
    """The cell ran once, and failed altogether on some of the last nights that tried it."""
    ran = [at for at, seen in enumerate(track.seen) if seen == "measured"]
    tried = [at for at, seen in enumerate(track.seen) if seen != "not run" and ran and at >= ran[0]]
    failed = [place for place, at in enumerate(tried) if track.seen[at] == "failed"]
    confirmed = sum(place >= len(tried) - OF_NIGHTS for place in failed) >= FAILED_NIGHTS
    if confirmed or (failed and failed[-1] == len(tried) - 1):
        spell = _spell(failed)
        yield Finding(
            track,
            OUTCOME,
            "worse",
            confirmed,
            night=track.nights[tried[spell[0]]],
            before=track.nights[tried[spell[0] - 1]],
            nights=len(spell),
            reason=track.reasons[tried[spell[-1]]],
            tried=len(tried) - spell[0],
        )


def _spell(failed: Sequence[int]) -> Sequence[int]:
    """The latest of the failed nights that belong together, each within `OF_NIGHTS` of the one before."""
    apart = [at for at, (one, other) in enumerate(pairwise(failed), start=1) if other - one >= OF_NIGHTS]
    return failed[apart[-1] if apart else 0 :]


def _of_metric(track: Track, series: Series) -> Iterator[Finding]:
    """The shifts in the scope of the last night; and the regressions in that before, which this one does not show."""
    own = [*_shifts(track, series)]
    yield from own
    if series.former:
        outdated, seen = len(series.renewed) >= LEAST_NIGHTS, [track.nights.index(each.night) for each in own if each.confirmed]
        for each in _shifts(track, series.former):
            at = track.nights.index(each.night)
            if each.confirmed and each.kind == "worse" and all(abs(at - other) > SAME_NIGHTS for other in seen):
                yield replace(each, outdated=outdated)


def _shifts(track: Track, series: Series) -> Iterator[Finding]:
    found = changes(series.levels)
    recent = series.measured[-SUSPECTED_NIGHTS:]
    for place, change in enumerate(found):
        if change.confirmed:
            back = _back(series, found, place)
            yield _finding(track, series, found, place, None if back is None else track.nights[back.at])
        elif _is_small(change, len(_held(series, found, place))):
            yield replace(_finding(track, series, found, place, None), small=True)
        elif change.at in recent and _size(change.ratio) >= LEAST_EFFECT and _kind(change, series.metric) == "worse":
            yield _finding(track, series, found, place, None)


def _is_small(change: Change, nights: int) -> bool:
    """Whether it lacks nothing but size."""
    return _is_certain(change) and nights >= SETTLED_NIGHTS and _size(change.ratio) < LEAST_EFFECT


def _is_certain(change: Change) -> bool:
    return abs(math.log(change.ratio)) >= SURE * math.log(change.high / change.low) / 2


def _finding(track: Track, series: Series, found: Sequence[Change], place: int, recovered: str | None) -> Finding:
    change, old, new = found[place], _held(series, found, place - 1), _held(series, found, place)
    return Finding(
        track,
        series.metric,
        _kind(change, series.metric),
        change.confirmed,
        night=track.nights[change.at],
        before=track.nights[old[-1]],
        nights=sum(at >= change.at for at in series.measured),
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        level_before=None if change.gradual else _level(series, old),
        level_after=None if change.gradual else _level(series, new),
        gradual=change.gradual,
        recovered=recovered,
        scope=series.scope,
    )


def _level(series: Series, nights: Sequence[int]) -> float:
    return median(level for at in nights if (level := series.levels[at]) is not None)


def _kind(change: Change, metric: str) -> Kind:
    return "better" if (change.ratio > 1) == METRICS[metric].higher_is_better else "worse"


def _size(ratio: float) -> float:
    """By which factor, whatever the direction."""
    return max(ratio, 1 / ratio)


def _held(series: Series, found: Sequence[Change], place: int) -> list[int]:
    """The measured nights from one change to the next; from the first night where `place` is -1."""
    start = found[place].at if place >= 0 else 0
    end = found[place + 1].at if place + 1 < len(found) else len(series.levels)
    return [at for at in series.measured if start <= at < end]


def _back(series: Series, found: Sequence[Change], place: int) -> Change | None:
    """The later change with which a worse level was back where it had been; None for one that is not, or for a better one.

    One that was back and got as bad again is not, unless the detector confirms the later change: that is a regression of its own.
    """
    if _kind(found[place], series.metric) == "better":
        return None
    ratio, back = found[place].ratio, None
    for later in range(place + 1, len(found)):
        change = found[later]
        if back and change.confirmed and _kind(change, series.metric) == "worse":
            break
        ratio *= change.ratio
        worse = 1 / ratio if METRICS[series.metric].higher_is_better else ratio
        nights = len(_held(series, found, later))
        if nights >= BACK_NIGHTS and worse < LEAST_EFFECT:
            back = back or change
        elif nights >= BACK_NIGHTS and back and _leaves(series, found, found.index(back), later):
            back = None
    return back


def _leaves(series: Series, found: Sequence[Change], back: int, later: int) -> bool:
    """Whether a level that was back at one change is gone with a later one.

    Noise alone takes none away that had settled: from there it needs what is certain, as a small change has to be.
    """
    settled = any(len(_held(series, found, place)) >= SETTLED_NIGHTS for place in range(back, later))
    return not settled or (_is_certain(found[later]) and len(_held(series, found, later)) >= SETTLED_NIGHTS)
