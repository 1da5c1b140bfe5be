"""From a trace of few blocks to that of many: what a block within did is done again for each further one.

In: the timeline of a short model. Out: the timeline of a longer one. Blocks of a kind do the same, so nothing is approximated:
each further block has storages of its own, born and dying where its neighbours' are, in the order of a real trace. Pure Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from bench.backends.timeline import Place, Timeline

EDGE = 2
"""Blocks at either end that are kept as they are: the outermost may be special, the next is a pattern for its neighbours."""

Key = tuple[object, ...]


class UnlikeBlocks(ValueError):
    """The blocks of the short trace are not alike, so that none can stand for others."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which of the short model's blocks are repeated: `period` blocks from `first` on stand there `copies` times.

    `traced` is how many blocks the short model has.
    """

    traced: int
    first: int
    period: int
    copies: int

    def moved(self, block: int) -> int:
        """A block of the short model that is not repeated, in the long one."""
        return block if block < self.first else block + (self.copies - 1) * self.period

    def repeats(self, block: int | None) -> bool:
        return block is not None and self.first <= block < self.first + self.period


def plan(blocks: int, period: int = 1) -> Plan | None:
    """How to trace a model of so many blocks, whose kinds repeat after `period`. None: whole, since it is short anyway."""
    edge = max(EDGE, period)
    traced = 2 * edge + period
    traced += (blocks - traced) % period
    return Plan(traced, edge, period, (blocks - traced) // period + 1) if blocks > traced else None


def period_of(kinds: Sequence[str]) -> int:
    """After how many blocks their kinds repeat; one where none are named."""
    for step in range(1, len(kinds)):
        if all(kind == kinds[index - step] for index, kind in enumerate(kinds) if index >= step):
            return step
    return max(1, len(kinds))


def repeated(short: Timeline, how: Plan) -> Timeline:
    """The timeline of the long model. Raises UnlikeBlocks."""
    return _Repeating(short, how).timeline


class _Repeating:
    """Goes through the short timeline once and writes the long one."""

    def __init__(self, short: Timeline, how: Plan) -> None:
        self.timeline = Timeline()
        self._short = short
        self._how = how
        self._keys = _keys(short)
        self._numbers: dict[tuple[int | None, Key], int] = {}
        for repeats, stays in groupby(_stays(short), key=lambda stay: how.repeats(stay[0].block)):
            if repeats:
                self._repeat(list(stays))
            else:
                for place, events in stays:
                    self._once(place, events)

    def _repeat(self, stays: list[tuple[Place, list[int]]]) -> None:
        """A visit of the repeated blocks: from the first copy to the last, in backward from the last to the first."""
        order = range(self._how.copies)
        for turn, copy in enumerate(reversed(order) if stays[0][0].phase == "backward" else order):
            shift = copy * self._how.period
            for place, events in stays:
                self._enter(Place(place.phase, place.block if place.block is None else place.block + shift))
                for event in events:
                    block = self._short.blocks[abs(event) - 1]
                    if block is not None:
                        self._write(event, block + shift)
                    elif turn == 0:
                        self._write(event, None)

    def _once(self, place: Place, events: list[int]) -> None:
        """A stay elsewhere. What it does to storages of repeated blocks it does to each copy's, unless it is a block itself."""
        self._enter(place if place.block is None else Place(place.phase, self._how.moved(place.block)))
        last = (self._how.copies - 1) * self._how.period
        for repeats, run in groupby(events, key=lambda event: self._how.repeats(self._short.blocks[abs(event) - 1])):
            if not repeats:
                for event in run:
                    block = self._short.blocks[abs(event) - 1]
                    self._write(event, None if block is None else self._how.moved(block))
            elif place.block is None:
                self._for_each_copy(list(run))
            else:
                shift = 0 if place.block < self._how.first else last
                for event in run:
                    self._write(event, (self._short.blocks[abs(event) - 1] or 0) + shift)

    def _for_each_copy(self, events: list[int]) -> None:
        for copy in range(self._how.copies):
            for event in events:
                self._write(event, (self._short.blocks[abs(event) - 1] or 0) + copy * self._how.period)

    def _enter(self, place: Place) -> None:
        self.timeline.mark(place)

    def _write(self, event: int, block: int | None) -> None:
        number = abs(event) - 1
        name = (block, self._keys[number])
        if event > 0:
            if name in self._numbers:
                raise UnlikeBlocks(f"block {block} makes {name[1]} twice")
            self._numbers[name] = self.timeline.born(self._short.sizes[number], self._short.parts[number], block)
            return
        try:
            self.timeline.died(self._numbers.pop(name))
        except KeyError:
            raise UnlikeBlocks(f"block {block} has no {name[1]} that could die") from None


def _stays(short: Timeline) -> Iterator[tuple[Place, list[int]]]:
    yield from short.stays()


def _keys(short: Timeline) -> list[Key]:
    """What a storage is called among those of its block: the visit at which it was born, and the how-manieth of it.

    Visits of a block are counted for it; those of no block for all together.
    """
    keys: list[Key] = [()] * len(short.sizes)
    visits: Counter[int | None] = Counter()
    for block, stays in groupby(short.stays(), key=lambda stay: stay[0].block):
        visits[block] += 1
        ordinals: Counter[int | None] = Counter()
        for number in _births(stays):
            owner = short.blocks[number]
            keys[number] = ("outside" if block is None else "within", visits[block], ordinals[owner])
            ordinals[owner] += 1
    return keys


def _births(stays: Iterable[tuple[Place, list[int]]]) -> Iterator[int]:
    for _, events in stays:
        yield from (event - 1 for event in events if event > 0)
