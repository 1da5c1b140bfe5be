"""A dot plot of runs: panels, rows of workloads, a mark for each run and a bar at each mean.

In: prepared runs with `panel`, `row` and `party`, the column to be drawn and the column that says which runs count. Out: a
matplotlib figure. What is to be drawn, and what is said of it, is for the figures that use this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.intervals import geometric_mean
from bench.report import wording
from bench.report.figures.looks import Looks, bare, legend, looks_of
from bench.report.language import digits, say, to_say

ROWS_PER_PANEL = 16
WIDTH_IN = 9.4


def rows_shown(points: pd.DataFrame) -> tuple[dict[str, list[str]], int]:
    """The rows of each panel, taken evenly where they are too many, and how many were left out in all."""
    panels = {str(panel): list(dict.fromkeys(group["row"])) for panel, group in points.groupby("panel", sort=True)}
    shown = {panel: wording.thinned(rows, ROWS_PER_PANEL) for panel, rows in panels.items()}
    return shown, sum(map(len, panels.values())) - sum(map(len, shown.values()))


def left_out_text(count: int) -> str:
    """How many rows a figure leaves out, to stand behind its caption; "" where it has them all."""
    text = to_say(
        "Left out here, and in the table below: {n} more workload.|Left out here, and in the table below: {n} more workloads."
    )
    return " " + say(text, n=count) if count else ""


def dot_plot(points: pd.DataFrame, shown: Mapping[str, list[str]], column: str, clean: str, label: str) -> Figure:
    """Every run a mark, hollow where `clean` is false; a bar at the geometric mean of the others. `label` names the axis."""
    looks = looks_of(points["party"])
    row_height_in = max(0.26, 0.11 * len(looks.colours) + 0.08)
    heights = [max(1.5, len(rows)) * row_height_in for rows in shown.values()]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.6 * len(shown) + 0.7), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (panel, rows) in zip(panels, shown.items(), strict=True):
        _panel(ax, points[(points["panel"] == panel) & points["row"].isin(rows)], rows, looks, (column, clean))
        ax.set_title(panel, loc="left", fontweight="bold")
        ax.xaxis.set_tick_params(labelbottom=True)
    low, high = points[column].min(), points[column].max()
    panels[-1].set_xscale("log")
    panels[-1].set_xlim(low / 1.25, high * 1.25)
    panels[-1].xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high / low < 2000 else (1.0,)))
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(f"{value:,.10g}")))
    panels[-1].set_xlabel(label)
    legend(figure, looks)
    return figure


def _panel(ax: Axes, points: pd.DataFrame, rows: Sequence[str], looks: Looks, columns: tuple[str, str]) -> None:
    column, clean = columns
    parties = looks.only(points["party"])
    step = 0.72 / max(len(parties), 1)
    for index, party in enumerate(parties):
        mine = points[points["party"] == party]
        heights = mine["row"].map({row: place for place, row in enumerate(rows)}) + (index - (len(parties) - 1) / 2) * step
        look: dict[str, Any] = {
            "marker": looks.markers[party],
            "edgecolors": looks.colours[party],
            "s": 18,
            "linewidths": 0.9,
            "zorder": 3,
        }
        for counts, face in ((True, looks.colours[party]), (False, "none")):
            chosen = mine[clean] == counts
            ax.scatter(mine.loc[chosen, column], heights[chosen], facecolors=face, alpha=0.75, **look)
        means = mine[mine[clean]].groupby(heights)[column].agg(geometric_mean)
        ax.vlines(means, means.index - step * 0.48, means.index + step * 0.48, colors=looks.colours[party], lw=2.2)
    label_rows(ax, [wording.shorten(row) for row in rows])


def label_rows(ax: Axes, labels: Sequence[str]) -> None:
    """A labelled row for each label, first on top, every other one shaded."""
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_yticks(range(len(labels)), labels)
    for index in range(0, len(labels), 2):
        ax.axhspan(index - 0.5, index + 0.5, color="#f3f5f7", zorder=0, lw=0)
    ax.grid(visible=True, axis="x")
    bare(ax)
