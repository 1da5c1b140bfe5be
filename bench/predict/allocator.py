"""CUDA's caching allocator as a model: what torch would reserve for the lives of given storages, and on what card it would run.

In: a `Timeline`. Out: peaks of allocated and reserved bytes. Pure Python, no torch. The rules are those of torch's native
allocator at its default settings (c10/cuda/CUDACachingAllocator.cpp): sizes in blocks of 512 bytes; requests up to 1 MiB from
segments of 2 MiB, larger ones below 10 MiB from segments of 20 MiB, larger ones yet from segments of their own, in whole 2 MiB;
the smallest free block that is large enough, split where enough is left over; neighbours joined when freed; all free segments
given back, and the request tried again, where the card has no more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from bench.backends.timeline import Timeline

MIB = 2**20
BLOCK_BYTES = 512
SMALL_UP_TO_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
LARGE_SEGMENT_BELOW_BYTES = 10 * MIB
SEGMENT_ROUND_BYTES = 2 * MIB
"""kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge."""
SEARCH_BYTES = 2 * MIB
"""How closely the smallest card is found: the unit in which the allocator asks for memory."""


class OutOfMemory(Exception):
    """The card has no more, free segments given back included."""


@dataclass(slots=True, eq=False)
class _Block:
    """A run of bytes in a segment, with its neighbours there."""

    size: int
    small: bool
    address: int
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass(frozen=True, slots=True)
class Peaks:
    """What torch's counters of the same names would say."""

    allocated_bytes: int
    reserved_bytes: int


class CachingAllocator:
    """One device's allocator. `limit_bytes` is what the card gives it; None: without end."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.allocated_bytes = self.reserved_bytes = 0
        self.allocated_peak_bytes = self.reserved_peak_bytes = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._blocks: dict[int, _Block] = {}
        self._next_address = 0

    def malloc(self, size_bytes: int) -> int:
        """An address. Raises OutOfMemory."""
        size = max(BLOCK_BYTES, _up(size_bytes, BLOCK_BYTES))
        small = size <= SMALL_UP_TO_BYTES
        block = self._best_fit(size, small) or self._new_segment(size, small)
        self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        self.allocated_peak_bytes = max(self.allocated_peak_bytes, self.allocated_bytes)
        return block.address

    def free(self, address: int) -> None:
        """Give back what `malloc` gave."""
        block = self._blocks[address]
        self.allocated_bytes -= block.size
        block.free = True
        if block.after is not None and block.after.free:
            self._take(block.after)
            _join(block, self._blocks.pop(block.after.address))
        if block.before is not None and block.before.free:
            before = block.before
            self._take(before)
            _join(before, self._blocks.pop(block.address))
            block = before
        insort(self._free[block.small], (block.size, block.address))

    def _best_fit(self, size: int, small: bool) -> _Block | None:
        free = self._free[small]
        found = bisect_left(free, (size, 0))
        return self._blocks[free.pop(found)[1]] if found < len(free) else None

    def _new_segment(self, size: int, small: bool) -> _Block:
        length = _segment_bytes(size)
        if not self._has_room(length):
            self._release_cached()
        if not self._has_room(length):
            raise OutOfMemory
        self.reserved_bytes += length
        self.reserved_peak_bytes = max(self.reserved_peak_bytes, self.reserved_bytes)
        block = _Block(length, small, self._next_address)
        self._next_address += length
        self._blocks[block.address] = block
        return block

    def _has_room(self, length: int) -> bool:
        return self.limit_bytes is None or self.reserved_bytes + length <= self.limit_bytes

    def _release_cached(self) -> None:
        """Give back every segment of which nothing is in use."""
        for small, free in self._free.items():
            whole = [entry for entry in free if _is_whole(self._blocks[entry[1]])]
            self._free[small] = [entry for entry in free if not _is_whole(self._blocks[entry[1]])]
            for length, address in whole:
                del self._blocks[address]
                self.reserved_bytes -= length

    def _split(self, block: _Block, size: int) -> None:
        """Leave the rest free for others, where it is worth it: any block in a small segment, over 1 MiB in a large one."""
        rest = block.size - size
        if not (rest >= BLOCK_BYTES if block.small else rest > SMALL_UP_TO_BYTES):
            return
        left = _Block(rest, block.small, block.address + size, before=block, after=block.after)
        if block.after is not None:
            block.after.before = left
        block.after, block.size = left, size
        self._blocks[left.address] = left
        insort(self._free[block.small], (rest, left.address))

    def _take(self, block: _Block) -> None:
        """Out of the list of free ones."""
        free = self._free[block.small]
        del free[bisect_left(free, (block.size, block.address))]


def replay(timeline: Timeline, kept_bytes: Iterable[int] = (), limit_bytes: int | None = None) -> Peaks:
    """The counters after the events of a timeline, with blocks of `kept_bytes` held throughout. Raises OutOfMemory."""
    allocator = CachingAllocator(limit_bytes)
    for size in kept_bytes:
        allocator.malloc(size)
    addresses: dict[int, int] = {}
    for event in timeline.events:
        number = abs(event) - 1
        if not timeline.sizes[number]:
            continue
        if event > 0:
            addresses[number] = allocator.malloc(timeline.sizes[number])
        else:
            allocator.free(addresses.pop(number))
    return Peaks(allocator.allocated_peak_bytes, allocator.reserved_peak_bytes)


def smallest_limit_bytes(timeline: Timeline, kept_bytes: Iterable[int] = ()) -> int:
    """The least that a card has to give the allocator for the timeline to run, by bisection to 2 MiB.

    Between the allocated and the reserved peak: where memory is short, segments that lie idle are given back first.
    """
    kept = tuple(kept_bytes)
    ample = replay(timeline, kept)
    low, high = ample.allocated_bytes - 1, ample.reserved_bytes
    while high - low > SEARCH_BYTES:
        middle = (low + high) // 2
        if _runs(timeline, kept, middle):
            high = middle
        else:
            low = middle
    return high


def _runs(timeline: Timeline, kept: tuple[int, ...], limit_bytes: int) -> bool:
    try:
        replay(timeline, kept, limit_bytes)
    except OutOfMemory:
        return False
    return True


def _segment_bytes(size: int) -> int:
    if size <= SMALL_UP_TO_BYTES:
        return SMALL_SEGMENT_BYTES
    return LARGE_SEGMENT_BYTES if size < LARGE_SEGMENT_BELOW_BYTES else _up(size, SEGMENT_ROUND_BYTES)


def _join(block: _Block, following: _Block) -> None:
    block.size += following.size
    block.after = following.after
    if following.after is not None:
        following.after.before = block


def _is_whole(block: _Block) -> bool:
    return block.before is None and block.after is None


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
