"""The gate: which nights are red, for which cell, and what else has to be told of a history.

In: tracks, what was acknowledged, and a way to compare two nights' environments. Out: a `Verdict`. It is red where a regression
is confirmed, not acknowledged and not recovered, of a cell that is still measured. Everything else is told and stays green: a
suspicion of one night, a small change, an improvement, runs that fail now and then, missing nights, a machine that fell silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from bench.history.acknowledged import Acknowledgement, Shift, matches
from bench.history.cause import Cause, Compare, cause
from bench.history.findings import OUTCOME, Finding, findings
from bench.history.notes import (
    RECENT_NIGHTS,
    Failing,
    Gap,
    Rescoped,
    Silent,
    failing,
    gaps,
    has_ended,
    kept,
    rescoped,
    silent,
)
from bench.history.series import Series, Track
from bench.history.stretches import LEAST_NIGHTS

SMALL_TOLD_NIGHTS = 30
"""A small change is told for so many nights: one of exact bytes is certain within ten, one of a noisy rate takes longer."""

State = Literal["regressed", "suspected", "steady", "too short", "ended", "not measured"]


@dataclass(frozen=True, slots=True)
class Told:
    """A finding with what changed around it, and what somebody said of it. `recent`: told to a reader."""

    finding: Finding
    cause: Cause | None
    acknowledged: Acknowledgement | None = None
    recent: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """One metric of one cell. `missing` are the nights still needed before anything can be found; `level` is the last one."""

    track: Track
    series: Series
    state: State
    missing: int

    @property
    def last(self) -> str | None:
        """The last night that was measured."""
        return self.track.nights[self.series.measured[-1]] if self.series.measured else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of all histories, as of a day. `red` where `regressions` holds anything.

    `to_come` are nights that cannot have begun by that day, and are left out.
    """

    as_of: str
    regressions: tuple[Told, ...]
    suspected: tuple[Told, ...]
    acknowledged: tuple[Told, ...]
    recovered: tuple[Told, ...]
    improvements: tuple[Told, ...]
    small: tuple[Told, ...]
    series: tuple[Judged, ...]
    gaps: tuple[Gap, ...]
    failing: tuple[Failing, ...]
    rescoped: tuple[Rescoped, ...]
    silent: tuple[Silent, ...]
    unmatched: tuple[Acknowledgement, ...]
    to_come: tuple[str, ...] = ()

    @property
    def red(self) -> bool:
        return bool(self.regressions)


def judge(tracks: Sequence[Track], said: Sequence[Acknowledgement], compare: Compare, as_of: date) -> Verdict:
    """The verdict on all tracks. `as_of` is the day on which it is asked, which only the silence of machines depends on."""
    every = [each for track in tracks for each in findings(track)]
    found = [each for each in every if not each.small]
    worse = [each for each in found if each.kind == "worse" and each.confirmed]
    spoken = matches(said, [_shift(each) for each in worse])
    said_of = {id(worse[at]): said[index] for index, at in spoken.items()}
    ended = {id(track) for track in tracks if has_ended(track)}

    def told(these: Sequence[Finding]) -> tuple[Told, ...]:
        return tuple(Told(each, _cause(each, compare), said_of.get(id(each)), _is_recent(each)) for each in these)

    unsaid = [each for each in worse if id(each) not in said_of]
    standing = [each for each in unsaid if each.recovered is None]
    red = [each for each in standing if id(each.track) not in ended and not each.outdated]
    suspected = [each for each in found if not each.confirmed and id(each.track) not in ended]
    outcomes = {id(each.track) for each in found if each.metric == OUTCOME}
    return Verdict(
        as_of=as_of.isoformat(),
        regressions=told(red),
        suspected=told(suspected),
        acknowledged=told([each for each in worse if id(each) in said_of]),
        recovered=told([each for each in unsaid if each.recovered is not None]),
        improvements=told([each for each in found if each.kind == "better" and not _ends_one(each, worse)]),
        small=told([each for each in every if each.small]),
        series=tuple(_judged(track, each, red, suspected, id(track) in ended) for track in tracks for each in kept(track)),
        gaps=tuple(gap for track in tracks for gap in gaps(track, standing)),
        failing=tuple(each for track in tracks if id(track) not in outcomes and (each := failing(track))),
        rescoped=tuple(each for track in tracks for each in rescoped(track, standing)),
        silent=tuple(silent(tracks, as_of)),
        unmatched=tuple(each for index, each in enumerate(said) if index not in spoken),
    )


def _shift(found: Finding) -> Shift:
    track = found.track
    names = (track.machines, track.machine_id, track.suite, track.cells)
    return Shift(*names, found.metric, found.night, found.ratio, track.nights, found.gradual)


def _cause(found: Finding, compare: Compare) -> Cause | None:
    """A drift has no night, so nothing is set beside it."""
    return None if found.gradual else cause(found.track, found.before, found.night, compare)


def _is_recent(found: Finding) -> bool:
    last = SMALL_TOLD_NIGHTS if found.small else RECENT_NIGHTS
    return (found.recovered or found.night) in found.track.nights[-last:]


def _ends_one(better: Finding, worse: Sequence[Finding]) -> bool:
    """Whether it is what brought a regression's level back, and told with that."""
    same = (each for each in worse if each.track is better.track and each.metric == better.metric)
    return any(each.recovered == better.night for each in same)


def _judged(track: Track, series: Series, red: Sequence[Finding], suspected: Sequence[Finding], ended: bool) -> Judged:
    missing = max(0, LEAST_NIGHTS - len(series.measured))
    states: list[tuple[State, bool]] = [
        ("ended", ended),
        ("regressed", _concerns(red, track, series)),
        ("suspected", _concerns(suspected, track, series)),
        ("not measured", not series.measured),
        ("too short", missing > 0),
    ]
    return Judged(track, series, next((state for state, holds in states if holds), "steady"), missing)


def _concerns(found: Sequence[Finding], track: Track, series: Series) -> bool:
    return any(each.track is track and each.metric in (series.metric, OUTCOME) for each in found)
