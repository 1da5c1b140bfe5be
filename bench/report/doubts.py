"""What casts doubt on the figures: flags and what they spoil, outliers among repeats, what was not measured and why.

In: `Findings`. Out: sections, and texts for others. A section without anything to tell is None.
"""

from __future__ import annotations

from collections.abc import Iterable

from bench.metrics import CLEAN, METRICS
from bench.report.document import Column, Record, Section, records, tabulate
from bench.report.findings import Findings, pairs
from bench.report.labels import party_names
from bench.report.language import say, strung, to_say
from bench.trust.flags import FLAGS, SPOILT, Flag, Spoilt, spoils

_UNKNOWN = Flag(
    to_say("not among the flags that this version knows"), to_say("read the report with the version that measured"), SPOILT
)
_SPOILS = {"time": to_say("time"), "memory": to_say("memory"), "energy": to_say("energy")}
_FLAG = (
    Column("flag", "flag"),
    Column("runs", "runs", "number"),
    Column("spoils", "spoils"),
    Column("cause", "cause"),
    Column("remedy", "remedy"),
)
_FLAG_TEXT = to_say(
    "A flagged run is kept and shown, and left out of the means and ratios of the kinds of figures that its flags spoil; its"
    " other figures count."
)
_MISSING = (
    Column("reason", "reason"),
    Column("not measured", "columns"),
    Column("backend and machine", "parties"),
    Column("runs", "runs", "number"),
)
_MISSING_TEXT = to_say("An empty entry in a table is never a zero. These are the reasons that the runs themselves recorded.")


def flags(findings: Findings) -> Section | None:
    """The flags that occur, with cause, remedy and what they spoil."""
    counts = findings.runs["flags"].explode().dropna().value_counts()
    if counts.empty:
        return None
    rows = [{"flag": flag, "runs": int(counts[flag]), **_known(flag)} for flag in sorted(counts.index)]
    title = say("Flags")
    return Section("flags", title, (say(_FLAG_TEXT),), tables=(tabulate(title, rows, _FLAG),))


def _known(flag: str) -> dict[str, str]:
    told = FLAGS.get(flag, _UNKNOWN)
    return {"spoils": kinds(told.spoils), "cause": say(told.cause), "remedy": say(told.remedy)}


def kinds(spoils: Iterable[Spoilt]) -> str:
    """The kinds of figures that flags spoil, in words."""
    return ", ".join(say(_SPOILS[kind]) for kind in spoils)


def explained(names: Iterable[str]) -> str:
    """Each flag with its cause and its remedy, in one text."""
    told = [(name, FLAGS.get(name, _UNKNOWN)) for name in names]
    text = to_say("{flag}: {cause} (remedy: {remedy})")
    return strung(say(text, flag=name, cause=say(flag.cause), remedy=say(flag.remedy)) for name, flag in told)


def spoilt(findings: Findings) -> list[Record]:
    """The cells that ended ok and have some figures that count, and some kind of which flags spoil every run.

    Records of the summaries with `spoilt`, the kinds, and `spoiling`, the flags. A kind that no run has measured is not spoilt.
    """
    measured = {kind: _with_figures(findings, kind) for kind in CLEAN}
    found: list[Record] = []
    for row in records(findings.summaries[findings.summaries["n_ok"] > 0]):
        unclean = [kind for kind, column in CLEAN.items() if not row[f"n_{column}"]]
        lost = [kind for kind in unclean if not measured[kind].isdisjoint(row["run_ids"])]
        if lost and len(unclean) < len(CLEAN):
            spoiling = [flag for flag in row["flags"] if any(spoils([flag], kind) for kind in lost)]
            found.append({**row, "spoilt": kinds(lost), "spoiling": spoiling})
    return found


def _with_figures(findings: Findings, kind: Spoilt) -> set[str]:
    """The runs that have any figure of that kind."""
    columns = [name for name, metric in METRICS.items() if metric.kind == kind]
    return set(findings.runs.loc[findings.runs[columns].notna().any(axis=1), "run_id"])


def outliers(findings: Findings) -> list[str]:
    """A note where rates stand apart from those of their repeats."""
    found = [run_id for run_ids in findings.summaries["outlier_runs"] for run_id in run_ids]
    if not found:
        return []
    text = to_say(
        "{n} rate stands apart from the others of the cell by the modified z-score, flagged by nothing, and counted: {runs}."
        "|{n} rates stand apart from the others of the cell by the modified z-score, flagged by nothing, and counted: {runs}."
    )
    return [say(text, n=len(found), runs=", ".join(found))]


def not_measured(findings: Findings) -> Section | None:
    """What stayed empty, by the reason that was given."""
    reasons: dict[str, tuple[set[str], set[str], set[str]]] = {}
    runs = findings.runs
    for run_id, party, missing in zip(runs["run_id"], party_names(runs), runs["not_measured"], strict=True):
        for column, reason in pairs(missing):
            columns, parties, run_ids = reasons.setdefault(reason, (set(), set(), set()))
            columns.add(column)
            parties.add(party)
            run_ids.add(run_id)
    if not reasons:
        return None
    rows = [
        {"reason": reason, "columns": ", ".join(sorted(columns)), "parties": ", ".join(sorted(parties)), "runs": len(run_ids)}
        for reason, (columns, parties, run_ids) in sorted(reasons.items())
    ]
    title = say("What was not measured, and why")
    return Section("not-measured", title, (say(_MISSING_TEXT),), tables=(tabulate(title, rows, _MISSING),))
