"""The look of each party, and axes of model sizes."""

from __future__ import annotations

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
    [([1.24e9, 8.03e9, 70.6e9], ["1.2B", "8.0B", "71B"]), ([1.0e6, 1.01e6, 5e6], ["1.0M", "5.0M"]), ([7e9], ["7.0B"])],
)
def test_ticks_stand_at_the_sizes_and_never_touch(sizes: list[float], labels: list[str]) -> None:
    ax = Figure().subplots()
    ax.set_xscale("log")
    looks.size_axis(ax.xaxis, sizes)
    assert [ax.xaxis.get_major_formatter()(tick) for tick in ax.xaxis.get_ticklocs()] == labels
