"""Energy per token, drawn.

In: prepared runs (`bench.analysis`) with the scope of their joules. Out: a figure; None where no run measured any.
"""

from __future__ import annotations

import pandas as pd

from bench.report import wording
from bench.report.document import Drawn
from bench.report.figures.dots import dot_plot, left_out_text, rows_shown
from bench.report.figures.svg import drawing, to_svg
from bench.report.labels import in_order, party_names, work_names
from bench.report.language import say, to_say

_TITLE = to_say("Energy per token by backend and workload: {scopes}")
_CAPTION = to_say(
    "Evidence: measured. Each panel names the scope: what its joules cover; panels of different scopes are not to be compared."
    " Every run that ended ok is a mark, hollow where a flag spoils its energy; the bar is the geometric mean of the others. Idle"
    " power is not taken off. Of training all token positions count, of serving those generated. The axis is logarithmic; less is"
    " better."
)


def energy(runs: pd.DataFrame) -> Drawn | None:
    """Joules per token of every ok run with `scope`: a panel per method and scope, a row per workload."""
    points = runs[(runs["outcome"] == "ok") & (runs["tier"] == "measured") & (runs["j_per_token"] > 0)]
    if points.empty:
        return None
    panels = points["method"] + ", " + points["scope"]
    points = in_order(points.assign(party=party_names(points), row=work_names(points), panel=panels))
    shown, left_out = rows_shown(points)
    title = say(_TITLE, scopes=", ".join(sorted(set(points["scope"]))))
    caption = say(_CAPTION) + left_out_text(left_out)
    with drawing("energy"):
        figure = dot_plot(points, shown, "j_per_token", "clean_energy", say("joules per token"))
        svg = to_svg(figure, "energy", title, _description(points))
    return Drawn("energy", title, caption, svg)


def _description(points: pd.DataFrame) -> str:
    low, high = points["j_per_token"].min(), points["j_per_token"].max()
    text = to_say(
        "Dot plot of {runs} of {cells} in a panel per method and scope, from {low} to {high} joules per token. All values stand"
        " in the tables of energy."
    )
    runs, cells = say("{n} run|{n} runs", n=len(points)), say("{n} cell|{n} cells", n=points["cell"].nunique())
    return say(text, runs=runs, cells=cells, low=wording.number(low), high=wording.number(high))
