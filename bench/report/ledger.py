"""The end of a report: the holes, every run, where it all comes from, and what could not be read.

In: `Findings`. Out: sections.
"""

from __future__ import annotations

from bench.metrics import CLEAN
from bench.report import doubts, wording
from bench.report.document import Cell, Column, Record, Section, Table, filled, records, tabulate
from bench.report.findings import Findings
from bench.report.grid import grid


def _losses(run: Record) -> str:
    losses = [wording.number(run[name]) for name in ("loss_first", "loss_last")]
    return " → ".join(losses) if any(losses) else ""


def _device_peak(run: Record) -> str:
    """The driver's figure, with what it covers."""
    scope = _DEVICE_SCOPES.get(run["device_peak_scope"], run["device_peak_scope"] or "scope not recorded")
    return f"{size} ({scope})" if (size := wording.size(run["device_peak_bytes"])) else ""


NOT_RUN = "not run yet"
_DEVICE_SCOPES = {"process": "the process", "device-less-before": "the whole device, less before"}
_LOSS_TEXT = (
    "A loss that stays where it was is no fault: random tokens and few steps show no learning. It is there to check the"
    " arithmetic: equal work starts near the same loss on every backend."
)
_PROCESSOR_TEXT = (
    "Processor time is told in cores at work, of the worker and of everything else on the machine, over the measured steps. A"
    " flag's cause and remedy stand under flags, the reason for an empty entry under what was not measured."
)
_CLEAN = [f"n_{column}" for column in CLEAN.values()]
_CELL = (Column("workload", "row"), Column("method", "method"), Column("backend and machine", "party"))
_HOLE = (*_CELL, Column("suite", "suite"), Column("outcomes", "outcomes"), Column("reasons", "reasons"))
_SPOILT = (*_CELL, Column("spoilt", "spoilt"), Column("by", "by"), Column("outcomes", "outcomes"))
_SPOILT_NOTE = (
    "Cells that ended ok and whose figures of some kind are missing above, since flags spoil them in every run. Their other"
    " figures count."
)
_OUTLYING = Column("outlying steps", lambda run: wording.whole(run["outlier_steps"]), "number")
_APART = Column("rate among its repeats", lambda run: "stands apart" if run["stands_apart"] else "")
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
    Column("evidence", "tier"),
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
    Column("trainable parameters", lambda row: ", ".join(f"{count:,.0f}" for count in row["trainable_parameters"]), "number"),
    Column("packages digest", lambda row: ", ".join(row["environments"]), "code"),
    Column("run ids", lambda row: ", ".join(row["run_ids"]), "code"),
)
_DAMAGED = (Column("file", "path", "code"), Column("what is wrong", "reason"))

_COPIES = (Column("machine", "machine"), Column("run id", "run_id", "code"))


def holes(findings: Findings) -> Section:
    """The cells without a figure that counts, with every reason given, those of the grid that were never run, those spoilt."""
    reasons = dict(zip(findings.runs["run_id"], findings.runs["reason"], strict=True))
    suites = findings.runs.groupby("run_id")["suite"].first()
    empty = records(findings.summaries[(findings.summaries[_CLEAN] == 0).all(axis=1)])
    for row in empty:
        given = sorted({reasons[run_id] for run_id in row["run_ids"] if reasons[run_id]})
        flagged = [f"every ok run is flagged: {doubts.explained(row['flags'])}"] if row["n_flagged"] else []
        row["reasons"] = "; ".join([*given, *flagged])
        row["outcomes"] = wording.outcomes(row)
        row["suite"] = ", ".join(sorted({str(name) for name in suites.reindex(row["run_ids"]).dropna()}))
    cells = grid(findings.runs)
    empty += [{**cell, "outcomes": NOT_RUN} for cell in records(cells[cells["n_runs"] == 0])]
    text = (
        "Cells without a run whose figures count. A hole is a result: nothing is guessed in its place. Not run yet are the pairs"
        " of a workload and a backend that the rows of a suite span on a machine and that left no row, as after a budget or an"
        " interruption; a workload that no backend has tried is unknown here."
    )
    tables = (*((tabulate("Holes", empty, _HOLE),) if empty else ()), *_spoilt(findings))
    return Section("holes", "Holes", (text,) if tables else ("None.",), tables=tables)


def _spoilt(findings: Findings) -> tuple[Table, ...]:
    """The cells of which only some figures count."""
    rows = [
        {**row, "by": doubts.explained(row["spoiling"]), "outcomes": wording.outcomes(row)} for row in doubts.spoilt(findings)
    ]
    return (tabulate("Spoilt by flags", rows, _SPOILT, [_SPOILT_NOTE]),) if rows else ()


def every_run(findings: Findings) -> Section:
    """Every run with its outcome and reason."""
    alone = findings.runs["machine"].nunique() == 1
    rows = records(findings.runs)
    told = filled(_WHERE_ANY, rows)
    columns = [column for column in _RUN if column in told or column not in _WHERE_ANY]
    columns = [column for column in columns if not (alone and column.value == "machine")]
    return Section("runs", "Every run", (_LOSS_TEXT, _PROCESSOR_TEXT), tables=(tabulate("Every run", rows, columns),))


def provenance(findings: Findings) -> Section:
    """The run ids and digests behind every summary."""
    text = "Each line is one summary above. Digests and trainable parameters are those of its clean runs."
    table = tabulate("Provenance", records(findings.summaries), _ORIGIN)
    return Section("provenance", "Provenance", (text,), tables=(table,))


def damaged(findings: Findings) -> Section:
    """Result files that could not be read."""
    text = "These result files could not be read, and nothing of them is in this report."
    files = [{"path": path, "reason": reason} for path, reason in findings.damaged]
    return Section("damaged", "Damaged files", (text,), tables=(tabulate("Damaged files", files, _DAMAGED),))


def copies(findings: Findings) -> Section:
    """Rows left out because their run is counted already."""
    many = len(findings.copies)
    text = (
        f"{many} stored {'run bears' if many == 1 else 'runs bear'} the id of a run that is counted already, as a copied folder"
        " does. A run measured once counts once: these are in no count, mean or ratio of this report."
    )
    rows = [{"machine": machine, "run_id": run_id} for machine, run_id in findings.copies]
    return Section("copies", "Copies left out", (text,), tables=(tabulate("Copies left out", rows, _COPIES),))
