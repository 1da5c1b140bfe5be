"""The end of a report: the holes, every run, where it all comes from, and what could not be read.

In: `Findings`. Out: sections.
"""

from __future__ import annotations

from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, records, tabulate
from bench.report.findings import Findings


def _losses(run: Record) -> str:
    losses = [wording.number(run[name]) for name in ("loss_first", "loss_last")]
    return " → ".join(losses) if any(losses) else ""


_CELL = (Column("workload", "row"), Column("method", "method"), Column("backend and machine", "party"))
_HOLE = (*_CELL, Column("outcomes", wording.outcomes), Column("reasons", "reasons"))
_RUN = (
    Column("started", lambda run: wording.moment(run["started_at"])),
    Column("machine", "machine"),
    Column("cell", "cell"),
    Column("outcome", lambda run: Cell(wording.outcome(run["outcome"]), wording.tone(run["outcome"]))),
    Column("reason", lambda run: run["reason"] or ""),
    Column("flags", lambda run: ", ".join(run["flags"])),
    Column("tokens/s", lambda run: wording.number(run["tokens_per_s"]), "number"),
    Column("median step", lambda run: wording.seconds(run["step_s_median"]), "number"),
    Column("slowest ÷ median", lambda run: wording.number(run["slowest_step"]), "number"),
    Column("peak, framework", lambda run: wording.size(run["framework_peak_bytes"]), "number"),
    Column("peak, process", lambda run: wording.size(run["host_peak_bytes"]), "number"),
    Column("to build", lambda run: wording.seconds(run["load_s"]), "number"),
    Column("loss, first → last", _losses, "number"),
    Column("implementation", "implementation_name"),
    Column("evidence", "tier"),
    Column("run id", "run_id", "code"),
)
_ORIGIN = (
    *_CELL,
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
    """The cells that never ended ok, or only flagged, with every reason given."""
    reasons = dict(zip(findings.runs["run_id"], findings.runs["reason"], strict=True))
    empty = records(findings.summaries[findings.summaries["n_clean"] == 0])
    for row in empty:
        given = sorted({reasons[run_id] for run_id in row["run_ids"] if reasons[run_id]})
        row["reasons"] = "; ".join([*given, *(["every ok run is flagged"] if row["n_flagged"] else [])])
    text = "Cells without a clean run. A hole is a result: nothing is guessed in its place."
    return Section("holes", "Holes", (text,) if empty else ("None.",), tables=(tabulate("Holes", empty, _HOLE),) if empty else ())


def every_run(findings: Findings) -> Section:
    """Every run with its outcome and reason."""
    return Section("runs", "Every run", tables=(tabulate("Every run", records(findings.runs), _RUN),))


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
        " does. A run measured once counts once: these are in no count, median or ratio of this report."
    )
    rows = [{"machine": machine, "run_id": run_id} for machine, run_id in findings.copies]
    return Section("copies", "Copies left out", (text,), tables=(tabulate("Copies left out", rows, _COPIES),))
