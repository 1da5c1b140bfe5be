"""Training rates and their ratios, drawn.

In: prepared runs and comparisons (`bench.analysis`). Out: figures as SVG text, each with a caption that names the evidence and
whatever was left out. A figure without anything to show is None. (Peak memory is drawn in `bench.report.memory_figure`.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from bench.intervals import geometric_mean
from bench.report import wording
from bench.report.looks import ACCENT, INK, QUIET, Drawn, Looks, bare, in_order, legend, looks_of, party_names, work_names
from bench.report.svg import drawing, to_svg

ROWS_PER_METHOD = 16
PAIRS, ROWS_PER_PAIR = 8, 12
WIDTH_IN = 9.4

_SPEED_TITLE = "Training rate by backend and workload"
_SPEED_CAPTION = (
    "Evidence: measured. Every run that ended ok is a mark, hollow where it was flagged (throttled or disturbed); the bar is the"
    " geometric mean of the unflagged ones. All token positions count. The axis is logarithmic; more is better."
)
_RATIO_TITLE = "Ratio of training rates, equal work only"
_RATIO_CAPTION = (
    "Evidence: measured. Right of the line at 1 the party named first is faster. Bars are 95% intervals (Welch's t on logs,"
    " across runs) and may run beyond the frame; a hollow mark has none, as one side has a single run. Beside each ratio stand"
    " the implementations of both sides, which are spelt out under the training rates. The axis is logarithmic."
)


def speed(runs: pd.DataFrame) -> Drawn | None:
    """Tokens per second of every ok run: a panel per method, a row per workload, a bar at the geometric mean of clean runs."""
    points = runs[(runs["outcome"] == "ok") & (runs["tier"] == "measured") & (runs["tokens_per_s"] > 0)]
    if points.empty:
        return None
    points = in_order(points.assign(party=party_names(points), row=work_names(points)))
    shown = {
        str(method): wording.thinned(list(dict.fromkeys(group["row"])), ROWS_PER_METHOD)
        for method, group in points.groupby("method", sort=True)
    }
    left_out = sum(group["row"].nunique() for _, group in points.groupby("method")) - sum(map(len, shown.values()))
    caption = _SPEED_CAPTION + (f" Left out here, and in the table below: {left_out} more workloads." if left_out else "")
    with drawing("speed"):
        svg = to_svg(_speed_figure(points, shown), "speed", _SPEED_TITLE, _speed_description(points))
    return Drawn("speed", _SPEED_TITLE, caption, svg)


def ratios(pairs: Sequence[tuple[str, pd.DataFrame]]) -> Drawn | None:
    """The ratio of each comparable workload with its interval: a panel per pair, given as (title, comparisons).

    Comparisons are rows of `bench.analysis.compare` with one more column, `implementations`: the names of both sides'.
    """
    if not pairs:
        return None
    shown = [(title, _some(group)) for title, group in pairs[:PAIRS]]
    left_out = sum(len(group) for _, group in pairs) - sum(len(group) for _, group in shown)
    caption = _RATIO_CAPTION + (f" Left out here, and in the tables below: {left_out} more ratios." if left_out else "")
    with drawing("ratios"):
        svg = to_svg(_ratio_figure(shown), "ratios", _RATIO_TITLE, _ratio_description(pairs))
    return Drawn("ratios", _RATIO_TITLE, caption, svg)


def _some(group: pd.DataFrame) -> pd.DataFrame:
    return in_order(group).iloc[wording.thinned(range(len(group)), ROWS_PER_PAIR)]


def _speed_figure(points: pd.DataFrame, shown: dict[str, list[str]]) -> Figure:
    looks = looks_of(points["party"])
    row_height_in = max(0.26, 0.11 * len(looks.colours) + 0.08)
    heights = [max(1.5, len(rows)) * row_height_in for rows in shown.values()]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.6 * len(shown) + 0.7), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (method, rows) in zip(panels, shown.items(), strict=True):
        _speed_panel(ax, points[(points["method"] == method) & points["row"].isin(rows)], rows, looks)
        ax.set_title(method, loc="left", fontweight="bold")
        ax.xaxis.set_tick_params(labelbottom=True)
    low, high = points["tokens_per_s"].min(), points["tokens_per_s"].max()
    panels[-1].set_xscale("log")
    panels[-1].set_xlim(low / 1.25, high * 1.25)
    panels[-1].xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high / low < 2000 else (1.0,)))
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    panels[-1].set_xlabel("tokens per second")
    legend(figure, looks)
    return figure


def _speed_panel(ax: Axes, points: pd.DataFrame, rows: Sequence[str], looks: Looks) -> None:
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
        for clean, face in ((True, looks.colours[party]), (False, "none")):
            chosen = mine["clean"] == clean
            ax.scatter(mine.loc[chosen, "tokens_per_s"], heights[chosen], facecolors=face, alpha=0.75, **look)
        means = mine[mine["clean"]].groupby(heights)["tokens_per_s"].agg(geometric_mean)
        ax.vlines(means, means.index - step * 0.48, means.index + step * 0.48, colors=looks.colours[party], lw=2.2)
    _rows(ax, [wording.shorten(row) for row in rows])


def _rows(ax: Axes, labels: Sequence[str]) -> None:
    """A labelled row for each label, first on top, every other one shaded."""
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_yticks(range(len(labels)), labels)
    for index in range(0, len(labels), 2):
        ax.axhspan(index - 0.5, index + 0.5, color="#f3f5f7", zorder=0, lw=0)
    ax.grid(visible=True, axis="x")
    bare(ax)


def _ratio_figure(shown: Sequence[tuple[str, pd.DataFrame]]) -> Figure:
    heights = [0.27 * len(group) + 0.1 for _, group in shown]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.6 * len(shown) + 0.4), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (title, group) in zip(panels, shown, strict=True):
        _ratio_panel(ax, group)
        ax.set_title(wording.shorten(title, 110), loc="left", fontsize=9, fontweight="bold")
        ax.xaxis.set_tick_params(labelbottom=True)
    values = pd.concat([group["ratio"] for _, group in shown])
    low, high = min(values.min(), 1) / 1.4, max(values.max(), 1) * 1.4
    panels[-1].set_xscale("log")
    panels[-1].set_xlim(low, high)
    panels[-1].xaxis.set_major_locator(FixedLocator(_ratio_ticks(low, high)))
    panels[-1].xaxis.set_minor_locator(NullLocator())
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}×"))
    panels[-1].set_xlabel("times as fast")
    return figure


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Powers of two around 1, every nth where they would crowd; finer steps where all ratios are near 1."""
    if high / low < 6:
        return [tick for tick in (0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5) if low <= tick <= high]
    stride = max(1, round(math.log2(high / low) / 8))
    powers = range(math.ceil(math.log2(low) / stride), math.floor(math.log2(high) / stride) + 1)
    return [2.0 ** (power * stride) for power in powers]


