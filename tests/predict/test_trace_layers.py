"""Blocks repeated: plans, and timelines written by hand for any number of blocks. Real ones are in `test_trace.py`."""

from __future__ import annotations

import pytest

from bench.backends.timeline import Place, Timeline
from bench.predict.trace_layers import Plan, UnlikeBlocks, period_of, plan, repeated


def trained(blocks: int, kinds: int = 1) -> Timeline:
    """A step of a model whose blocks, of `kinds` sizes in turn, hand an output on, keep activations and get gradients."""
    timeline = Timeline()
    sizes = [10 + index % kinds for index in range(blocks)]
    for block in range(blocks):
        timeline.born(1000 * sizes[block], "weights", block)
    timeline.start(range(blocks))
    kept, output = [], timeline.born(7)
    for block in range(blocks):
        timeline.mark(Place("forward", block))
        kept.append(timeline.born(sizes[block], None, block))
        made = timeline.born(3, None, block)
        timeline.died(output)
        output = made
    timeline.mark(Place("forward"))
    loss = timeline.born(500, "logits")
    timeline.died(output)
    timeline.mark(Place("backward"))
    gradients, coming = [], timeline.born(4)
    timeline.died(loss)
    for block in reversed(range(blocks)):
        timeline.mark(Place("backward", block))
        gradients.append(timeline.born(1000 * sizes[block], "gradients", block))
        made = timeline.born(4, None, block)
        timeline.died(coming)
        timeline.died(kept[block])
        coming = made
    timeline.mark(Place("optimizer"))
    temporaries = [timeline.born(2000 * sizes[block], None, block) for block in range(blocks)]
    for number in temporaries:
        timeline.died(number)
    for number in gradients:
        timeline.died(number)
    timeline.died(coming)
    return timeline


def told(timeline: Timeline) -> list[int]:
    """Sizes born and died, in order."""
    return [timeline.sizes[abs(event) - 1] * (1 if event > 0 else -1) for event in timeline.events]


@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize("more", [1, 2, 3, 14])
def test_a_short_model_becomes_the_long_one_event_by_event(kinds, more):
    blocks = 2 * max(2, kinds) + 2 * kinds + more
    how = plan(blocks, kinds)
    assert how is not None
    short, long = trained(how.traced, kinds), trained(blocks, kinds)
    made = repeated(short, how)
    # The optimizer frees gradients in the order of backward; copies go forward there, as lists of parameters do.
    assert sorted(told(made)) == sorted(told(long))
    assert told(made)[: -2 * blocks - 1] == told(long)[: -2 * blocks - 1]
    assert made.phase_peaks() == long.phase_peaks()


def test_each_copy_has_storages_of_its_own():
    how = Plan(5, 2, 1, 10)
    made = repeated(trained(5), how)
    born = [event for event in made.events if event > 0]
    assert len(born) == len(set(born))
    assert [block for block in made.blocks if block is not None and block >= 14] == []


def test_a_storage_that_dies_unborn_is_told():
    """The third block frees what the second made for it, and makes nothing for the fourth."""
    timeline = Timeline()
    timeline.mark(Place("forward", 1))
    made = timeline.born(1, None, 1)
    timeline.mark(Place("forward", 2))
    timeline.died(made)
    with pytest.raises(UnlikeBlocks):
        repeated(timeline, Plan(5, 2, 1, 3))


@pytest.mark.parametrize(
    ("blocks", "period", "expected"),
    [
        (5, 1, None),
        (6, 1, Plan(5, 2, 1, 2)),
        (80, 1, Plan(5, 2, 1, 76)),
        (62, 6, Plan(20, 6, 6, 8)),
        (18, 6, None),
        (26, 26, None),
    ],
)
def test_plans(blocks, period, expected):
    found = plan(blocks, period)
    assert found == expected
    if found is not None:
        assert found.traced + (found.copies - 1) * found.period == blocks


@pytest.mark.parametrize(
    ("kinds", "period"), [((), 1), (("a", "a", "a"), 1), (("a", "a", "b", "a", "a", "b", "a"), 3), (("a", "b", "b"), 3)]
)
def test_kinds_repeat_after(kinds, period):
    assert period_of(kinds) == period
