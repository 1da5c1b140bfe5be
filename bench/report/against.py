"""Any two machines against each other: equal work, each by its best stack, and who wins it.

In: `Findings` of runs of these machines. Out: a section. Where only one of them ran a work, and memory ended the other's runs of
it, the one that ran has won; where neither can be told from the other, nobody has.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.analysis import sides
from bench.refine.ratio import Ratio, of_machines
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, filled, tabulate
from bench.report.findings import Findings
from bench.report.language import say, to_say
from bench.report.silicon import ratio_cell

_TEXT = to_say(
    "Equal work by digest, each machine by its fastest stack that did it; a winner is told only where the 95% interval leaves out"
    " 1, or where memory ended every run of the other one."
)
_NOTHING = to_say("No work was done, or tried, by both machines.")
_COLUMNS = (
    Column("workload", "work"),
    Column("winner", "winner"),
    Column("ratio", "ratio", "number"),
    Column("first", "above"),
    Column("second", "below"),
    Column("run ids", "run_ids", "code"),
)
_MEMORY = ("n_oom_device", "n_oom_host", "n_over_limit")


def against(findings: Findings, first: str, second: str) -> Section:
    """The two machines, the first over the second."""
    rows = sorted([*_rates(findings, first, second), *_alone(findings, first, second)], key=lambda row: str(row["work"]))
    title = say("{first} against {second}", first=wording.plain(first), second=wording.plain(second))
    if not rows:
        return Section("against", title, (say(_NOTHING),))
    return Section("against", title, (say(_TEXT),), tables=(tabulate(title, rows, filled(_COLUMNS, rows)),))


def _rates(findings: Findings, first: str, second: str) -> Iterator[Record]:
    for each in of_machines(sides(findings.runs, "tokens_per_s"), first, second):
        yield {
            "work": each.work,
            "winner": _winner(each, first, second),
            "ratio": ratio_cell(each),
            "above": each.above,
            "below": each.below,
            "run_ids": ", ".join(each.evidence),
        }


def _winner(each: Ratio, first: str, second: str) -> Cell:
    if each.low is not None and each.low > 1:
        return Cell(first, "good")
    if each.high is not None and each.high < 1:
        return Cell(second, "good")
    return Cell(say("not told apart") if each.value is not None else say("not comparable"), "quiet")


def _alone(findings: Findings, first: str, second: str) -> Iterator[Record]:
    """Work that one of them ran, and that memory ended on the other by every stack that tried."""
    summaries = findings.summaries[findings.summaries["tier"] == "measured"]
    for (_, work, method), group in summaries.groupby(["workload_digest", "row", "method"], sort=True):
        ran = {name: bool((group.loc[group["machine"] == name, "n_ok"] > 0).any()) for name in (first, second)}
        lost = {name: bool(group.loc[group["machine"] == name, list(_MEMORY)].sum().sum()) for name in (first, second)}
        for one, other in ((first, second), (second, first)):
            if ran[one] and lost[other] and not ran[other]:
                winner = say("{machine} only", machine=one)
                yield {"work": f"{work} {method}", "winner": Cell(winner, "good"), "above": first, "below": second}
