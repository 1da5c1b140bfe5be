"""The middle of a report: memory, rates and ratios, drawn and in tables.

In: `Findings`. Out: sections.
"""

from __future__ import annotations

import math

from bench.report import doubts, wording
from bench.report.document import Cell, Column, Record, Section, Sketch, Table, filled, records, tabulate
from bench.report.findings import Findings
from bench.report.language import say, to_say
from bench.report.reasons import resaid


def _rate(row: Record) -> str:
    """The mean rate; a stand-in's is none, since it says nothing of speed."""
    return wording.number(row["tokens_per_s"]) if row["tier"] == "measured" else ""


def _reading(row: Record) -> Cell | str:
    """What the interval allows to say."""
    if math.isnan(row["low"]):
        return Cell(say("a single run on a side: no interval"), "quiet")
    if row["low"] > 1:
        return say("first is faster")
    return say("second is faster") if row["high"] < 1 else Cell(say("not told apart"), "quiet")


_NAMED = ["work", "method", "workload_digest", "parameters", "backend", "device", "machine"]
_RATES = [*_NAMED, "outcome", "tier", "tokens_per_s", "clean", "cell"]
_RATIOS = ["work", "method", "workload_digest", "parameters", "ratio", "low", "high", "implementations"]
_PEAKS = [
    *(*_NAMED, "tier", "framework_peak_bytes", "host_peak_bytes", "capacity_bytes", "memory_bytes"),
    *("n_oom_device", "n_oom_host", "n_over_limit", "n_clean_memory"),
]
"""What the figures are made of, and no more, as it may go to a process of its own."""

NOTHING = to_say("Nothing to draw yet: no run has measured this.")

_WORKLOAD = (Column("workload", "row"), Column("method", "method"))
_DEVICE = Column("peak, device", lambda row: wording.size(row["device_peak_bytes"]), "number")
_SUMMARY = (
    *_WORKLOAD,
    Column("backend", "place"),
    Column("clean runs", "n_clean", "number"),
    Column("steps, warm-up + measured", wording.steps, "number"),
    Column("tokens/s", _rate, "number"),
    Column("95% interval", lambda row: wording.between(row["tokens_per_s_low"], row["tokens_per_s_high"]), "number"),
    Column("step", lambda row: wording.seconds(row["step_s_median"]), "number"),
    Column("peak, framework", lambda row: wording.size(row["framework_peak_bytes"]), "number"),
    Column("peak, process", lambda row: wording.size(row["host_peak_bytes"]), "number"),
    _DEVICE,
    Column("to build", lambda row: wording.seconds(row["load_s"]), "number"),
    Column("implementation", "implementation_name"),
    Column("outcomes", wording.outcomes),
    Column("evidence", lambda row: wording.tier(row["tier"])),
)
_SUMMARY_NOTE = to_say(
    "Rates and times are geometric means of clean runs (ended ok, and no flag spoils their times), peaks the medians of the runs"
    " whose memory no flag spoils; each run is a fresh process. The interval is that of the geometric mean of rates across these"
    " runs: Student's t on logs, from ten runs a bootstrap; it needs two. Warm-up ends by rule, so its length may differ between"
    " runs. Of serving, a step is one batch of requests, and tokens/s are those decoded. An empty entry was not measured."
)
_RATIO = (
    *_WORKLOAD,
    Column("ratio", lambda row: f"{wording.number(row['ratio'])}×", "number"),
    Column("95% interval", lambda row: wording.between(row["low"], row["high"]), "number"),
    Column("clean runs", lambda row: f"{row['n_above']} ÷ {row['n_below']}"),
    Column("reading", _reading),
    Column("implementations", "implementations"),
    Column("evidence", lambda row: wording.tier(row["above_tier"])),
    Column("workload digest", "workload_digest", "code"),
)
_RATIO_TEXT = to_say(
    "Two parties are compared only where the workload's digest, the tokens that the frameworks received and the numbers of"
    " measured steps are equal and the trainable parameters agree within 0.1%. A ratio is one of geometric means of tokens per"
    " second (of serving, those decoded) over runs whose times no flag spoils, the party named first divided by the second; the"
    " interval is Welch's t on logs, from ten runs a bootstrap, 95% for each ratio by itself."
)
_REFUSED = (
    Column("first", "above"),
    Column("second", "below"),
    Column("refused, as", lambda row: resaid(row["refused"])),
    Column("workloads", "workloads"),
)
_IMPLEMENTATION = (Column("name", "name"), Column("backend", "backend"), Column("as recorded", "text"))
_IMPLEMENTATION_NOTE = to_say(
    "How a backend did the work, as it recorded it once the model stood. It is no part of the workload: equal work may be done in"
    " different ways."
)
_CAPACITY = (
    Column("machine", "name"),
    Column("whole memory", lambda row: wording.size(row["memory_bytes"]), "number"),
    Column("for one training process", lambda row: wording.size(row["capacity_bytes"]), "number"),
    Column("source", lambda row: wording.of_source(row["source"])),
)
_MAIN_MEMORY = to_say("main memory, as its runs recorded it")
_CAPACITY_NOTE = to_say(
    "The lines of the figure are whole memories. What one process can have of it is less, and differs with the system's settings."
)


