"""The fit frontier, drawn: how long a sequence and how large a batch each machine can take of each model, by method.

In: `Reach`es of both machines and what was measured. Out: a figure; None where nothing fits. A column of panels for each method,
a row for the sequence and one for the batch; the machines differ in mark as in colour. The largest models stand in its caption
and in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.frontier.reach import Reach
from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.dots import WIDTH_IN
from bench.report.figures.looks import INK, bare, size_axis
from bench.report.figures.svg import drawing, to_svg
from bench.report.figures.winners import INKS, MARKS
from bench.report.language import say, to_say

Key = tuple[str, str, str, str]
_ROWS = {"sequence_length": to_say("longest sequence, tokens"), "batch_size": to_say("largest batch")}
_TITLE = to_say("How far each machine reaches, by size and method")
_CAPTION = to_say(
    "Evidence: predicted; bars reach from what surely fits to what may fit. An empty mark at the lower edge: not even the"
    " smallest fits. An arrow: everything that was asked for fits. A cross is what a run reached, where there are any. Above,"
    " the longest sequence at batch 1; below, the largest batch at 2,048 tokens. Both axes are logarithmic."
)


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
        for column, method in enumerate(methods):
            _panel(panels[row, column], [each for each in of_axis if each.method == method], machines, _least(of_axis), measured)
        panels[row, 0].set_ylabel(say(_ROWS[axis]))
        _scale(panels[row, 0])
    for column, method in enumerate(methods):
        panels[0, column].set_title(method, loc="left", fontweight="bold")
        panels[-1, column].set_xlabel(say("parameters") + ", 10⁹")
    _sizes(panels[0, 0], [each.parameters for each in found])
    _legend(figure, machines, names, bool(measured))
    return figure


def _least(found: Sequence[Reach]) -> float:
    """Where that is drawn of which not even the smallest fits."""
    return 0.6 * min((float(each.likely) for each in found if each.likely), default=1.0)


def _panel(ax: Axes, found: Sequence[Reach], machines: Sequence[str], least: float, measured: Mapping[Key, Any]) -> None:
    ax.set_yscale("log")
    for place, machine in enumerate(machines):
        mine = [each for each in found if each.machine == machine]
        _line(ax, mine, place, least)
        _runs(ax, mine, measured)
    ax.grid(visible=True)
    bare(ax)


def _sizes(ax: Axes, sizes: Sequence[int]) -> None:
    ax.set_xscale("log")
    size_axis(ax.xaxis, sizes)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.number(value / 1e9, 2)))
    ax.set_xlim(min(sizes) / 1.4, max(sizes) * 1.4)


def _line(ax: Axes, mine: Sequence[Reach], place: int, least: float) -> None:
    colour, mark = INKS[place % 2], MARKS[place % 2]
    shift = (0.97, 1.03)[place % 2]
    fits, fails = ([each for each in mine if (each.likely is None) == lacks] for lacks in (False, True))
    spans = [each for each in mine if each.high is not None]
    ends = [float(each.low or least) for each in spans], [float(each.high or 0) for each in spans]
    x, y = [each.parameters * shift for each in fits], [float(each.likely or 0) for each in fits]
    ax.plot(x, y, color=colour, lw=1.2, zorder=2)
    ax.vlines([each.parameters * shift for each in spans], *ends, colors=colour, lw=2, alpha=0.45, zorder=2)
    none = [each.parameters * shift for each in fails]
    ax.scatter(none, [least] * len(none), marker=mark, facecolors="white", edgecolors=colour, s=26, zorder=3)
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


def _scale(ax: Axes) -> None:
    ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.whole(value)))


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
