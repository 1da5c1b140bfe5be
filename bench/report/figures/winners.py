"""The winner map, drawn: size by context for each method, who wins (a word, a mark, a colour), by how much, where it flips.

In: contests of two machines (`bench.refine.winners`) and what to call the machines. Out: a figure; None without contests. A thick
line between two cells says that the winner changes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from bench.refine.winners import Contest, Why, WinnerMap
from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.dots import WIDTH_IN
from bench.report.figures.looks import INK, QUIET
from bench.report.figures.svg import drawing, to_svg
from bench.report.language import say, to_say
from bench.report.winners import is_tight, nobody, outcome

ROW_IN = 0.34
UNSURE: tuple[Why, ...] = ("probably neither fits", "undecided")
MARKS, INKS, FILLS = ("s", "o"), ("#1a5fb4", "#a04000"), ("#dbe8fa", "#fbe3cf")
NEITHER, OPEN = "#eceef0", "#f7f8f9"
"""Fields that nobody wins: surely, and perhaps."""
_TITLE = to_say("Who should do it, by method, size and context")
_CAPTION = to_say(
    "Each field names the machine that is the one to choose with a probability of 50% or more: it fits, and the other does not or"
    " is slower. The factor is its rate over the other’s, each by its best stack; “only” means that the other one does not fit,"
    " or probably not, “tight” that the winner itself may not, and a question mark that the choice is less than 90% sure. Hatched"
    " fields are tight; dotted ones probably fit neither, or are undecided, as nothing reaches 50%. A thick line stands where"
    " the winner changes. Rows are tokens of a sequence, at batch 1 with gradient checkpointing."
)


def winners(found: WinnerMap, names: Mapping[str, str]) -> Drawn | None:
    """The map; `names` are short ones, by machine."""
    if not found.contests:
        return None
    title = say(_TITLE)
    with drawing("winners"):
        svg = to_svg(_figure(found, names), "winners", title, _description(found, names))
    return Drawn("winners", title, say(_CAPTION), svg)


def _figure(found: WinnerMap, names: Mapping[str, str]) -> Figure:
    panels: dict[str, list[Contest]] = {}
    for each in found.contests:
        panels.setdefault(each.method, []).append(each)
    heights = [len({each.sequence_length for each in group}) * ROW_IN for group in panels.values()]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.5 * len(panels) + 0.5), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (method, group) in zip(axes, panels.items(), strict=True):
        _panel(ax, method, group, (found.first, found.second), names)
    handles = [
        Line2D([], [], color=INKS[place], marker=MARKS[place], ls="", label=f"{names[machine]} ({machine})")
        for place, machine in enumerate((found.first, found.second))
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, fontsize=8.5, handletextpad=0.3)
    return figure


def _panel(ax: Axes, method: str, group: Sequence[Contest], machines: tuple[str, str], names: Mapping[str, str]) -> None:
    models = [*dict.fromkeys(each.model for each in sorted(group, key=lambda each: each.parameters))]
    contexts = sorted({each.sequence_length for each in group})
    at = {(models.index(each.model), contexts.index(each.sequence_length)): each for each in group}
    for (column, row), each in at.items():
        _field(ax, column, row, each, machines, names)
    for place, machine in enumerate(machines):
        won = [field for field, each in at.items() if each.winner == machine]
        marks = [column - 0.42 for column, _ in won], [row for _, row in won]
        ax.scatter(*marks, marker=MARKS[place], c=INKS[place], s=22, zorder=3)
    _flips(ax, at)
    ax.set_xlim(-0.5, len(models) - 0.5)
    ax.set_ylim(len(contexts) - 0.5, -0.5)
    ax.set_xticks(range(len(models)), [wording.shorten(model, 20) for model in models], fontsize=8)
    ax.set_yticks(range(len(contexts)), [wording.whole(context) for context in contexts], fontsize=8)
    ax.set_title(method, loc="left", fontweight="bold")
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _field(ax: Axes, column: int, row: int, each: Contest, machines: tuple[str, str], names: Mapping[str, str]) -> None:
    place = machines.index(each.winner) if each.winner in machines else None
    fill, hatch, strokes = _look(each, place)
    ax.add_patch(
        Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=fill, edgecolor=strokes, lw=0, hatch=hatch, zorder=1)
    )
    text = outcome(each, names)
    ax.text(column - 0.35, row, text, ha="left", va="center", fontsize=7.2, color=QUIET if place is None else INK, zorder=3)


def _look(each: Contest, place: int | None) -> tuple[str, str | None, str]:
    """(fill, hatch, colour of the hatch) of a field."""
    if place is not None:
        return FILLS[place], "////" if is_tight(each) else None, "#ffffff"
    return (OPEN, "..", "#e3e6e8") if each.why in UNSURE else (NEITHER, None, "#ffffff")


def _flips(ax: Axes, at: Mapping[tuple[int, int], Contest]) -> None:
    for (column, row), each in at.items():
        right, below = at.get((column + 1, row)), at.get((column, row + 1))
        if right is not None and right.winner != each.winner:
            ax.plot([column + 0.5, column + 0.5], [row - 0.5, row + 0.5], color=INK, lw=2, zorder=4, solid_capstyle="butt")
        if below is not None and below.winner != each.winner:
            ax.plot([column - 0.5, column + 0.5], [row + 0.5, row + 0.5], color=INK, lw=2, zorder=4, solid_capstyle="butt")


def _description(found: WinnerMap, names: Mapping[str, str]) -> str:
    won = [
        say("{machine} wins {n}", machine=names[machine], n=sum(each.winner == machine for each in found.contests))
        for machine in (found.first, found.second)
    ]
    whys = [each.why for each in found.contests if each.winner is None]
    rest = [say("{why} in {n}", n=whys.count(why), why=nobody(why)) for why in dict.fromkeys(whys)]
    return say(
        "A map of {all} fields: {counts}. All of them stand in the table of the map.",
        all=len(found.contests),
        counts=", ".join([*won, *rest]),
    )
