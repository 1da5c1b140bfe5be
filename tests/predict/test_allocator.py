"""The caching allocator's rules, by traces that show each, and by random ones that keep its books honest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.backends.timeline import Timeline
from bench.predict.allocator import CachingAllocator, OutOfMemory, Peaks, replay, smallest_limit_bytes

MIB = 2**20


def test_sizes_are_rounded_to_blocks_of_512_bytes():
    allocator = CachingAllocator()
    allocator.malloc(1)
    allocator.malloc(513)
    assert allocator.allocated_bytes == 512 + 1024


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB + 1, 12 * MIB),
    ],
)
def test_segments_are_of_2_or_20_mib_or_of_their_own(size, segment):
    allocator = CachingAllocator()
    allocator.malloc(size)
    assert allocator.reserved_bytes == segment


def test_a_freed_block_is_used_again_and_reserved_memory_stays():
    allocator = CachingAllocator()
    first = allocator.malloc(30 * MIB)
    allocator.free(first)
    assert allocator.malloc(30 * MIB) == first
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (30 * MIB, 30 * MIB)


def test_the_smallest_block_that_is_large_enough_is_taken():
    allocator = CachingAllocator()
    large, fit = allocator.malloc(40 * MIB), allocator.malloc(30 * MIB)
    allocator.free(large)
    allocator.free(fit)
    assert allocator.malloc(29 * MIB + 512) == fit


def test_a_rest_of_up_to_one_mib_of_a_large_block_is_not_split_off_and_counts_as_allocated():
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(29 * MIB)
    assert allocator.allocated_bytes == 30 * MIB
    other = CachingAllocator()
    other.free(other.malloc(30 * MIB))
    other.malloc(29 * MIB - 512)
    assert other.allocated_bytes == 29 * MIB - 512


def test_small_and_large_requests_never_share_a_segment():
    allocator = CachingAllocator()
    allocator.malloc(2 * MIB)
    allocator.malloc(512)
    assert allocator.reserved_bytes == 22 * MIB


def test_neighbours_are_joined_when_both_are_free():
    allocator = CachingAllocator()
    pieces = [allocator.malloc(5 * MIB) for _ in range(4)]
    for piece in (pieces[0], pieces[2], pieces[1]):
        allocator.free(piece)
    assert allocator.malloc(15 * MIB) == pieces[0]
    assert allocator.reserved_bytes == 20 * MIB


def test_where_the_card_has_no_more_idle_segments_go_back_and_the_request_is_tried_again():
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(80 * MIB)
    assert allocator.reserved_bytes == 80 * MIB
    assert allocator.reserved_peak_bytes == 80 * MIB


def test_a_segment_in_use_does_not_go_back():
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(10 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.malloc(80 * MIB)


def test_a_timeline_with_blocks_held_throughout():
    timeline = Timeline()
    first = timeline.born(30 * MIB)
    timeline.born(0)
    timeline.died(first)
    timeline.born(12 * MIB)
    assert replay(timeline, [8 * MIB]) == Peaks(38 * MIB, 50 * MIB)


def test_the_smallest_card_lies_between_what_is_allocated_and_what_is_reserved():
    timeline = Timeline()
    timeline.died(timeline.born(60 * MIB))
    timeline.born(80 * MIB)
    assert replay(timeline) == Peaks(80 * MIB, 140 * MIB)
    smallest = smallest_limit_bytes(timeline)
    assert 80 * MIB <= smallest <= 82 * MIB
    replay(timeline, limit_bytes=smallest)
    with pytest.raises(OutOfMemory):
        replay(timeline, limit_bytes=smallest - 2 * MIB - 1)


@given(st.lists(st.tuples(st.integers(1, 40 * MIB), st.booleans()), max_size=40), st.randoms(use_true_random=False))
def test_books_balance_whatever_is_asked(requests, order):
    """Nothing overlaps, what is allocated is the sum of what is in use, and in the end all of it can go back."""
    allocator = CachingAllocator()
    held: dict[int, int] = {}
    for size, frees in requests:
        address = allocator.malloc(size)
        assert all(address + size <= other or other + length <= address for other, length in held.items())
        held[address] = size
        if frees:
            gone = order.choice(sorted(held))
            del held[gone]
            allocator.free(gone)
        assert sum(held.values()) <= allocator.allocated_bytes <= allocator.reserved_bytes
        assert allocator.allocated_bytes <= sum(held.values()) + len(held) * MIB
    for address in held:
        allocator.free(address)
    assert allocator.allocated_bytes == 0
    allocator._release_cached()
    assert allocator.reserved_bytes == 0
