"""Rates of training and serving and their ratios, drawn.

In: prepared runs and comparisons (`bench.analysis`). Out: figures as SVG text, each with a caption that names the evidence and
whatever was left out. A figure without anything to show is None. (Peak memory is drawn in `bench.report.figures.memory`.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.dots import WIDTH_IN, dot_plot, label_rows, left_out_text, rows_shown
from bench.report.figures.looks import ACCENT, INK, QUIET
from bench.report.figures.svg import drawing, to_svg
from bench.report.labels import in_order, party_names, work_names
from bench.report.language import digits, say, to_say

PAIRS, ROWS_PER_PAIR = 8, 12

_SPEED_TITLE = to_say("Rate by backend and workload")
_SPEED_CAPTION = to_say(
    "Evidence: measured. Every run that ended ok is a mark, hollow where a flag spoils its times; the bar is the geometric mean"
    " of the others. Of training all token positions count, of serving those decoded. The axis is logarithmic; more is better."
)
_RATIO_TITLE = to_say("Ratio of rates, equal work only")
_RATIO_CAPTION = to_say(
    "Evidence: measured. Right of the line at 1 the party named first is faster. Bars are 95% intervals across runs (Welch's t"
    " on logs, or from ten runs a bootstrap) and may run beyond the frame; a hollow mark has none, as one side has a single run."
    " Beside each ratio stand the implementations of both sides, which are spelt out under the rates. The axis is"
    " logarithmic."
)


def speed(runs: pd.DataFrame) -> Drawn | None:
    """Tokens per second of every ok run: a panel per method, a row per workload, a bar at the geometric mean of clean runs."""
    points = runs[(runs["outcome"] == "ok") & (runs["tier"] == "measured") & (runs["tokens_per_s"] > 0)]
    if points.empty:
        return None
    points = in_order(points.assign(party=party_names(points), row=work_names(points), panel=points["method"]))
    shown, left_out = rows_shown(points)
    title, caption = say(_SPEED_TITLE), say(_SPEED_CAPTION) + left_out_text(left_out)
    with drawing("speed"):
        figure = dot_plot(points, shown, "tokens_per_s", "clean", say("tokens per second"))
        svg = to_svg(figure, "speed", title, _speed_description(points))
    return Drawn("speed", title, caption, svg)


def ratios(pairs: Sequence[tuple[str, pd.DataFrame]]) -> Drawn | None:
    """The ratio of each comparable workload with its interval: a panel per pair, given as (title, comparisons).

    Comparisons are rows of `bench.analysis.compare` with one more column, `implementations`: the names of both sides'.
    """
    if not pairs:
        return None
    shown = [(title, _some(group)) for title, group in pairs[:PAIRS]]
    left_out = sum(len(group) for _, group in pairs) - sum(len(group) for _, group in shown)
    more = to_say(
        "Left out here, and in the tables below: {n} more ratio.|Left out here, and in the tables below: {n} more ratios."
    )
    title, caption = say(_RATIO_TITLE), say(_RATIO_CAPTION) + (" " + say(more, n=left_out) if left_out else "")
    with drawing("ratios"):
        svg = to_svg(_ratio_figure(shown), "ratios", title, _ratio_description(pairs))
    return Drawn("ratios", title, caption, svg)


def _some(group: pd.DataFrame) -> pd.DataFrame:
    return in_order(group).iloc[wording.thinned(range(len(group)), ROWS_PER_PAIR)]


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
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(f"{value:.3g}") + "×"))
    panels[-1].set_xlabel(say("times as fast"))
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
    label_rows(ax, [wording.shorten(name) for name in names])
    for place, (ratio, implementations) in enumerate(zip(group["ratio"], group["implementations"], strict=True)):
        text = f"{wording.number(ratio)}×   {implementations}"
        ax.annotate(text, (1.01, place), xycoords=ax.get_yaxis_transform(), va="center", color=QUIET, fontsize=8)
    sns.despine(ax=ax, left=True)


def _speed_description(points: pd.DataFrame) -> str:
    low, high = points["tokens_per_s"].min(), points["tokens_per_s"].max()
    text = to_say(
        "Dot plot of {runs} of {cells}, from {low} to {high} tokens per second. All values stand in the table of summaries."
    )
    runs, cells = say("{n} run|{n} runs", n=len(points)), say("{n} cell|{n} cells", n=points["cell"].nunique())
    return say(text, runs=runs, cells=cells, low=wording.number(low), high=wording.number(high))


def _ratio_description(pairs: Sequence[tuple[str, pd.DataFrame]]) -> str:
    values = pd.concat([group["ratio"] for _, group in pairs])
    text = to_say(
        "Dot plot of {ratios} in {pairs}, from {low} to {high}, with a line at 1. All values stand in the tables of ratios."
    )
    many = {"ratios": say("{n} ratio|{n} ratios", n=len(values)), "pairs": say("{n} pair|{n} pairs", n=len(pairs))}
    return say(text, **many, low=wording.number(values.min()), high=wording.number(values.max()))
