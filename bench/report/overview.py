"""The top of a report: what was asked, on which machines, with which software, and what came out at a glance.

In: `Findings`. Out: the document's questions, facts and first sections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bench.record import OUTCOMES
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, Table, records, tabulate
from bench.report.findings import Findings
from bench.report.looks import party_names

ROWS_AT_A_GLANCE = 40
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
    outcomes = ", ".join(f"{counts[each]} {wording.outcome(each)}" for each in OUTCOMES if each in counts)
    flagged = int(((runs["outcome"] == "ok") & ~runs["clean"]).sum())
    outcomes += f"; of the ok ones {flagged} flagged, and left out of medians and ratios" if flagged else ""
    return (
        ("Evidence", _tiers(runs)),
        ("Runs", f"{len(runs)}: {outcomes}"),
        ("First run", wording.moment(runs["started_at"].min())),
        ("Last run", wording.moment(runs["started_at"].max())),
        ("Suites", ", ".join(_distinct(runs, "suite"))),
        ("Source revision", ", ".join(_distinct(runs, "source_revision")) or "not recorded"),
        ("Schema", ", ".join(_distinct(runs, "schema_version"))),
    )


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
    return Section("machines", "Machines", tables=(tabulate("Machines", rows, _MACHINE),))


def software(findings: Findings) -> Section:
    """The versions of the packages that each backend used on each machine."""
    seen: dict[str, dict[str, set[str]]] = {}
    for party, versions in zip(party_names(findings.runs), findings.runs["versions"], strict=True):
        packages = seen.setdefault(party, {})
        for package, version in _pairs(versions):
            packages.setdefault(package, set()).add(version)
    rows = [{"party": party, "versions": _versions(packages)} for party, packages in sorted(seen.items())]
    mixed = int((findings.summaries["environments"].map(len) > 1).sum())
    notes = (
        [f"{mixed} cells pool runs of more than one set of packages; see the packages digests under provenance."] if mixed else []
    )
    columns = (Column("backend and machine", "party"), Column("versions", "versions"))
    return Section("software", "Software", tables=(tabulate("Software", rows, columns, notes),))


def glance(findings: Findings) -> Section:
    """Rate and peak of every workload and party, or why there are none: a table per method."""
    tables = tuple(_glance(str(method), summaries) for method, summaries in findings.summaries.groupby("method", sort=True))
    text = (
        "Median training rate and peak memory of the clean runs, or what came instead. Peaks are the framework's own counter, or"
        " the resident memory of the process where it says so."
    )
    return Section("glance", "At a glance", (text,), tables=tables)


def _glance(method: str, summaries: pd.DataFrame) -> Table:
    works = list(dict.fromkeys(summaries["row"]))
    found: dict[str, dict[str, list[Record]]] = {}
    for record in records(summaries):
        found.setdefault(record["row"], {}).setdefault(record["party"], []).append(record)
    rows = [{"row": work, **{party: _entry(group) for party, group in found[work].items()}} for work in works[:ROWS_AT_A_GLANCE]]
    columns = [Column(party, party) for party in sorted(set(summaries["party"]))]
    left_out = len(works) - len(rows)
    notes = [f"{left_out} more workloads stand in the summaries."] if left_out else []
    return tabulate(method, rows, [Column("workload", "row"), *columns], notes)


def _entry(group: Sequence[Record]) -> Cell:
    """One workload on one party; several implementations stand one after the other."""
    text = " | ".join(dict.fromkeys(_in_short(row) for row in group))
    if any(row["n_clean"] for row in group):
        return Cell(text, "good")
    tones = {wording.tone(each) for each in OUTCOMES for row in group if row[f"n_{each}"]}
    return Cell(text, "bad" if "bad" in tones else "quiet")


def _in_short(row: Record) -> str:
    if not row["n_clean"]:
        if row["n_ok"]:
            return "flagged runs only"
        return ", ".join(wording.outcome(each) for each in OUTCOMES if row[f"n_{each}"])
    peak = wording.size(row["framework_peak_bytes"])
    host = wording.size(row["host_peak_bytes"])
    memory = peak or (f"{host} (process)" if host else "")
    rate = f"{wording.number(row['tokens_per_s'])} tok/s" if row["tokens_per_s"] > 0 else ""
    tier = "" if row["tier"] == "measured" else f" ({row['tier']})"
    return (", ".join(text for text in (rate, memory) if text) or "ok") + tier


def _tiers(runs: pd.DataFrame) -> str:
    counts = runs["tier"].value_counts()
    return ", ".join(f"{tier} ({counts[tier]} runs)" if len(counts) > 1 else str(tier) for tier in sorted(counts.index))


def _distinct(runs: pd.DataFrame, column: str) -> list[str]:
    values = runs[column].dropna()
    return sorted({f"{value:g}" if isinstance(value, float) else str(value) for value in values} - {""})


def _versions(packages: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{package} {' or '.join(sorted(versions))}" for package, versions in sorted(packages.items()))


def _pairs(versions: Any) -> list[tuple[str, str]]:
    entries = versions.items() if isinstance(versions, Mapping) else versions if isinstance(versions, tuple) else ()
    return [(str(package), str(version)) for package, version in entries]
