"""Peak memory by model size and method, against what machines have.

In: summaries (`bench.analysis.summarise`) and capacities in bytes by machine. Out: one figure, a column of panels per method
and a row per memory meter, in which every party stands that has this meter: the framework's own counter, and the resident
memory of the process. They count different things (the first leaves out the framework's cache and its libraries, the second
what lies on a card), so they never share a panel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.looks import INK, QUIET, Looks, bare, legend, looks_of, size_axis
from bench.report.figures.svg import drawing, to_svg
from bench.report.labels import party_names
from bench.report.language import say, to_say

METERS = {
    "framework_peak_bytes": to_say("peak by the framework's counter"),
    "host_peak_bytes": to_say("peak resident memory of the process"),
}
LABEL_SHARE = 0.06
"""Of a panel's height, what the name of a line takes up."""
STROKE = {"arrowstyle": "-", "color": QUIET, "lw": 0.7, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
"""From the end of a line to the middle of its name's left side."""
_TITLE = to_say("Peak memory by model size and method")
_CAPTION = to_say(
    "Each mark is the median of a cell's runs, without those whose memory a flag spoils; marks of one model size stand side by"
    " side. The meter is named on each row of panels, and every party that has it stands there: the resident memory of the"
    " process (with interpreter and libraries, without what lies on a card), and the framework's own counter where the backend"
    " has one (without the framework's cache);"
    " the two never share a panel. A cross is a cell that ran out of memory, at the capacity of its"
    " machine. Both axes are logarithmic; 1 GB is 10⁹ bytes, of which what makers call 24 and 96 GB has 7% more"
    " (2³⁰ bytes to each): 25.8 and 103 GB."
)


def memory(
    summaries: pd.DataFrame, capacities: Mapping[str, int], main_memories: Mapping[str, int] | None = None
) -> Drawn | None:
    """The figure, with capacities and other machines' main memories as lines.

    None where no cell has a peak, or a capacity that it exceeded, and a known model size.
    """
    points = peaks(summaries, capacities)
    if points.empty:
        return None
    missing = int((_ran_out(summaries) & _capacities(summaries, capacities).isna()).sum())
    title, caption = say(_TITLE), _caption(points, missing)
    lines = {**capacities}
    lines |= {say("{machine}, main memory", machine=machine): size for machine, size in (main_memories or {}).items()}
    with drawing("memory"):
        figure = _figure(points, lines)
        svg = to_svg(figure, "memory", title, _description(points, lines))
    return Drawn("memory", title, caption, svg)


def _caption(points: pd.DataFrame, missing: int) -> str:
    """What the figure shows, on what evidence, and how many cells it cannot show."""
    tiers = ", ".join(wording.tier(tier) for tier in sorted(set(points["tier"])))
    text = to_say(
        "Not drawn, as the capacity of their machine is not known: {n} cell that ran out of memory."
        "|Not drawn, as the capacity of their machine is not known: {n} cells that ran out of memory."
    )
    told = [say("Evidence: {tiers}.", tiers=tiers), say(_CAPTION)]
    return " ".join([*told, say(text, n=missing)] if missing else told)


def peaks(summaries: pd.DataFrame, capacities: Mapping[str, int]) -> pd.DataFrame:
    """One row per mark, that is per cell and meter: the summaries with `party`, `meter`, `peak_bytes` and `ran_out`.

    Sizes that are unknown are left out. A cell that ran out of memory stands under the framework's counter, unless its party's
    other cells have none.
    """
    frame = summaries[summaries["parameters"] > 0]
    frame = frame.assign(party=party_names(frame), ran_out=_ran_out(frame))
    seen, lost = frame[~frame["ran_out"]], frame[frame["ran_out"]]
    framework, host = (set(seen.loc[seen[column] > 0, "party"]) for column in METERS)
    meters = [METERS["host_peak_bytes" if party in host - framework else "framework_peak_bytes"] for party in lost["party"]]
    lost = lost.assign(peak_bytes=_capacities(lost, capacities), meter=pd.Series(meters, lost.index, dtype=object))
    marks = pd.concat([*(seen.assign(meter=meter, peak_bytes=seen[column]) for column, meter in METERS.items()), lost])
    return marks[marks["peak_bytes"] > 0].sort_values(["meter", "method", "party", "parameters", "work"], kind="stable")


def _ran_out(summaries: pd.DataFrame) -> pd.Series[bool]:
    failures = summaries[["n_oom_device", "n_oom_host", "n_over_limit"]].sum(axis=1)
    return (failures > 0) & (summaries["n_clean_memory"] == 0)


def _capacities(summaries: pd.DataFrame, capacities: Mapping[str, int]) -> pd.Series[float]:
    """What each cell had: as its runs recorded it, else the machine's profile, else main memory where that is what it uses."""
    shared = summaries["memory_bytes"].where(summaries["device"].isin(["cpu", "metal", "mps"]))
    profile = summaries["machine"].map(dict(capacities)).astype(float)
    return summaries["capacity_bytes"].fillna(profile).fillna(shared)


def _figure(points: pd.DataFrame, capacities: Mapping[str, int]) -> Figure:
    meters = [meter for meter in METERS.values() if meter in set(points["meter"])]
    methods = sorted(set(points["method"]))
    looks = looks_of(points["party"])
    points = points.assign(beside=_beside(points, looks))
    figure = Figure(figsize=(max(6.5, 3.0 * len(methods) + 0.9), 3.0 * len(meters) + 0.7), layout="constrained")
    panels = figure.subplots(len(meters), len(methods), sharex=True, sharey=True, squeeze=False)
    _scale(panels[0, 0], points, capacities)
    for row, meter in enumerate(meters):
        for column, method in enumerate(methods):
            ax = panels[row, column]
            _panel(ax, points[(points["meter"] == meter) & (points["method"] == method)], looks, capacities)
            ax.set_title(method if row == 0 else "", loc="left", fontweight="bold")
            ax.set_xlabel(say("parameters") if row == len(meters) - 1 else "")
            ax.set_ylabel(say(meter) if column == 0 else "")
        _label_capacities(panels[row, -1], capacities)
    cross = Line2D([], [], color=INK, marker="x", ls="", mew=2, label=say("ran out of memory"))
    legend(figure, looks, [cross] if points["ran_out"].any() else [])
    return figure


def _panel(ax: Axes, points: pd.DataFrame, looks: Looks, capacities: Mapping[str, int]) -> None:
    ax.grid(visible=True)
    for capacity in capacities.values():
        ax.axhline(capacity, color=QUIET, lw=1.1, ls=(0, (5, 3)))
    seen, lost = points[~points["ran_out"]], points[points["ran_out"]]
    if len(seen):
        sns.scatterplot(
            seen, x="beside", y="peak_bytes", hue="party", style="party", palette=looks.colours, markers=looks.markers,
            hue_order=looks.only(seen["party"]), style_order=looks.only(seen["party"]), s=40, legend=False, ax=ax,
        )  # fmt: skip
    ax.scatter(lost["beside"], lost["peak_bytes"], marker="x", c=lost["party"].map(looks.colours), s=36, linewidths=2, zorder=3)
    bare(ax)


def _beside(points: pd.DataFrame, looks: Looks) -> pd.Series[float]:
    """Model sizes, a little apart for each party, lest equal peaks hide one another."""
    order = {party: index - (len(looks.colours) - 1) / 2 for index, party in enumerate(looks.colours)}
    span = points["parameters"].max() / points["parameters"].min() * 2
    shift: pd.Series[float] = span ** (points["party"].map(order) * min(0.03, 0.12 / len(order)))
    return points["parameters"] * shift


def _label_capacities(ax: Axes, capacities: Mapping[str, int]) -> None:
    """Names of the lines, right of the last panel, where no mark can be in their way: each at the end of its line, and where
    lines are too near for that, as near to it as may be, with a stroke that leads there.
    """
    lines = sorted(capacities.items(), key=lambda line: (line[1], line[0]))
    low, high = (math.log(end) for end in ax.get_ylim())
    ends = [(math.log(capacity) - low) / (high - low) for _, capacity in lines]
    for (machine, capacity), end, place in zip(lines, ends, apart(ends, LABEL_SHARE), strict=True):
        text = f"{wording.size(capacity)}  {wording.shorten(machine, 44)}"
        ax.annotate(
            text, (1.0, end), (1.05, place), xycoords="axes fraction", textcoords="axes fraction", va="center", color=QUIET,
            fontsize=7.5, annotation_clip=False, arrowprops=STROKE,
        )  # fmt: skip


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Places in rising order, moved as little as may be until each is a gap from the next; what is moved keeps its mean."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and fmean(groups[-1]) - fmean(groups[-2]) < gap * (len(groups[-1]) + len(groups[-2])) / 2:
            last = groups.pop()
            groups[-1] += last
    return [fmean(group) + gap * (rank - (len(group) - 1) / 2) for group in groups for rank in range(len(group))]


def _scale(ax: Axes, points: pd.DataFrame, capacities: Mapping[str, int]) -> None:
    """Logarithmic axes for all panels, wide enough for every mark and every capacity."""
    smallest, largest = points["parameters"].min(), points["parameters"].max()
    heights = [points["peak_bytes"].min(), points["peak_bytes"].max(), *capacities.values()]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(smallest / 1.5, largest * 1.5)
    ax.set_ylim(min(heights) / 1.6, max(heights) * 1.9)
    size_axis(ax.xaxis, list(points["parameters"]))
    narrow = max(heights) / min(heights) < 300
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if narrow else (1.0,)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.round_size(value)))


def _description(points: pd.DataFrame, capacities: Mapping[str, int]) -> str:
    seen, lost = points[~points["ran_out"]], points[points["ran_out"]]
    lines = ", ".join(f"{machine} {wording.size(capacity)}" for machine, capacity in sorted(capacities.items()))
    plot = to_say(
        "Scatter plot of {n} peak in a panel per method and memory meter, with capacities as lines ({lines})."
        "|Scatter plot of {n} peaks in a panel per method and memory meter, with capacities as lines ({lines})."
    )
    texts = [say(plot, n=len(seen), lines=lines)]
    if len(seen):
        low, high = wording.size(seen["peak_bytes"].min()), wording.size(seen["peak_bytes"].max())
        texts.append(say("Peaks run from {low} to {high}.", low=low, high=high))
    if len(lost):
        texts.append(say("{n} cell ran out of memory.|{n} cells ran out of memory.", n=len(lost)))
    return " ".join([*texts, say("All values stand in the table of summaries.")])
