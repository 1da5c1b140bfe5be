"""What the figures share: a look for each party, axes and legends.

In: the names of parties, the sizes of models. Out: marks on matplotlib axes. A party keeps its colour and its mark in all figures
of a report, and differs from the others in both, so that no figure rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report import wording
from bench.report.figures.svg import FONT

INK, QUIET, ACCENT = "#202124", "#5f6368", "#1a5fb4"
LABEL_GAP_PT = 4.0
"""At least so much stands between the labels of two ticks."""
MOST_TICKS = 40
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p")


@dataclass(frozen=True, slots=True)
class Looks:
    """The colour and the mark of each party, in the order of the legend."""

    colours: dict[str, str]
    markers: dict[str, str]

    def only(self, parties: Iterable[str]) -> list[str]:
        """Those of the parties that are there, in the order of the legend."""
        there = set(parties)
        return [party for party in self.colours if party in there]


def looks_of(parties: Iterable[str]) -> Looks:
    """Colours that colour-blind eyes tell apart for up to ten parties, evenly spaced hues beyond."""
    names = sorted(set(parties))
    palette = sns.color_palette("colorblind" if len(names) <= 10 else "husl", len(names)).as_hex()
    return Looks(
        dict(zip(names, palette, strict=True)),
        {name: _MARKERS[index % len(_MARKERS)] for index, name in enumerate(names)},
    )


def _count(value: float) -> str:
    return wording.count(value, 2)


def size_axis(axis: Axis, values: Sequence[float], name: Callable[[float], str] = _count) -> None:
    """Ticks at the model sizes themselves, of which those have a label that have room for it; `values` are parameter counts.

    How much room there is shows only when the figure is drawn, so it is then that labels are left out. Of sizes that are next to
    one another all have the largest's tick.
    """
    ticks: list[float] = []
    gap = (max(values) / min(values)) ** (1 / MOST_TICKS)
    for value in sorted(set(values), reverse=True):
        if not ticks or value * gap <= ticks[-1]:
            ticks.append(value)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: name(value) if value in _labelled(axis, ticks, name) else ""))


def _labelled(axis: Axis, ticks: Sequence[float], name: Callable[[float], str]) -> set[float]:
    """Of falling ticks those whose labels do not touch along a horizontal axis as wide as it is now, the largest first."""
    size_pt = FontProperties(size=mpl.rcParams["xtick.labelsize"]).get_size_in_points()
    low, high, *places = axis.get_transform().transform([*axis.get_view_interval(), *ticks])
    figure = axis.get_figure(root=True)
    assert figure is not None, "an axis without a figure is not drawn"
    width_pt = axis.axes.bbox.width * 72 / figure.dpi
    kept, left_pt = set(), float("inf")
    for value, place in zip(ticks, places, strict=True):
        middle_pt = (place - low) / (high - low) * width_pt
        half_pt = _width_pt(name(value), size_pt) / 2
        if middle_pt + half_pt + LABEL_GAP_PT <= left_pt:
            kept.add(value)
            left_pt = middle_pt - half_pt
    return kept


@cache
def _width_pt(text: str, size_pt: float) -> float:
    """In points, by the font of all figures."""
    return float(TextPath((0, 0), text, prop=FontProperties(family=FONT), size=size_pt).get_extents().width)


def legend(figure: Figure, looks: Looks, more: Sequence[Line2D] = ()) -> None:
    """One legend above all panels."""
    marks = [
        Line2D([], [], color=colour, marker=looks.markers[party], ls="", label=wording.shorten(party, 60))
        for party, colour in looks.colours.items()
    ]
    figure.legend(handles=[*marks, *more], loc="outside upper left", ncols=2, fontsize=8.5, handletextpad=0.3, columnspacing=1.6)


def bare(ax: Axes) -> None:
    """No frame but the left and lower edge, no tick marks."""
    sns.despine(ax=ax)
    ax.tick_params(length=0)
