"""The fit frontier, drawn: how long a sequence and how large a batch each machine can take of each model, by method.

In: `Reach`es of both machines and what was measured. Out: a figure; None where nothing fits. A column of panels for each method,
a row for the sequence and one for the batch; the machines differ in mark as in colour. The largest models stand in its caption
and in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from bench.frontier.reach import Reach
from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.dots import WIDTH_IN
from bench.report.figures.looks import INK, QUIET, bare, size_axis
from bench.report.figures.svg import drawing, to_svg
from bench.report.figures.winners import INKS, MARKS
from bench.report.language import say, to_say

Key = tuple[str, str, str, str]
NONE_SHARE = 0.07
"""Of the height of the values, how far the line lies below the least of them, and the place for none below the line."""
SHADE = "#f4f5f6"
_ROWS = {"sequence_length": to_say("longest sequence, tokens"), "batch_size": to_say("largest batch")}
_TITLE = to_say("How far each machine reaches, by size and method")
_CAPTION = to_say(
    "Evidence: predicted. A mark is the last that fits as likely as not, a bar reaches from what surely fits to what may fit. An"
    " empty mark below the line, at “none”: not even the smallest is likely to fit. An arrow: everything that was asked for fits."
    " A cross is what a run reached, where there are any. Above, the longest sequence at batch 1; below, the largest batch at"
    " 2,048 tokens. Both axes are logarithmic."
)


@dataclass(frozen=True, slots=True)
class Heights:
    """Where things stand along an axis of values: `none` is the place of what does not fit at all, below the line at `floor`, and
    that below the `least` of the values. `margin` is a factor.
    """

    none: float
    floor: float
    least: float
    most: float
    margin: float


def reach(found: Sequence[Reach], names: Mapping[str, str], measured: Mapping[Key, Any]) -> Drawn | None:
    """The figure, without the largest models; `names` are short ones, by machine."""
    along = [each for each in found if each.axis in _ROWS]
    if not along:
        return None
    title = say(_TITLE)
    with drawing("reach"):
        svg = to_svg(_figure(along, names, measured), "reach", title, _description(along, names))
    return Drawn("reach", title, say(_CAPTION), svg)


def _figure(found: Sequence[Reach], names: Mapping[str, str], measured: Mapping[Key, Any]) -> Figure:
    methods, machines = [*dict.fromkeys(each.method for each in found)], [*dict.fromkeys(each.machine for each in found)]
    axes = [axis for axis in _ROWS if any(each.axis == axis for each in found)]
    figure = Figure(figsize=(WIDTH_IN, 2.3 * len(axes) + 0.6), layout="constrained")
    panels = figure.subplots(len(axes), len(methods), sharex=True, sharey="row", squeeze=False)
    for row, axis in enumerate(axes):
        of_axis = [each for each in found if each.axis == axis]
        heights = _heights(of_axis, measured)
        for column, method in enumerate(methods):
            _panel(panels[row, column], [each for each in of_axis if each.method == method], machines, heights, measured)
        panels[row, 0].set_ylabel(say(_ROWS[axis]))
        _scale(panels[row, 0], heights)
    for column, method in enumerate(methods):
        panels[0, column].set_title(method, loc="left", fontweight="bold")
        panels[-1, column].set_xlabel(say("parameters") + ", 10⁹")
    _sizes(panels[0, 0], [each.parameters for each in found])
    _legend(figure, machines, names, bool(measured))
    return figure


def _heights(found: Sequence[Reach], measured: Mapping[Key, Any]) -> Heights:
    """From every value that is drawn."""
    ran = [measured.get((each.machine, each.axis, each.method, each.model)) for each in found]
    drawn = [float(value) for each in found for value in (each.low, each.likely, each.high) if value is not None]
    drawn += [float(value) for value in ran if value is not None]
    least, most = min(drawn, default=1.0), max(drawn, default=1.0)
    step = max(most / least, 10.0) ** NONE_SHARE
    return Heights(none=least / step**2, floor=least / step, least=least, most=most, margin=step)


def _panel(ax: Axes, found: Sequence[Reach], machines: Sequence[str], heights: Heights, measured: Mapping[Key, Any]) -> None:
    ax.set_yscale("log")
    ax.axhspan(heights.none / heights.margin, heights.floor, color=SHADE, lw=0, zorder=0)
    for place, machine in enumerate(machines):
        mine = [each for each in found if each.machine == machine]
        _line(ax, mine, place, heights.none)
        _runs(ax, mine, measured)
    ax.grid(visible=True)
    ax.axhline(heights.floor, color=QUIET, lw=0.8, zorder=1)
    bare(ax)


def _sizes(ax: Axes, sizes: Sequence[int]) -> None:
    ax.set_xscale("log")
    size_axis(ax.xaxis, sizes, lambda value: wording.number(value / 1e9, 2))
    ax.set_xlim(min(sizes) / 1.4, max(sizes) * 1.4)


def _line(ax: Axes, mine: Sequence[Reach], place: int, none: float) -> None:
    colour, mark = INKS[place % 2], MARKS[place % 2]
    shift = (0.97, 1.03)[place % 2]
    fits, fails = ([each for each in mine if (each.likely is None) == lacks] for lacks in (False, True))
    spans = [each for each in mine if each.high is not None]
    ends = [float(each.low or none) for each in spans], [float(each.high or 0) for each in spans]
    x, y = [each.parameters * shift for each in fits], [float(each.likely or 0) for each in fits]
    ax.plot(x, y, color=colour, lw=1.2, zorder=2)
    ax.vlines([each.parameters * shift for each in spans], *ends, colors=colour, lw=2, alpha=0.45, zorder=2)
    lacking = [each.parameters * shift for each in fails]
    ax.scatter(lacking, [none] * len(lacking), marker=mark, facecolors="white", edgecolors=colour, s=26, zorder=3)
    ax.scatter(x, y, marker=mark, c=colour, s=26, zorder=3)
    for each in mine:
        if each.likely is not None and each.ends_the_search:
            at = (each.parameters * shift, int(each.likely))
            ax.annotate("↑", at, (0, 4), textcoords="offset points", color=colour, ha="center", fontsize=9)


def _runs(ax: Axes, mine: Sequence[Reach], measured: Mapping[Key, Any]) -> None:
    """What a run reached, as a cross."""
    for each in mine:
        reached = measured.get((each.machine, each.axis, each.method, each.model))
        if reached is not None:
            ax.scatter([each.parameters], [float(reached)], marker="x", c=INK, s=34, zorder=4)


def _scale(ax: Axes, heights: Heights) -> None:
    """Values above the line, and one place below it for none."""
    marks = LogLocator(10, subs=(1.0, 2.0, 5.0)).tick_values(heights.least, heights.most)
    top = heights.most * heights.margin
    ax.set_ylim(heights.none / heights.margin, top)
    ax.yaxis.set_major_locator(FixedLocator([heights.none, *(mark for mark in marks if heights.least <= mark < top)]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: say("none") if value == heights.none else wording.whole(value)))


def _legend(figure: Figure, machines: Sequence[str], names: Mapping[str, str], measured: bool) -> None:
    handles = [
        Line2D([], [], color=INKS[place % 2], marker=MARKS[place % 2], label=f"{names.get(machine, machine)} ({machine})")
        for place, machine in enumerate(machines)
    ]
    if measured:
        handles.append(Line2D([], [], color=INK, marker="x", ls="", label=say("measured")))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, fontsize=8.5)


def _description(found: Sequence[Reach], names: Mapping[str, str]) -> str:
    machines = ", ".join(dict.fromkeys(names.get(each.machine, each.machine) for each in found))
    return say("Lines of what fits on {machines}, by size and method. All values stand in the table.", machines=machines)