def memory(findings: Findings) -> Section:
    """Peak memory against the machines' capacities."""
    sketch = Sketch("memory", (findings.summaries[_PEAKS], findings.capacities, findings.main_memories))
    names = ("name", "memory_bytes", "capacity_bytes", "source")
    profiles = [{name: getattr(profile, name) for name in names} for profile in findings.drawn_profiles]
    profiles += [
        {"name": name, "memory_bytes": size, "capacity_bytes": None, "source": say(_MAIN_MEMORY)}
        for name, size in findings.main_memories.items()
    ]
    tables = (tabulate(say("Capacities"), profiles, _CAPACITY, [say(_CAPACITY_NOTE)]),) if profiles else ()
    return Section("memory", say("Peak memory"), figure=sketch, instead=(say(NOTHING),), tables=tables)


def speed(findings: Findings) -> Section:
    """Rates, the table of summaries, and the implementations that it names."""
    mixed = int((findings.summaries["step_counts"].map(len) > 1).sum())
    pools = to_say(
        "{n} summary pools runs of different numbers of measured steps; no ratio is made of it."
        "|{n} summaries pool runs of different numbers of measured steps; no ratio is made of them."
    )
    notes = [say(_SUMMARY_NOTE), *([say(pools, n=mixed)] if mixed else []), *doubts.outliers(findings)]
    rows = records(findings.summaries)
    columns = [column for column in _SUMMARY if column is not _DEVICE or filled([_DEVICE], rows)]
    tables = (
        tabulate(say("Summaries"), rows, columns, notes),
        tabulate(say("Implementations"), _named(findings), _IMPLEMENTATION, [say(_IMPLEMENTATION_NOTE)]),
    )
    sketch = Sketch("speed", (findings.runs[_RATES],))
    return Section("speed", say("Rate"), figure=sketch, instead=(say(NOTHING),), tables=tables, warnings=findings.warnings)


def _named(findings: Findings) -> list[Record]:
    """The implementations of each backend: first what all of them share, where there are several, then what is theirs alone."""
    rows: list[Record] = []
    for backend in dict.fromkeys(key[0] for key in findings.implementations):
        parts = {name: key[1].split("; ") for key, name in findings.implementations.items() if key[0] == backend}
        lists = list(parts.values())
        common = [part for part in lists[0] if all(part in other for other in lists)] if len(lists) > 1 else []
        if common:
            rows.append({"name": say("every {backend}", backend=backend), "backend": backend, "text": "; ".join(common)})
        rows += [
            {"name": name, "backend": backend, "text": "; ".join(part for part in own if part not in common)}
            for name, own in parts.items()
        ]
    return rows


def ratios(findings: Findings) -> Section:
    """Ratios of equal work, and the comparisons that were refused."""
    allowed = findings.comparisons[findings.comparisons["refused"] == ""]
    pairs = [
        (f"R{number}   {above} ÷ {below}", group)
        for number, ((above, below), group) in enumerate(allowed.groupby(["above", "below"], sort=True), 1)
    ]
    none = to_say("No ratio yet: no two parties have done equal work in runs whose times no flag spoils.")
    sketch = Sketch("ratios", ([(title, group[_RATIOS]) for title, group in pairs],))
    tables = tuple(tabulate(title, records(group), _RATIO) for title, group in pairs)
    return Section(
        *("ratios", say("Ratios"), (say(_RATIO_TEXT),)),
        figure=sketch,
        instead=(say(none),),
        tables=(*tables, *_refused(findings)),
        warnings=findings.warnings,
    )


def _refused(findings: Findings) -> tuple[Table, ...]:
    """The refused comparisons, those of one pair and one reason together."""
    refused = findings.comparisons[findings.comparisons["refused"] != ""]
    if refused.empty:
        return ()
    works = refused["row"] + " " + refused["method"]
    grouped = works.groupby([refused[name] for name in ("above", "below", "refused")])
    rows = [
        {
            "above": above,
            "below": below,
            "refused": reason,
            "comparisons": len(names),
            "workloads": ", ".join(dict.fromkeys(names)),
        }
        for (above, below, reason), names in grouped
    ]
    return (tabulate(say("Refused comparisons"), rows, _REFUSED),)
