"""Claims against what was found, drawn: a band for the claim, a mark and an interval for the evidence.

In: judged claims. Out: a figure of those that have a number, one panel a unit; None where none has. Marks differ by tier in
shape, and colour only repeats it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench.claims.claim import TIERS, Judged, Tier
from bench.claims.found import band
from bench.claims.told import SCALES
from bench.report import wording
from bench.report.amounts import unit_name
from bench.report.document import Drawn
from bench.report.figures.dots import WIDTH_IN, label_rows
from bench.report.figures.svg import drawing, to_svg
from bench.report.language import digits, say

MARKERS: dict[Tier, str] = {"measured": "o", "stand-in": "s", "published": "D", "predicted": "^"}
COLOURS: dict[Tier, str] = {"measured": "#0b6e4f", "stand-in": "#8a5a00", "published": "#1a5fb4", "predicted": "#6b4c9a"}
BAND = "#d7dce2"
LEAST = 1e-4
"""Of a claim's own number: what lies further below is drawn at the edge."""


def claims(judged: Sequence[Judged]) -> Drawn | None:
    """Every claim of a number that has evidence, against it."""
    panels: dict[str, list[Judged]] = {}
    for each in judged:
        if _drawable(each):
            panels.setdefault(each.claim.unit or "", []).append(each)
    if not panels:
        return None
    title = say("What was claimed, and what was found")
    caption = say(
        "The grey band is what the lesson claims, with its tolerance. Marks are what the evidence gives, bars what its intervals"
        " span: circles measured, squares stand-ins, diamonds published, triangles predicted. Where some of the evidence"
        " contradicts a claim, that is what is drawn; two marks joined by dots are the ends of what does not agree with itself."
        " The axes are logarithmic."
    )
    with drawing("claims"):
        svg = to_svg(_figure(panels), "claims", title, _description(panels))
    return Drawn("claims", title, caption, svg)


def _drawable(each: Judged) -> bool:
    return each.claim.expected is not None and all(math.isfinite(value) and value > 0 for value in _values(each) or [0.0])


def _values(each: Judged) -> list[float]:
    """What is marked: the number that was found, or both ends of what has no middle."""
    if each.value is not None:
        return [each.value]
    return [] if each.least is None or each.most is None else [each.least, each.most]


def _figure(panels: dict[str, list[Judged]]) -> Figure:
    heights = [0.27 * len(group) + 0.1 for group in panels.values()]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.7 * len(panels) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (unit, group) in zip(axes, panels.items(), strict=True):
        _panel(ax, unit, group)
    marks = [
        Line2D([], [], color=COLOURS[tier], marker=MARKERS[tier], ls="", label=wording.tier(tier))
        for tier in _tiers([each for group in panels.values() for each in group])
    ]
    figure.legend(handles=marks, loc="outside upper left", ncols=4, fontsize=8.5, handletextpad=0.3)
    return figure


def _tiers(group: Sequence[Judged]) -> list[Tier]:
    there = {each.tiers[0] for each in group}
    return [tier for tier in TIERS if tier in there]


def _panel(ax: Axes, unit: str, group: Sequence[Judged]) -> None:
    scale = SCALES.get(unit, 1.0)
    spans = [_span(each, scale) for each in group]
    ax.set_xscale("log")
    low, high = min(min(each) for each in spans) / 1.5, max(max(each) for each in spans) * 1.5
    ax.set_xlim(low, high)
    bands = [_band(each, scale, low, high) for each in group]
    ax.barh(range(len(group)), [end - start for start, end in bands], 0.62, [start for start, _ in bands], color=BAND, zorder=1)
    for tier in _tiers(group):
        _marks(ax, tier, [(place, each) for place, each in enumerate(group) if each.tiers[0] == tier], scale)
    label_rows(ax, [wording.shorten(each.claim.id) for each in group])
    ax.set_title(unit_name(unit), loc="left", fontsize=9, fontweight="bold")
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high / low < 2000 else (1.0,)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(f"{value:,.10g}")))


def _marks(ax: Axes, tier: Tier, placed: Sequence[tuple[int, Judged]], scale: float) -> None:
    """What the evidence of one tier gives, and the intervals that it has."""
    _lines(ax, tier, [(place, ends) for place, each in placed for ends in _bars(each)], scale, "solid")
    _lines(ax, tier, [(place, ends) for place, each in placed for ends in _joints(each)], scale, "dotted")
    marks = [(value / scale, place) for place, each in placed for value in _values(each)]
    values, places = [value for value, _ in marks], [place for _, place in marks]
    ax.scatter(values, places, c=COLOURS[tier], marker=MARKERS[tier], s=30, zorder=3)


def _lines(
    ax: Axes, tier: Tier, placed: Sequence[tuple[int, tuple[float, float]]], scale: float, style: Literal["solid", "dotted"]
) -> None:
    lows, highs = [low / scale for _, (low, _) in placed], [high / scale for _, (_, high) in placed]
    ax.hlines([place for place, _ in placed], lows, highs, colors=COLOURS[tier], lw=1.8, linestyles=style, zorder=2)


def _bars(each: Judged) -> list[tuple[float, float]]:
    """What the intervals span; of two ends what lies beyond them, for between them nothing need be."""
    if each.low is None or each.high is None or each.low <= 0:
        return []
    if each.value is not None:
        return [(each.low, each.high)]
    return [end for least, most in _joints(each) for end in ((each.low, least), (most, each.high))]


def _joints(each: Judged) -> list[tuple[float, float]]:
    """The two ends of what has no middle."""
    values = _values(each)
    return [(values[0], values[1])] if len(values) > 1 else []


def _band(each: Judged, scale: float, low: float, high: float) -> tuple[float, float]:
    assert each.claim.expected is not None
    start, end = band(each.claim.expected, each.claim.tolerance)
    return max(start / scale, low), min(end / scale, high)


def _span(each: Judged, scale: float) -> list[float]:
    """The finite ends of claim and evidence, those far below the claim's left out."""
    assert each.claim.expected is not None
    start, end = band(each.claim.expected, each.claim.tolerance)
    numbers = [start, end, *_values(each), each.low, each.high]
    finite = [number for number in numbers if number is not None and 0 < number < math.inf]
    floor = LEAST * max(finite)
    return [value / scale for value in finite if value >= floor]


def _description(panels: dict[str, list[Judged]]) -> str:
    count = sum(len(group) for group in panels.values())
    return say(
        "{n} claims in {units} units, each with the claimed band and what was found. All values stand in the tables of the"
        " claims.",
        n=count,
        units=len(panels),
    )
