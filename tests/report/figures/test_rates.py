"""Rates and ratios drawn: the same bytes for the same results, nothing left out in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.axes import Axes

from bench import analysis
from bench.report.document import Drawn
from bench.report.figures import dots, rates

Row = Callable[..., dict[str, Any]]
SVG = "{http://www.w3.org/2000/svg}"


def prepared(*rows: dict[str, Any]) -> pd.DataFrame:
    return analysis.prepare(pd.DataFrame(list(rows)))


def pairs(runs: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    found = analysis.compare(runs).query("refused == ''").assign(implementations="hf-1 ÷ mlx-1")
    return [(" ÷ ".join(map(str, key)), group) for key, group in found.groupby(["above_backend", "below_backend"])]


def drawn(figure: Drawn | None) -> Drawn:
    assert figure is not None
    ElementTree.fromstring(figure.svg)
    return figure


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """The panels of every figure that is written while the test runs."""
    seen: list[Axes] = []
    write = rates.to_svg
    monkeypatch.setattr(rates, "to_svg", lambda figure, *rest: (seen.extend(figure.axes), write(figure, *rest))[1])
    return seen


def test_every_ok_run_is_a_mark_and_the_bar_is_the_geometric_mean_of_clean_ones(
    run_row: Row, failed_row: Row, axes: list[Axes]
) -> None:
    rows = [run_row(index=index, tokens_per_s=rate) for index, rate in enumerate((100.0, 110.0, 130.0))]
    flagged = run_row(index=5, tokens_per_s=50.0, flags=["throttled"])
    drawn(rates.speed(prepared(*rows, flagged, failed_row("crashed", "gone", index=6))))
    clean, hollow, bars = axes[0].collections[:3]
    assert sorted(x for x, _ in clean.get_offsets()) == [100.0, 110.0, 130.0]
    assert [x for x, _ in hollow.get_offsets()] == [50.0]
    assert len(hollow.get_facecolors()) == 0
    assert [segment[0][0] for segment in bars.get_segments()] == pytest.approx([(100 * 110 * 130) ** (1 / 3)])
    assert axes[0].get_xscale() == "log"


def test_only_what_was_measured_says_anything_of_speed(run_row: Row) -> None:
    assert rates.speed(prepared(run_row(tier="stand-in"))) is None
    assert rates.speed(prepared(run_row(tokens_per_s=None))) is None
    assert rates.speed(prepared()) is None


def test_workloads_beyond_the_limit_are_counted_in_the_caption(many_runs: pd.DataFrame, axes: list[Axes]) -> None:
    runs = analysis.prepare(many_runs)
    figure = drawn(rates.speed(runs))
    ok = runs[runs["outcome"] == "ok"]
    left_out = sum(max(0, group["work"].nunique() - dots.ROWS_PER_PANEL) for _, group in ok.groupby("method"))
    assert left_out > 0
    assert f"{left_out} more workloads" in figure.caption
    assert all(len(ax.get_yticks()) <= dots.ROWS_PER_PANEL for ax in axes)


def test_a_ratio_is_drawn_with_its_interval_and_a_line_at_one(run_row: Row, axes: list[Axes]) -> None:
    both = {"mlx": {}, "hf": {"device": "metal"}}
    rows = [
        run_row(index=i, backend=name, tokens_per_s=r, **both[name])
        for i, (name, r) in enumerate([("mlx", 200), ("mlx", 210), ("hf", 100), ("hf", 102)])
    ]
    runs = prepared(*rows)
    found = analysis.compare(runs).iloc[0]
    figure = drawn(rates.ratios(pairs(runs)))
    interval = axes[0].collections[0].get_segments()[0]
    assert [x for x, _ in interval] == pytest.approx([found["low"], found["high"]])
    assert axes[0].collections[1].get_offsets()[0][0] == pytest.approx(found["ratio"])
    assert list(axes[0].lines[0].get_xdata()) == [1, 1]
    assert axes[0].get_xscale() == "log"
    assert any("hf-1 ÷ mlx-1" in text.get_text() for text in axes[0].texts)
    assert figure.caption.startswith("Evidence: measured.")


def test_a_ratio_without_an_interval_is_hollow(run_row: Row, axes: list[Axes]) -> None:
    drawn(rates.ratios(pairs(prepared(run_row(), run_row(backend="hf", device="metal")))))
    assert tuple(axes[0].collections[1].get_facecolors()[0][:3]) == (1.0, 1.0, 1.0)


def test_ratios_beyond_the_limit_are_counted_in_the_caption(many_runs: pd.DataFrame) -> None:
    groups = pairs(analysis.prepare(many_runs))
    total, shown = sum(len(group) for _, group in groups), sum(min(len(group), rates.ROWS_PER_PAIR) for _, group in groups)
    assert f"{total - shown} more ratios" in drawn(rates.ratios(groups)).caption


def test_no_equal_work_no_figure() -> None:
    assert rates.ratios([]) is None


@pytest.mark.parametrize("ratio", [1.0, 1.02, 0.5, 3.3, 40.0, 1e6, 1e-6])
def test_the_axis_of_ratios_always_has_a_tick_at_one(ratio: float, run_row: Row, axes: list[Axes]) -> None:
    rows = [
        run_row(index=i, backend=name, device="cpu", tokens_per_s=r) for i, (name, r) in enumerate([("mlx", ratio), ("hf", 1.0)])
    ]
    drawn(rates.ratios(pairs(prepared(*rows))))
    low, high = axes[-1].get_xlim()
    ticks = [tick for tick in axes[-1].get_xticks() if low <= tick <= high]
    assert 1.0 in ticks
    assert 1 <= len(ticks) <= 12
    assert low < ratio < high


def test_the_same_runs_in_another_order_give_the_same_bytes(lesson_runs: pd.DataFrame) -> None:
    shuffled = lesson_runs.sample(frac=1, random_state=1)
    first, second = (analysis.prepare(runs) for runs in (lesson_runs, shuffled))
    assert drawn(rates.speed(first)).svg == drawn(rates.speed(second)).svg
    assert drawn(rates.ratios(pairs(first))).svg == drawn(rates.ratios(pairs(second))).svg


def test_noise_in_the_last_digits_changes_no_byte(lesson_runs: pd.DataFrame) -> None:
    noisy = lesson_runs.assign(tokens_per_s=lesson_runs["tokens_per_s"] * (1 + 1e-9))
    noisy.loc[::2, "tokens_per_s"] *= 1 - 2e-9
    first, second = (analysis.prepare(runs) for runs in (lesson_runs, noisy))
    assert not first["tokens_per_s"].equals(second["tokens_per_s"])
    assert drawn(rates.speed(first)).svg == drawn(rates.speed(second)).svg
    assert drawn(rates.ratios(pairs(first))).svg == drawn(rates.ratios(pairs(second))).svg


def test_hostile_and_endless_names_are_drawn_as_text(run_row: Row) -> None:
    names = ["$\\frac{1$", "<b>&amp;", "x" * 3000, "模型", "-->"]
    figure = drawn(rates.speed(prepared(*(run_row(model=name, index=index) for index, name in enumerate(names)))))
    assert "<b>" not in figure.svg
    width = float(ElementTree.fromstring(figure.svg).attrib["viewBox"].split()[2])
    assert width < 900
