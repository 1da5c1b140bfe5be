"""The top of a report: what was asked, on which machines, with which software, and what came out at a glance.

In: `Findings`. Out: the document's questions, facts and first sections.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from bench.record import OUTCOMES
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, Table, records, tabulate
from bench.report.findings import UNRECORDED, Findings, pairs
from bench.report.grid import grid
from bench.report.labels import party_names
from bench.report.language import current, either, say, to_say

ROWS_AT_A_GLANCE = 40
_AS_RECORDED = to_say(
    "Names of models, machines, methods, fields and flags, digests, the questions of the suites and the reasons that programs"
    " gave stand as they were recorded."
)
_GLANCE_TEXT = to_say(
    "Tokens per second, of serving those decoded: the geometric mean of the runs whose times no flag spoils, in brackets its 95%"
    " interval and the number of runs. Peak memory: the median of the runs whose memory no flag spoils, by each meter that the"
    " backend has. The resident memory of the process holds the interpreter and all libraries; a framework's own counter holds"
    " its arrays alone; the device's is its driver's figure. Compare like with like."
)
_MACHINE = (
    Column("machine", "machine"),
    Column("chip", "chip"),
    Column("main memory", "memory", "number"),
    Column("accelerator", "accelerator"),
    Column("system", "os_version"),
    Column("machine id", "machine_id", "code"),
    Column("runs", "runs", "number"),
    Column("last run", "last"),
)


def questions(findings: Findings) -> tuple[str, ...]:
    """The questions of the suites, each once, in the order of their first runs."""
    runs = findings.runs
    asked = runs.sort_values("started_at", kind="stable")["question"]
    return tuple(dict.fromkeys(str(question) for question in asked.dropna() if question))


def facts(findings: Findings) -> tuple[tuple[str, str], ...]:
    """What holds for the report as a whole, as (label, text)."""
    runs = findings.runs
    if runs.empty:
        return ()
    counts = runs["outcome"].value_counts()
    outcomes = ", ".join(wording.counted(each, counts[each]) for each in OUTCOMES if each in counts)
    flagged = int(((runs["outcome"] == "ok") & runs["flags"].map(bool).astype(bool)).sum())
    note = to_say("; of the ok ones {count} flagged, each left out of the figures that its flags spoil")
    outcomes += say(note, count=flagged) if flagged else ""
    nights = to_say(
        "{n} run of an earlier night is left out: each cell's last night counts"
        "|{n} runs of earlier nights are left out: each cell's last night counts"
    )
    earlier = ((say("Nights"), say(nights, n=findings.earlier_nights)),) if findings.earlier_nights else ()
    names = () if current() == "en" else ((say("Language"), say(_AS_RECORDED)),)
    return (
        (say("Evidence of the runs"), _tiers(runs)),
        (say("Runs"), say("{count}: {outcomes}", count=len(runs), outcomes=outcomes)),
        *earlier,
        (say("Cells"), _cells(runs)),
        (say("First run"), wording.moment(runs["started_at"].min())),
        (say("Last run"), wording.moment(runs["started_at"].max())),
        (say("Suites"), ", ".join(_distinct(runs, "suite"))),
        (say("Source revision"), ", ".join(_distinct(runs, "source_revision")) or say(UNRECORDED)),
        (say("Schema"), ", ".join(_distinct(runs, "schema_version"))),
        *names,
    )


def _cells(runs: pd.DataFrame) -> str:
    """How much of the grid was measured."""
    cells = grid(runs)
    measured, waiting = cells["n_usable"] > 0, int((cells["n_runs"] == 0).sum())
    spoilt = int((measured & (cells["n_clean"] == 0)).sum())
    texts = [say("{measured} of {cells} cells measured", measured=int(measured.sum()), cells=len(cells))]
    texts += [say("{count} of them without a rate, which flags spoil", count=spoilt)] if spoilt else []
    return ", ".join([*texts, *([say("{count} not run yet", count=waiting)] if waiting else [])])


def machines(findings: Findings) -> Section:
    """The machines, as their runs describe them."""
    rows = [
        {
            "machine": name,
            **{column: ", ".join(_distinct(runs, column)) for column in ("chip", "accelerator", "os_version", "machine_id")},
            "memory": ", ".join(wording.size(value) for value in sorted(set(runs["memory_bytes"].dropna()))),
            "runs": len(runs),
            "last": wording.moment(runs["started_at"].max()),
        }
        for name, runs in findings.runs.groupby("machine", sort=True)
    ]
    title = say("Machines")
    return Section("machines", title, tables=(tabulate(title, rows, _MACHINE),))


def software(findings: Findings) -> Section:
    """The versions of the packages that each backend used on each machine."""
    seen: dict[str, dict[str, set[str]]] = {}
    for party, versions in zip(party_names(findings.runs), findings.runs["versions"], strict=True):
        packages = seen.setdefault(party, {})
        for package, version in pairs(versions):
            packages.setdefault(package, set()).add(version)
    rows = [{"party": party, "versions": _versions(packages)} for party, packages in sorted(seen.items())]
    mixed = int((findings.summaries["environments"].map(len) > 1).sum())
    note = to_say(
        "{n} cell pools runs of more than one set of packages; see the packages digests under provenance."
        "|{n} cells pool runs of more than one set of packages; see the packages digests under provenance."
    )
    columns = (Column("backend and machine", "party"), Column("versions", "versions"))
    title = say("Software")
    return Section("software", title, tables=(tabulate(title, rows, columns, [say(note, n=mixed)] if mixed else []),))


def glance(findings: Findings) -> Section:
    """Rate and peaks of every workload and party, or why there are none: a table per method."""
    machines = sorted(set(findings.summaries["machine"]))
    tables = tuple(_glance(str(method), summaries) for method, summaries in findings.summaries.groupby("method", sort=True))
    where = " " + say("All on {machine}.", machine=machines[0]) if len(machines) == 1 else ""
    return Section("glance", say("At a glance"), (say(_GLANCE_TEXT) + where,), tables=tables, warnings=findings.warnings)


def _glance(method: str, summaries: pd.DataFrame) -> Table:
    works = list(dict.fromkeys(summaries["row"]))
    rows = records(summaries[summaries["row"].isin(works[:ROWS_AT_A_GLANCE])])
    columns = (
        Column("workload", "row"),
        Column("backend", "place"),
        Column("tokens/s, or what came instead", _in_short),
        Column("peak memory", _peaks),
    )
    left_out = len(works) - ROWS_AT_A_GLANCE
    more = to_say("{n} more workload stands in the summaries.|{n} more workloads stand in the summaries.")
    notes = [say(more, n=left_out)] if left_out > 0 else []
    return tabulate(method, rows, columns, notes)


def _in_short(row: Record) -> Cell:
    """The rate with its spread, or the outcomes."""
    if row["n_clean"]:
        ok = _rate(row) if row["tier"] == "measured" else f"{wording.outcome('ok')} ({wording.tier(row['tier'])})"
        return Cell(ok, "good")
    if row["n_ok"]:
        return Cell(say("rate spoilt ({flags})", flags=", ".join(row["flags"])), "quiet")
    outcomes = [each for each in OUTCOMES if row[f"n_{each}"]]
    tones = {wording.tone(each) for each in outcomes}
    return Cell(", ".join(map(wording.outcome, outcomes)), "bad" if "bad" in tones else "quiet")


def _rate(row: Record) -> str:
    if not row["tokens_per_s"] > 0:
        return wording.outcome("ok")
    interval = wording.between(row["tokens_per_s_low"], row["tokens_per_s_high"])
    runs = say("{n} run|{n} runs", n=row["n_clean"])
    spread = say("95%: {interval}; {runs}", interval=interval, runs=runs) if interval else runs
    return f"{wording.number(row['tokens_per_s'])} ({spread})"


def _peaks(row: Record) -> str:
    """Every meter that the cell has, each with its name: they do not count the same."""
    peaks = (
        (row["host_peak_bytes"], to_say("{size} process")),
        (row["device_peak_bytes"], to_say("{size} device")),
        (row["framework_peak_bytes"], to_say("{size} {backend}'s own counter")),
    )
    return ", ".join(say(text, size=size, backend=row["backend"]) for value, text in peaks if (size := wording.size(value)))


def _tiers(runs: pd.DataFrame) -> str:
    counts = runs["tier"].value_counts()
    names = {tier: wording.tier(str(tier)) for tier in sorted(counts.index)}
    many = {tier: say("{n} run|{n} runs", n=counts[tier]) for tier in names}
    return ", ".join(f"{name} ({many[tier]})" if len(counts) > 1 else name for tier, name in names.items())


def _distinct(runs: pd.DataFrame, column: str) -> list[str]:
    values = runs[column].dropna()
    return sorted({f"{value:g}" if isinstance(value, float) else str(value) for value in values} - {""})


def _versions(packages: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{package} {either(sorted(versions))}" for package, versions in sorted(packages.items()))
