"""The end of a report: the holes, every run, where it all comes from, and what could not be read.

In: `Findings`. Out: sections.
"""

from __future__ import annotations

import pandas as pd

from bench.metrics import CLEAN
from bench.report import doubts, wording
from bench.report.document import Cell, Column, Record, Section, Table, filled, records, tabulate
from bench.report.findings import Findings
from bench.report.grid import grid
from bench.report.language import say, strung, to_say


def _losses(run: Record) -> str:
    losses = [wording.number(run[name]) for name in ("loss_first", "loss_last")]
    return " → ".join(losses) if any(losses) else ""


def _device_peak(run: Record) -> str:
    """The driver's figure, with what it covers."""
    scope = run["device_peak_scope"] or ""
    told = say(_DEVICE_SCOPES[scope]) if scope in _DEVICE_SCOPES else scope
    return f"{size} ({told})" if (size := wording.size(run["device_peak_bytes"])) else ""


NOT_RUN = to_say("not run yet")
_DEVICE_SCOPES = {
    "process": to_say("the process"),
    "device-less-before": to_say("the whole device, less before"),
    "": to_say("scope not recorded"),
}
RUNS_SHOWN = 2_000
"""A page of more is slow to open; every run stays in the stored files."""
_LATEST = to_say("The latest {shown} of {n} runs. All of them are in the stored files, and in every other table and figure.")
_LOSS_TEXT = to_say(
    "A loss that stays where it was is no fault: random tokens and few steps show no learning. It is there to check the"
    " arithmetic: equal work starts near the same loss on every backend."
)
_PROCESSOR_TEXT = to_say(
    "Processor time is told in cores at work, of the worker and of everything else on the machine, over the measured steps. A"
    " flag's cause and remedy stand under flags, the reason for an empty entry under what was not measured."
)
_CLEAN = [f"n_{column}" for column in CLEAN.values()]
_CELL = (Column("workload", "row"), Column("method", "method"), Column("backend and machine", "party"))
_HOLE = (*_CELL, Column("suite", "suite"), Column("outcomes", "outcomes"), Column("reasons", "reasons"))
_SPOILT = (*_CELL, Column("spoilt", "spoilt"), Column("by", "by"), Column("outcomes", "outcomes"))
_SPOILT_NOTE = to_say(
    "Cells that ended ok and whose figures of some kind are missing above, since flags spoil them in every run. Their other"
    " figures count."
)
_OUTLYING = Column("outlying steps", lambda run: wording.whole(run["outlier_steps"]), "number")
_APART = Column("rate among its repeats", lambda run: say("stands apart") if run["stands_apart"] else "")
_DEVICE = Column("peak, device", _device_peak, "number")
_PREFILL = Column("prefill tokens/s", lambda run: wording.number(run["prefill_tokens_per_s"]), "number")
_FIRST_TOKEN = Column("to the first token", lambda run: wording.seconds(run["time_to_first_token_s"]), "number")
_PROCESSOR = Column("processor", lambda run: wording.cores(run["host_cpu_share"]), "number")
_OTHERS = Column("processor, others", lambda run: wording.cores(run["others_cpu_share"]), "number")
_SWAP = Column("swap growth", lambda run: wording.size(run["swap_growth_bytes"]), "number")
_RUN = (
    Column("started", lambda run: wording.moment(run["started_at"])),
    Column("cell", "cell"),
    Column("outcome", lambda run: Cell(wording.outcome(run["outcome"]), wording.tone(run["outcome"]))),
    Column("tokens/s", lambda run: wording.number(run["tokens_per_s"]), "number"),
    _PREFILL,
    _FIRST_TOKEN,
    Column("median step", lambda run: wording.seconds(run["step_s_median"]), "number"),
    Column("slowest ÷ median", lambda run: wording.number(run["slowest_step"]), "number"),
    _OUTLYING,
    _APART,
    Column("peak, framework", lambda run: wording.size(run["framework_peak_bytes"]), "number"),
    Column("peak, process", lambda run: wording.size(run["host_peak_bytes"]), "number"),
    _DEVICE,
    _SWAP,
    _PROCESSOR,
    _OTHERS,
    Column("to build", lambda run: wording.seconds(run["load_s"]), "number"),
    Column("loss, first → last", _losses, "number"),
    Column("reason", lambda run: run["reason"] or ""),
    Column("flags", lambda run: ", ".join(run["flags"])),
    Column("machine", "machine"),
    Column("implementation", "implementation_name"),
    Column("evidence", lambda row: wording.tier(row["tier"])),
    Column("run id", "run_id", "code"),
)
_WHERE_ANY = (_PREFILL, _FIRST_TOKEN, _OUTLYING, _APART, _DEVICE, _SWAP, _PROCESSOR, _OTHERS)
"""Columns that stand there only where some run has an entry."""
_ORIGIN = (
    *_CELL[:2],
    Column("backend", "place"),
    Column("implementation", "implementation_name"),
    Column("workload digest", "workload_digest", "code"),
    Column("tokens digest", lambda row: ", ".join(row["tokens_digests"]), "code"),
    Column("trainable parameters", lambda row: ", ".join(map(wording.whole, row["trainable_parameters"])), "number"),
    Column("packages digest", lambda row: ", ".join(row["environments"]), "code"),
    Column("run ids", lambda row: ", ".join(row["run_ids"]), "code"),
)
_DAMAGED = (Column("file", "path", "code"), Column("what is wrong", "reason"))

