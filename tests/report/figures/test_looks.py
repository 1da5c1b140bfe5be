"""The look of each party, and axes of model sizes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from bench.report.figures import looks


def test_parties_differ_in_colour_and_in_mark_up_to_ten() -> None:
    found = looks.looks_of(f"party {number}" for number in range(10))
    assert len(set(found.colours.values())) == len(set(found.markers.values())) == 10


def test_beyond_ten_colours_still_differ() -> None:
    assert len(set(looks.looks_of(str(number) for number in range(23)).colours.values())) == 23


def test_looks_do_not_depend_on_the_order_of_parties() -> None:
    assert looks.looks_of(["b", "a", "b"]) == looks.looks_of(["a", "b"])
    assert looks.looks_of(["b", "a"]).only({"b"}) == ["b"]


@pytest.mark.parametrize(
    ("sizes", "labels"),
    [([1.24e9, 8.03e9, 70.6e9], ["71B", "8.0B", "1.2B"]), ([1.0e6, 1.01e6, 1.1e6, 5e6], ["5.0M", "1.1M", ""]), ([7e9], ["7.0B"])],
)
def test_ticks_stand_at_the_sizes_and_their_labels_never_touch(sizes: list[float], labels: list[str]) -> None:
    ax = Figure().subplots()
    ax.set_xscale("log")
    looks.size_axis(ax.xaxis, sizes)
    assert [ax.xaxis.get_major_formatter()(tick) for tick in ax.xaxis.get_ticklocs()] == labels


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_labels_are_thinned_by_the_width_that_there_is_and_the_largest_size_keeps_its_own(columns: int) -> None:
    figure = Figure(figsize=(3 * columns, 3), layout="constrained")
    panels = figure.subplots(1, columns, sharex=True)
    panels[0].set_xscale("log")
    panels[0].set_xlim(1.2e5, 1e11)
    looks.size_axis(panels[0].xaxis, [181e3, 525e3, 596e6, 1.24e9, 70e9])
    figure.draw_without_rendering()
    for ax in panels:
        labels = [each for each in ax.get_xticklabels() if each.get_text()]
        assert labels[0].get_text() == "70B"
        assert "1.2B" in [each.get_text() for each in labels]
        extents = [each.get_window_extent() for each in labels]
        assert all(left.x1 < right.x0 for right, left in pairwise(extents))


def test_a_wide_axis_has_room_for_all() -> None:
    figure = Figure(figsize=(12, 3))
    ax = figure.subplots()
    ax.set_xscale("log")
    looks.size_axis(ax.xaxis, [181e3, 525e3, 1.24e9, 70e9])
    figure.draw_without_rendering()
    assert [each.get_text() for each in ax.get_xticklabels()] == ["70B", "1.2B", "525K", "181K"]


def test_of_many_sizes_few_have_a_tick() -> None:
    ax = Figure().subplots()
    ax.set_xscale("log")
    looks.size_axis(ax.xaxis, [1e6 * 1.001**number for number in range(10_000)])
    assert len(ax.xaxis.get_ticklocs()) <= looks.MOST_TICKS + 1
