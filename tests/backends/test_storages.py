"""The tracker of live storages, on real tensors of the CPU."""

from __future__ import annotations

import torch

from bench.backends.storages import Tracker
from bench.backends.timeline import Place


def test_a_storage_counts_from_its_birth_to_its_death():
    with Tracker("cpu") as tracker:
        made = torch.empty(100)
        tracker.enter(Place("backward"))
        other = torch.empty(10)
        del made
        tracker.enter(Place("optimizer"))
        third = torch.empty(1)
    peaks = tracker.timeline.phase_peaks()
    assert [peaks[phase].total_bytes for phase in ("forward", "backward", "optimizer")] == [400, 440, 44]
    assert other.numel() + third.numel() == 11


def test_views_and_work_in_place_take_nothing():
    with Tracker("cpu") as tracker:
        made = torch.empty(100)
        made.view(10, 10).t()[2:].add_(1)
    assert tracker.timeline.peak().total_bytes == 400


def test_a_storage_that_grows_in_place_counts_at_its_new_size():
    with Tracker("cpu") as tracker:
        made = torch.empty(100)
        made.resize_(300)
        del made
    assert tracker.timeline.peak().total_bytes == 1200
    assert sum(1 if event > 0 else -1 for event in tracker.timeline.events) == 0


def test_other_devices_do_not_count():
    with Tracker("cuda") as tracker:
        torch.empty(100)
    assert tracker.timeline.events == []


def test_what_was_made_before_counts_once_it_is_named():
    weight = torch.empty(100)
    tracker = Tracker("cpu")
    with tracker:
        torch.empty(50)
        tracker.name("weights", weight, 3)
        tracker.name("weights", weight, 4)
        tracker.start()
    assert tracker.timeline.peak().parts == {"weights": 400}
    assert tracker.timeline.blocks[tracker.timeline.events[0] - 1] == 3


def test_an_operator_that_gives_a_tensor_for_each_parameter_gave_each_block_its_own():
    with Tracker("cpu") as tracker:
        parameters = [torch.empty(4), torch.empty(8)]
        tracker.enter(Place("optimizer"), None, [[0, 7]])
        roots = torch._foreach_sqrt(parameters)
    assert tracker.timeline.blocks == [None, None, 0, 7]
    assert len(roots) == 2


def test_stand_ins_take_the_place_of_an_operator_and_may_say_what_it_takes_within():
    def with_workspace(tracker, operator, args, kwargs):
        made = operator(*args, **kwargs)
        tracker.transient(made, [1000, 2000])
        return made

    def pieces(tracker, operator, args, kwargs):
        return tracker.within(lambda left, right: left + right * 1, *args)

    special = {torch.ops.aten.mm.default: with_workspace, torch.ops.aten.maximum.default: pieces}
    left = torch.ones(2, 2)
    with Tracker("cpu", special) as tracker:
        product = left @ left
        assert tracker.timeline.peak().total_bytes == 16 + 3000
        total = torch.maximum(left, left)
    assert total.equal(left * 2)
    assert product.equal(left * 2)
    assert tracker.timeline.sizes == [16, 1000, 2000, 16, 16]


def test_gradients_and_saved_tensors_are_seen_through_autograd():
    weight = torch.ones(10, requires_grad=True)
    with Tracker("cpu") as tracker:
        (weight * weight).exp().sum().backward()
    sizes = [tracker.timeline.sizes[event - 1] for event in tracker.timeline.events if event > 0]
    assert sizes.count(40) >= 3
    assert weight.grad is not None
