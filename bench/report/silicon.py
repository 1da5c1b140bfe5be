"""How much of the two machines' difference is the silicon's, and how much the software's.

In: ratios taken apart by the control arms (`bench.refine.ratio`). Out: a section; without control arms it says which runs it
lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.refine.ratio import Ratio, Split
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, filled, tabulate
from bench.report.language import say, to_say
from bench.report.reasons import resaid

_TEXT = to_say(
    "Where one stack ran the same work on both machines (a control arm: MLX on CUDA, Unsloth on Metal, Hugging Face on MPS), the"
    " ratio of the two machines by their best stacks is taken apart: both machines on that one stack, which is the silicon, times"
    " what each machine’s best stack gains over it, which is the software."
)
_NONE = to_say(
    "No control arm has run on both machines yet; “wingspan run controls” on each of them makes these rows. Until then the ratio"
    " of the machines holds silicon and software together."
)
_COLUMNS = (
    Column("workload", "work"),
    Column("stack on both", "stack"),
    Column("best against best", "total", "number"),
    Column("silicon", "silicon", "number"),
    Column("software", "software", "number"),
    Column("first’s best over it", "first", "number"),
    Column("it over the second’s best", "second", "number"),
    Column("first", "above"),
    Column("second", "below"),
    Column("run ids", "run_ids", "code"),
)


def silicon(splits: Sequence[Split]) -> Section:
    """The section."""
    title = say("Silicon and software")
    if not splits:
        return Section("silicon", title, (say(_TEXT), say(_NONE)))
    rows = [_split(each) for each in splits]
    return Section("silicon", title, (say(_TEXT),), tables=(tabulate(title, rows, filled(_COLUMNS, rows)),))


def _split(each: Split) -> Record:
    return {
        "work": each.total.work,
        "stack": each.stack,
        "total": ratio_cell(each.total),
        "silicon": ratio_cell(each.silicon),
        "software": "" if each.software is None else f"{wording.number(each.software)}×",
        "first": ratio_cell(each.software_first),
        "second": ratio_cell(each.software_second),
        "above": each.total.above,
        "below": each.total.below,
        "run_ids": ", ".join(dict.fromkeys([*each.total.evidence, *each.silicon.evidence])),
    }


def ratio_cell(ratio: Ratio | None) -> Cell:
    """The ratio with its interval, or why there is none; 1 where a machine's best stack is the common one itself."""
    if ratio is None:
        return Cell("1×", "quiet")
    if ratio.value is None:
        return Cell(resaid(ratio.refused or ""), "quiet")
    value = f"{wording.number(ratio.value)}×"
    interval = wording.between(ratio.low, ratio.high)
    return Cell(say("{value} ({interval})", value=value, interval=interval) if interval else value)
