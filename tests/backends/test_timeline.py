"""Lives of storages, and their peaks."""

from __future__ import annotations

import pytest

from bench.backends.timeline import Place, Timeline


def test_the_peak_of_a_phase_and_who_had_it():
    timeline = Timeline()
    timeline.born(100, "weights")
    made = timeline.born(30)
    timeline.mark(Place("backward", 1))
    timeline.born(50, "gradients")
    timeline.died(made)
    timeline.mark(Place("optimizer"))
    timeline.born(5)
    peaks = timeline.phase_peaks()
    assert peaks["forward"].total_bytes == 130
    assert peaks["backward"].total_bytes == 180
    assert peaks["backward"].parts == {"weights": 100, "activations": 30, "gradients": 50}
    assert peaks["optimizer"].total_bytes == 155
    assert timeline.peak() == peaks["backward"]


def test_a_phase_that_only_frees_still_has_what_lived_then():
    timeline = Timeline()
    first, _ = timeline.born(10), timeline.born(7)
    timeline.mark(Place("optimizer"))
    timeline.died(first)
    assert timeline.phase_peaks()["optimizer"].total_bytes == 7


def test_a_part_named_late_holds_from_the_start():
    timeline = Timeline()
    number = timeline.born(10)
    timeline.parts[number] = "gradients"
    assert timeline.peak().parts == {"gradients": 10}


def test_what_building_took_is_forgotten():
    timeline = Timeline()
    dead, alive = timeline.born(1000), timeline.born(10)
    timeline.mark(Place("backward"))
    timeline.died(dead)
    timeline.start([alive])
    assert timeline.peak().total_bytes == 10
    assert timeline.marks == []


def test_stays_are_in_order_and_none_is_empty():
    timeline = Timeline()
    timeline.born(1)
    timeline.mark(Place("forward", 0))
    timeline.mark(Place("forward", 1))
    timeline.born(2)
    assert list(timeline.stays()) == [(Place(), [1]), (Place("forward", 1), [2])]


def test_a_timeline_without_storages_says_so():
    with pytest.raises(ValueError, match="nothing ran on the device"):
        Timeline().peak()