def _ratio_panel(ax: Axes, group: pd.DataFrame) -> None:
    ax.axvline(1, color=INK, lw=1.2, zorder=1)
    places = list(range(len(group)))
    known = group["low"].notna().to_numpy()
    ax.hlines(places, group["low"], group["high"], colors=ACCENT, lw=2, zorder=2)
    faces = [ACCENT if interval else "white" for interval in known]
    ax.scatter(group["ratio"], places, c=faces, edgecolors=ACCENT, s=34, linewidths=1.4, zorder=3)
    names = group["method"] + "  " + work_names(group)
    _rows(ax, [wording.shorten(name) for name in names])
    for place, (ratio, implementations) in enumerate(zip(group["ratio"], group["implementations"], strict=True)):
        text = f"{wording.number(ratio)}×   {implementations}"
        ax.annotate(text, (1.01, place), xycoords=ax.get_yaxis_transform(), va="center", color=QUIET, fontsize=8)
    sns.despine(ax=ax, left=True)


def _speed_description(points: pd.DataFrame) -> str:
    low, high = points["tokens_per_s"].min(), points["tokens_per_s"].max()
    return (
        f"Dot plot of {len(points)} runs of {points['cell'].nunique()} cells, from {wording.number(low)} to"
        f" {wording.number(high)} tokens per second. All values stand in the table of summaries."
    )


def _ratio_description(pairs: Sequence[tuple[str, pd.DataFrame]]) -> str:
    values = pd.concat([group["ratio"] for _, group in pairs])
    return (
        f"Dot plot of {len(values)} ratios in {len(pairs)} pairs, from {wording.number(values.min())} to"
        f" {wording.number(values.max())}, with a line at 1. All values stand in the tables of ratios."
    )