_COPIES = (Column("machine", "machine"), Column("run id", "run_id", "code"))


def holes(findings: Findings) -> Section:
    """The cells without a figure that counts, with every reason given, those of the grid that were never run, those spoilt."""
    told = {row["run_id"]: row for row in records(findings.runs[["run_id", "suite", "reason"]])}
    empty = records(findings.summaries[(findings.summaries[_CLEAN] == 0).all(axis=1)])
    for row in empty:
        runs = [told[run_id] for run_id in row["run_ids"]]
        given = sorted({run["reason"] for run in runs} - {""})
        text = to_say("every ok run is flagged: {flags}")
        flagged = [say(text, flags=doubts.explained(row["flags"]))] if row["n_flagged"] else []
        row["reasons"] = strung([*given, *flagged])
        row["outcomes"] = wording.outcomes(row)
        row["suite"] = ", ".join(sorted({str(run["suite"]) for run in runs if not pd.isna(run["suite"])}))
    cells = grid(findings.runs)
    empty += [{**cell, "outcomes": say(NOT_RUN)} for cell in records(cells[cells["n_runs"] == 0])]
    text = to_say(
        "Cells without a run whose figures count. A hole is a result: nothing is guessed in its place. Not run yet are the pairs"
        " of a workload and a backend that the rows of a suite span on a machine and that left no row, as after a budget or an"
        " interruption; a workload that no backend has tried is unknown here."
    )
    title = say("Holes")
    tables = (*((tabulate(title, empty, _HOLE),) if empty else ()), *_spoilt(findings))
    return Section("holes", title, (say(text),) if tables else (say("None."),), tables=tables)


def _spoilt(findings: Findings) -> tuple[Table, ...]:
    """The cells of which only some figures count."""
    rows = [
        {**row, "by": doubts.explained(row["spoiling"]), "outcomes": wording.outcomes(row)} for row in doubts.spoilt(findings)
    ]
    return (tabulate(say("Spoilt by flags"), rows, _SPOILT, [say(_SPOILT_NOTE)]),) if rows else ()


def every_run(findings: Findings) -> Section:
    """Every run with its outcome and reason; of more than a page can hold, the latest."""
    alone = findings.runs["machine"].nunique() == 1
    latest = findings.runs["started_at"].rank(method="first", ascending=False, na_option="bottom") <= RUNS_SHOWN
    rows = records(findings.runs[latest])
    told = filled(_WHERE_ANY, rows)
    columns = [column for column in _RUN if column in told or column not in _WHERE_ANY]
    columns = [column for column in columns if not (alone and column.value == "machine")]
    title, texts = say("Every run"), (say(_LOSS_TEXT), say(_PROCESSOR_TEXT))
    left = len(findings.runs) - len(rows)
    notes = [say(_LATEST, shown=len(rows), n=len(findings.runs))] if left else []
    return Section("runs", title, texts, tables=(tabulate(title, rows, columns, notes),))


def provenance(findings: Findings) -> Section:
    """The run ids and digests behind every summary."""
    text = say("Each line is one summary above. Digests and trainable parameters are those of its clean runs.")
    title = say("Provenance")
    return Section("provenance", title, (text,), tables=(tabulate(title, records(findings.summaries), _ORIGIN),))


def damaged(findings: Findings) -> Section:
    """Result files that could not be read."""
    title, text = say("Damaged files"), say("These result files could not be read, and nothing of them is in this report.")
    files = [{"path": path, "reason": reason} for path, reason in findings.damaged]
    return Section("damaged", title, (text,), tables=(tabulate(title, files, _DAMAGED),))


def copies(findings: Findings) -> Section:
    """Rows left out because their run is counted already."""
    text = to_say(
        "{n} stored run bears the id of a run that is counted already, as a copied folder does. A run measured once counts once:"
        " these are in no count, mean or ratio of this report."
        "|{n} stored runs bear the id of a run that is counted already, as a copied folder does. A run measured once counts once:"
        " these are in no count, mean or ratio of this report."
    )
    title, told = say("Copies left out"), say(text, n=len(findings.copies))
    rows = [{"machine": machine, "run_id": run_id} for machine, run_id in findings.copies]
    return Section("copies", title, (told,), tables=(tabulate(title, rows, _COPIES),))
