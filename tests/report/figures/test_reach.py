"""The fit frontier, drawn."""

from dataclasses import replace

import pytest
from advised import MAC, PC
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from bench.frontier.reach import Reach
from bench.report.figures import reach as figure
from bench.report.figures.reach import reach

NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}


def made(axis: str, likely: int | None, machine: str = PC, parameters: int = 8_000_000_000) -> Reach:
    return Reach(
        machine=machine, axis=axis, method="lora", model=f"m{parameters}", parameters=parameters, stack="hf@cuda", likely=likely,
        low=likely, high=likely, rank=likely or 0, ranks=256,
    )  # fmt: skip


FOUND = [
    *(made(axis, 200, machine) for axis in ("sequence_length", "batch_size") for machine in (PC, MAC)),
    made("batch_size", None, MAC, 70_000_000_000),
    made("batch_size", 256, PC, 1_000_000_000),
]


def test_largest_models_alone_are_not_drawn() -> None:
    assert reach([made("model", 3)], NAMES, {}) is None


def test_the_text_alternative_names_the_machines() -> None:
    drawn = reach(FOUND, NAMES, {})
    assert drawn is not None
    assert "what fits on RTX 4090, M3 Ultra" in drawn.svg


def test_what_does_not_fit_at_all_is_drawn_too() -> None:
    assert reach(FOUND, NAMES, {}) != reach([each for each in FOUND if each.likely], NAMES, {})
    assert reach([made("batch_size", None)], NAMES, {}) is not None


def test_the_same_edges_give_the_same_bytes() -> None:
    assert reach(FOUND, NAMES, {}) == reach(FOUND, NAMES, {})


def drawn_axes(monkeypatch: pytest.MonkeyPatch, found: list[Reach]) -> list[Axes]:
    seen: list[Axes] = []
    write = figure.to_svg
    monkeypatch.setattr(figure, "to_svg", lambda made, *rest: (seen.extend(made.axes), write(made, *rest))[1])
    assert reach(found, NAMES, {}) is not None
    return seen


def test_what_does_not_fit_stands_below_every_value_at_a_place_called_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [*FOUND, replace(made("batch_size", 3, MAC, 1_000_000_000), low=1, high=5)]
    for ax in drawn_axes(monkeypatch, found):
        (floor,) = [line.get_ydata()[0] for line in ax.lines if list(line.get_xdata()) == [0, 1]]
        hollow, full = [], []
        for marks in ax.collections[1:]:
            if isinstance(marks, PathCollection):
                white = marks.get_facecolor()[:, :3].min() == 1 if len(marks.get_facecolor()) else False
                (hollow if white else full).extend(float(y) for _, y in marks.get_offsets())
        assert full
        assert min(full) > floor
        assert all(place < floor for place in hollow)
        named = dict(zip(ax.get_yticks(), (ax.yaxis.get_major_formatter()(tick) for tick in ax.get_yticks()), strict=True))
        assert [tick for tick in named if tick < floor] == [tick for tick, name in named.items() if name == "none"]
        assert set(hollow) <= {tick for tick, name in named.items() if name == "none"}


def test_a_bar_of_what_may_not_even_fit_reaches_down_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    (ax,) = drawn_axes(monkeypatch, [replace(made("batch_size", 3), low=None, high=5)])
    (bars,) = [each for each in ax.collections if isinstance(each, LineCollection) and len(each.get_segments())]
    ((start, end),) = bars.get_segments()
    assert (start[1], end[1]) == (ax.get_yticks()[0], 5)
