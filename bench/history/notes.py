"""What has to be told of a history besides its shifts: nights without a figure, runs that fail, machines that fell silent.

In: tracks, and the regressions that stand. Out: one note for each such thing. None of them turns a night red.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from bench.history.findings import OF_NIGHTS, Finding
from bench.history.series import Series, Track, Why
from bench.history.stretches import LEAST_NIGHTS

ENDED_NIGHTS = 7
"""A cell that was not run on so many nights of its suite is no longer measured, and turns nothing red."""
ENDED_SUITE_NIGHTS = 30
"""Nor is one whose whole suite the machine left out for so many of its nights."""
ENDED_TOLD_NIGHTS = 37
"""A cell that is no longer measured is told until it was not run on more nights than these, unless a regression stood."""
SILENT_DAYS = 3
"""A machine without a night for so many days is told."""
RECENT_NIGHTS = 14
"""What happened once is told to a reader for so many of the cell's nights; the document has all shifts."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Metrics of a cell (none named: all) without a level on the last `nights` nights, why, and the last night that had one.

    `ended` is a cell that is no longer measured, with the regressions that stood when it ended.
    """

    track: Track
    metrics: tuple[str, ...]
    why: Why
    nights: int
    last: str | None
    ended: bool = False
    open: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Failing:
    """A cell of whose `runs` some `failed` on the last `nights` nights that tried it, though it ran on most of those.

    `ever_ran` is False for one that failed on each night since its first: nothing of it can get worse. `reason` is the last one.
    """

    track: Track
    failed: int
    runs: int
    nights: int
    ever_ran: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Rescoped:
    """A metric whose figures cover something else since `night`: older ones are not compared with them.

    `last` is the last night of the scope before; `open` are the regressions that stood in it.
    """

    track: Track
    metric: str
    before: str
    after: str
    last: str
    night: str
    open: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Silent:
    """A machine whose last night was `days` days ago."""

    machine: str
    machine_id: str
    last: str
    days: int


def has_ended(track: Track) -> bool:
    """Whether the cell, or its suite, is no longer measured."""
    return _absent(track) >= ENDED_NIGHTS or track.later >= ENDED_SUITE_NIGHTS


def kept(track: Track) -> list[Series]:
    """The metrics that this cell has, or would have but for flags: a processor has no peak of a device."""
    return [each for each in track.series if each.measured or "flagged" in each.why]


def gaps(track: Track, standing: Sequence[Finding]) -> Iterator[Gap]:
    """What the last night, or more, did not tell. `standing` are the regressions of all cells that nobody accepted."""
    absent, ended = _absent(track), has_ended(track)
    if absent or ended:
        ran = [night for night, seen in zip(track.nights, track.seen, strict=True) if seen == "measured"]
        still = tuple(each for each in standing if each.track is track and not each.outdated) if ended else ()
        if still or absent + track.later <= ENDED_TOLD_NIGHTS:
            yield Gap(track, (), "not run", absent + track.later, ran[-1] if ran else None, ended, still)
    elif track.seen[-1] == "measured":
        alike = sorted((each for each in kept(track) if each.why[-1]), key=_gap_of)
        for (why, nights), group in groupby(alike, _gap_of):
            these = list(group)
            last = max((track.nights[each.measured[-1]] for each in these if each.measured), default=None)
            yield Gap(track, tuple(each.metric for each in these), why, nights, last)


def failing(track: Track) -> Failing | None:
    """The failed runs of a cell on its last nights. A cell that no longer runs is a finding instead, which the caller knows."""
    tried = [at for at, seen in enumerate(track.seen) if seen != "not run"]
    ever_ran = "measured" in track.seen
    last = tried[-OF_NIGHTS:] if ever_ran else tried
    failed = sum(track.failed_runs[at] for at in last)
    if not failed or has_ended(track):
        return None
    reason = next(track.reasons[at] for at in reversed(last) if track.reasons[at])
    return Failing(track, failed, sum(track.runs[at] for at in last), len(last), ever_ran, reason)


def rescoped(track: Track, standing: Sequence[Finding]) -> Iterator[Rescoped]:
    """Metrics that cover something else of late, where what they covered before could be judged."""
    for series in track.series:
        former = series.former
        if former is None or len(former.measured) < LEAST_NIGHTS:
            continue
        night = track.nights[series.renewed[0]]
        if night in track.nights[-RECENT_NIGHTS:] or len(series.renewed) < LEAST_NIGHTS:
            still = tuple(
                each for each in standing if each.track is track and (each.metric, each.scope) == (series.metric, former.scope)
            )
            last = track.nights[former.measured[-1]]
            yield Rescoped(track, series.metric, former.scope, series.scope, last, night, still)


def silent(tracks: Sequence[Track], as_of: date) -> Iterator[Silent]:
    """The machines whose last night is long ago."""
    last: dict[str, Track] = {}
    for track in tracks:
        unit = track.machine_id or track.machine
        if unit not in last or last[unit].nights[-1] < track.nights[-1]:
            last[unit] = track
    for track in last.values():
        days = (as_of - date.fromisoformat(track.nights[-1])).days
        if days >= SILENT_DAYS:
            yield Silent(track.machine, track.machine_id, track.nights[-1], days)


def _absent(track: Track) -> int:
    return _trailing([seen == "not run" for seen in track.seen])


def _gap_of(series: Series) -> tuple[Why, int]:
    return series.why[-1], _trailing([bool(why) for why in series.why])


def _trailing(lacking: Sequence[bool]) -> int:
    """How many nights in a row, counted from the last."""
    return next((count for count, each in enumerate(reversed(lacking)) if not each), len(lacking))
