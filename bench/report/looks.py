"""What the figures share: names of parties and workloads, a look for each party, axes and legends.

In: frames of `bench.analysis`. Out: labels, and marks on matplotlib axes. A party keeps its colour and its mark in all figures
of a report, and differs from the others in both, so that no figure rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bench.report import wording
from bench.report.language import say

INK, QUIET, ACCENT = "#202124", "#5f6368", "#1a5fb4"
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "p")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure: `name` is its file's stem and the prefix of its ids; `caption` names evidence, meter and omissions."""

    name: str
    title: str
    caption: str
    svg: str


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


def party_names(frame: pd.DataFrame, prefix: str = "") -> pd.Series[str]:
    """`backend@device on machine` for each row of a frame with these columns (their names preceded by `prefix`)."""
    backend, device, machine = (frame[prefix + name] for name in ("backend", "device", "machine"))
    return backend + "@" + device + f" {say('on')} " + machine


def work_names(frame: pd.DataFrame) -> pd.Series[str]:
    """The workload of each row, its method left out; the digest's start behind it where one name stands for several."""
    names = pd.Series(
        [_without(work, method) for work, method in zip(frame["work"], frame["method"], strict=True)], frame.index, dtype=object
    )
    several = frame.groupby("work")["workload_digest"].transform("nunique") > 1
    return names.where(~several, names + " #" + frame["workload_digest"].str[:6])


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by method, then by model size (unknown last), then by name."""
    return frame.sort_values(["method", "parameters", "work", "workload_digest"], kind="stable")


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


def _without(work: str, method: str) -> str:
    return work.replace(f"/{method}", "", 1)
