"""The conditions under which a report's numbers hold: a number without them is no result.

In: `Findings`. Out: a section that tells every declared field of the workloads, and the steps that were taken: once where all
runs share it, in a table by workload where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bench.report import wording
from bench.report.document import Column, Section, Table, records, tabulate
from bench.report.findings import UNRECORDED, Findings, pairs
from bench.report.labels import work_names
from bench.report.language import either, say, to_say
from bench.spec import MODULE_SETS, TRAINING_FIELDS, WORKLOAD_FIELDS, expand_modules

STEPS, RULE, WARMUP = to_say("measured steps"), to_say("warm-up"), to_say("steps of warm-up")
WORKLOADS_IN_A_ROW = 8
_FIELDS = tuple(name for name in WORKLOAD_FIELDS if name not in ("model", "method"))
_NONE = to_say("none")
_NO_RUN = to_say("no run ended ok")
_TEXT = to_say(
    'The fields are those of the suite files. "none" is a field that the method does not use, or that was not asked for: no'
    " quantisation, no separate master weights, or adapters in no fewer than all blocks. How the backends carried this out stands"
    " under implementations. A step of serving is one batch of requests: its lengths are those of the prompt and of what is"
    " generated."
)

_SETTINGS_NOTE = to_say("As read back from the devices around the runs; a setting with several values changed between runs.")

_SETTING = (Column("machine", "machine"), Column("device", "device"), Column("setting", "setting"), Column("value", "value"))


def conditions(findings: Findings) -> Section:
    """What the runs were asked to do, field by field."""
    told = _told(findings.runs)
    shared = [name for name in told.columns if told[name].nunique() == 1]
    differing = [name for name in told.columns if name not in shared]
    unused = [name for name in shared if told[name].iloc[0] == say(_NONE)]
    common = [{"field": _name(name), "value": told[name].iloc[0]} for name in shared if name not in unused]
    notes = [say("None in any run: {fields}.", fields=", ".join(unused))] if unused else []
    lengths = findings.runs.loc[findings.runs["outcome"] == "ok", "warmup_steps"].dropna()
    common += [{"field": say(WARMUP), "value": wording.spread(list(lengths)) or say(UNRECORDED)}]
    missing = [name for name in _FIELDS if name not in told.columns]
    notes += [say("Not recorded: {fields}.", fields=", ".join(missing))] if missing else []
    tables = [tabulate(say("Shared by all runs"), common, (Column("field", "field"), Column("value", "value")), notes)]
    if differing:
        columns = (
            Column("workloads", "workloads"),
            *(Column(_name(name), name, as_is=True) for name in differing),
            Column("runs", "runs", "number"),
        )
        tables.append(tabulate(say("Differing between workloads"), _by_workload(findings.runs, told, differing), columns))
    tables += _settings(findings.runs)
    return Section("conditions", say("Conditions"), (say(_TEXT),), tables=tuple(tables))


def _name(column: str) -> str:
    """What a column of `_told` is called: what was taken in words, a field by its own name."""
    return say(column) if column in (STEPS, RULE) else column


def _told(runs: pd.DataFrame) -> pd.DataFrame:
    """Each run's recorded fields as text; its steps are those that its workload's runs took."""
    told = {name: _field(runs, name) for name in _FIELDS if name in runs}
    taken = pd.Series([_steps(row) for row in runs[["outcome", "step_count", "steps"]].to_dict("records")], runs.index)
    rules = _of_workload(runs, runs["warmup_rule"], say(UNRECORDED))
    return pd.DataFrame({**told, STEPS: _of_workload(runs, taken, say(_NO_RUN)), RULE: rules})


def _field(runs: pd.DataFrame, name: str) -> pd.Series[str]:
    """A field's value in each run; what only training uses is none where the method is `serve`, plain values that fill it too."""
    idle = runs["method"].eq("serve") & (name in TRAINING_FIELDS)
    codes, distinct = pd.factorize(runs[name], use_na_sentinel=False)
    told = pd.Series([in_words(name, value) for value in distinct], dtype=object)
    return pd.Series(told.iloc[codes].to_list(), runs.index).mask(idle, say(_NONE))


def _of_workload(runs: pd.DataFrame, texts: pd.Series[str], otherwise: str) -> pd.Series[str]:
    """What the runs of each workload say, for each of them: those that failed early say nothing, and were asked the same."""
    known: dict[str, set[str]] = {}
    for digest, text in zip(runs["workload_digest"].to_list(), texts.to_list(), strict=True):
        if text:
            known.setdefault(digest, set()).add(text)
    told = {digest: either(sorted(found)) for digest, found in known.items()}
    return runs["workload_digest"].map(lambda digest: told.get(digest, otherwise))


def _steps(run: Mapping[Any, Any]) -> str:
    """The measured steps of a run that ended ok; one that did not was cut short, and says nothing of what was asked."""
    if run["outcome"] != "ok":
        return ""
    if pd.isna(run["step_count"]):
        in_all = to_say("{steps} in all, warm-up not recorded")
        return say(UNRECORDED) if pd.isna(run["steps"]) else say(in_all, steps=int(run["steps"]))
    return wording.whole(run["step_count"])


def _settings(runs: pd.DataFrame) -> list[Table]:
    """How the devices of each machine were set, as they were read back: every value that was seen."""
    seen: dict[tuple[str, str, str], set[str]] = {}
    for machine, device, stored in zip(runs["machine"], runs["device"], runs["device_settings"], strict=True):
        for name, value in pairs(stored):
            seen.setdefault((machine, device, name), set()).add(value)
    rows = [
        {"machine": machine, "device": device, "setting": name, "value": either(sorted(values))}
        for (machine, device, name), values in sorted(seen.items())
    ]
    return [tabulate(say("Device settings"), rows, _SETTING, [say(_SETTINGS_NOTE)])] if rows else []


def in_words(name: str, value: Any) -> str:
    """The value of a workload's field as it is declared; "none" where it is null."""
    if value is None or pd.isna(value):
        return say(_NONE)
    if name == "gradient_checkpointing":
        return say("yes") if value else say("no")
    if name == "modules":
        return _modules(str(value))
    return str(value) if isinstance(value, str) else f"{value:.10g}"


def _modules(names: str) -> str:
    """A known set of modules by its name, with what is in it."""
    known = {expanded: name for name, expanded in MODULE_SETS.items()}
    try:
        expanded = expand_modules(names)
    except ValueError:
        return names
    listed = ", ".join(expanded)
    return f"{known[expanded]} ({listed})" if expanded in known else listed


def _by_workload(runs: pd.DataFrame, told: pd.DataFrame, differing: list[str]) -> list[dict[str, Any]]:
    """A row for each combination of the differing fields, with the workloads that have it."""
    frame = told[differing].assign(name=work_names(runs) + " " + runs["method"], method=runs["method"], n=1)
    rows = frame.groupby(["method", *differing], sort=True).agg(workloads=("name", _listed), runs=("n", "sum"))
    return records(rows.reset_index())


def _listed(names: pd.Series[str]) -> str:
    distinct = sorted(set(names))
    more = len(distinct) - WORKLOADS_IN_A_ROW
    return ", ".join(distinct[:WORKLOADS_IN_A_ROW]) + (" " + say("and {count} more", count=more) if more > 0 else "")
