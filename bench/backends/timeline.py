"""The lives of storages, in order: what was born, what died, where in a step, and the peaks that follow.

In: births, deaths and marks, as a tracker sees them. Out: the most that lived at once in each phase of a step, by part. Pure
Python; `allocator` replays the same events through a model of CUDA's caching allocator, `trace_layers` repeats a block's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

REST = "activations"
"""The part of what nobody named: made by the step and neither kept nor of the head."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a step one is: its phase (`forward`, `backward`, `optimizer`), and which of the model's blocks is at work."""

    phase: str = "forward"
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that lived at once, and what each part had of them then."""

    total_bytes: int
    parts: Mapping[str, int]


@dataclass(slots=True)
class Timeline:
    """Storages by number in order of birth: size, part, and the block that each belongs to, if any.

    An event is a number plus one: positive for a birth, negative for a death. `marks` say from which event on which place holds.
    """

    sizes: list[int] = field(default_factory=list)
    parts: list[str | None] = field(default_factory=list)
    blocks: list[int | None] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    marks: list[tuple[int, Place]] = field(default_factory=list)

    def born(self, size_bytes: int, part: str | None = None, block: int | None = None) -> int:
        """A storage of that size lives from now on; its number."""
        self.sizes.append(size_bytes)
        self.parts.append(part)
        self.blocks.append(block)
        self.events.append(len(self.sizes))
        return len(self.sizes) - 1

    def died(self, number: int) -> None:
        self.events.append(-number - 1)

    def mark(self, place: Place) -> None:
        """What follows happens there."""
        self.marks.append((len(self.events), place))

    def start(self, alive: Iterable[int]) -> None:
        """Forget what building took: only the storages `alive` exist, as if read from files in that order."""
        self.events = [number + 1 for number in alive]
        self.marks = []

    def stays(self) -> Iterator[tuple[Place, list[int]]]:
        """Each stay at a place, with its events; those before the first mark are at no block."""
        starts = [0, *(position for position, _ in self.marks)]
        ends = [*starts[1:], len(self.events)]
        places = [Place(), *(place for _, place in self.marks)]
        for place, start, end in zip(places, starts, ends, strict=True):
            if end > start:
                yield place, self.events[start:end]

    def phase_peaks(self) -> dict[str, Peak]:
        """By phase. Raises ValueError where nothing lived at all."""
        found: dict[str, Peak] = {}
        now: dict[str, int] = {}
        total = 0
        for place, events in self.stays():
            for event in events:
                number = abs(event) - 1
                change = self.sizes[number] if event > 0 else -self.sizes[number]
                part = self.parts[number] or REST
                now[part] = now.get(part, 0) + change
                total += change
                if place.phase not in found or total > found[place.phase].total_bytes:
                    found[place.phase] = Peak(total, dict(now))
        if not found:
            raise ValueError("no storage was seen: nothing ran on the device that was watched")
        return found

    def peak(self) -> Peak:
        """The highest of all phases."""
        return max(self.phase_peaks().values(), key=lambda peak: peak.total_bytes)
