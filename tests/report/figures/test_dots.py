"""What a dot plot shows of each panel."""

from __future__ import annotations

import pandas as pd

from bench.report.figures import dots


def test_rows_are_thinned_in_each_panel_and_the_rest_counted() -> None:
    rows = [("full", f"m{index}") for index in range(dots.ROWS_PER_PANEL + 4)] + [("lora", "m1"), ("lora", "m1")]
    shown, left_out = dots.rows_shown(pd.DataFrame(rows, columns=["panel", "row"]))
    assert (len(shown["full"]), shown["lora"], left_out) == (dots.ROWS_PER_PANEL, ["m1"], 4)


def test_a_mark_for_each_run_hollow_where_it_does_not_count_and_a_bar_at_the_mean() -> None:
    points = pd.DataFrame({"panel": "lora", "row": "m1", "party": "p", "value": [1.0, 4.0, 9.0], "counts": [True, True, False]})
    axes = dots.dot_plot(points, {"lora": ["m1"]}, "value", "counts", "things").axes[0]
    full, hollow, bars = axes.collections[:3]
    assert sorted(x for x, _ in full.get_offsets()) == [1.0, 4.0]
    assert [x for x, _ in hollow.get_offsets()] == [9.0]
    assert round(bars.get_segments()[0][0][0], 9) == 2.0
    assert axes.get_xlabel() == "things"
