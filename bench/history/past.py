"""The changes of a long series, the old ones too.

In: one level a night. Out: all changes, oldest first. Where levels begin and end is sought in windows of bounded length, so that
the time stays bounded; but a regression that nobody acknowledged must not be forgotten because the nights went by. So the nights
are cut into blocks, and each block is cut into stretches once, by a window that reaches a block further to both sides; a settled
window never moves. The changes are then judged on the stretches of the whole history, so that small ones add up however slowly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from bench.history.changes import Change, judged, measured_logs
from bench.history.stretches import LEAST_NIGHTS, Logs, Stretch, settled

WINDOW_NIGHTS = 120
"""So many measured nights are cut into stretches at a time, which bounds the time that it takes."""
BLOCK = WINDOW_NIGHTS // 3
SLACK = 2
"""Two windows may find the same change so many nights apart."""


@dataclass(frozen=True)
class _Cut:
    """Where levels begin, but for the first, and which nights stand alone; `last_alone`: the last of all does."""

    borders: list[int] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)
    last_alone: bool = False


def changes(levels: Sequence[float | None]) -> tuple[Change, ...]:
    """All changes of level; `at` is an index into `levels`. Raises ValueError where a level is not a positive finite number."""
    measured, logs = measured_logs(levels)
    if len(logs) < LEAST_NIGHTS:
        return ()
    cut = _Cut()
    for first, start, end in _windows(len(logs)):
        cut = _joined(cut, _window(logs, start, end), first)
    kept = np.setdiff1d(np.arange(len(logs)), cut.alone)
    edges = [0, *np.searchsorted(kept, cut.borders).tolist(), len(kept)]
    stretches = [Stretch(a, b, float(logs[kept[a:b]].mean())) for a, b in pairwise(edges)]
    return tuple(replace(each, at=measured[each.at]) for each in judged(logs, kept, stretches, cut.last_alone))


def _windows(nights: int) -> Iterator[tuple[int, int, int]]:
    """First night of a block, and from where to where its window reaches; the last is what no settled window covers yet."""
    first = 0
    while first + 2 * BLOCK < nights:
        yield first, max(0, first - BLOCK), first + 2 * BLOCK
        first += BLOCK
    yield first, max(0, nights - WINDOW_NIGHTS), nights


def _window(logs: Logs, start: int, end: int) -> _Cut:
    """The cut of the nights from `start` to before `end`."""
    kept, stretches, last_alone = settled(logs[start:end])
    borders = [start + int(kept[each.first]) for each in stretches[1:]]
    return _Cut(borders, [start + int(night) for night in np.setdiff1d(np.arange(end - start), kept)], last_alone)


def _joined(old: _Cut, new: _Cut, first: int) -> _Cut:
    """The old cut until about night `first`, and from there the new one; joined where neither has a border near."""
    near = sorted(range(first - BLOCK // 2, first + BLOCK // 2), key=lambda night: abs(night - first))
    free = (night for night in near if all(abs(night - border) > 2 * SLACK for border in old.borders + new.borders))
    seam = next(free, first) if first else 0
    borders = [at for at in old.borders if at < seam] + [at for at in new.borders if at >= seam]
    alone = [at for at in old.alone if at < seam] + [at for at in new.alone if at >= seam]
    return _Cut(borders, alone, new.last_alone)
