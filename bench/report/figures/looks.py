"""What the figures share: a look for each party, axes and legends.

In: the names of parties, the sizes of models. Out: marks on matplotlib axes. A party keeps its colour and its mark in all figures
of a report, and differs from the others in both, so that no figure rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report import wording

INK, QUIET, ACCENT = "#202124", "#5f6368", "#1a5fb4"
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


def size_axis(axis: Axis, values: Sequence[float], limits: tuple[float, float] | None = None) -> None:
    """Ticks at the model sizes themselves, thinned where they would touch; `values` are parameter counts."""
    low, high = limits or (min(values), max(values))
    gap = (high / low) ** 0.1
    ticks: list[float] = []
    for value in sorted(set(values)):
        if not ticks or value >= ticks[-1] * gap:
            ticks.append(value)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: wording.count(value, 2)))


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
