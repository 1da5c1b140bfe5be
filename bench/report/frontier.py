"""Where models stopped fitting, and what took the memory: edges among the runs, and the measured parts of their peaks.

In: `Findings`. Out: a section of edges, None where no runs stand on both sides of one; and a section of parts, None where no
run was asked for them. An edge is read off the rows alone: of runs that differ in one size only, the largest that ran and the
smallest that memory ended. So any suite that sweeps a size shows one; `wingspan frontier` looks for them on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from bench.report import wording
from bench.report.document import Column, Record, Section, Table, filled, records, tabulate
from bench.report.findings import Findings
from bench.report.labels import party_names, work_names
from bench.report.language import say, to_say
from bench.spec import WORKLOAD_FIELDS
from bench.sweep.evidence import MEMORY_OUTCOMES

AXES = ("sequence_length", "prompt_tokens", "batch_size", "model")
NO_FIT = frozenset({"swapping", "spilled"})
UNCERTAIN = frozenset({"growing", "memory-growing"})
USUAL: Mapping[str, Any] = {"gradient_checkpointing": True, "optimizer": "adamw", "gradient_accumulation": 1}
_PLACE = ("machine", "tier", "backend", "device", "limited", "method", "model")
_MODEL = ("model", "architecture", "parameters")
_TEXT = to_say(
    "Of runs that differ in one size alone: the largest that ran, and the smallest that memory ended. The true edge lies between"
    " the two. A run at the edge shows a fit for as many steps as it took. What was predicted is the largest of the sizes tried"
    " of which the process was predicted, before the run, to hold no more than the capacity."
)
_PARTS_TEXT = to_say(
    "What each part had of the framework's memory at the moment when most was in use, in one more step than was measured. With"
    " torch live storages are followed; what kernels allocate within themselves is not seen. With MLX the arrays that stay are"
    " summed up, and gradients, activations and logits are the rest of its own peak."
)
_EDGE = (
    Column("workload", "row"),
    Column("method", "method"),
    Column("backend and machine", "party"),
    Column("size", "axis"),
    Column("largest that ran", "last", "number"),
    Column("smallest that did not", "first", "number"),
    Column("predicted", "predicted", "number"),
    Column("steps at the edge", "steps", "number"),
    Column("capacity", lambda row: wording.size(row["capacity_bytes"]), "number"),
    Column("doubts", "doubts"),
    Column("evidence", lambda row: wording.tier(row["tier"])),
    Column("run ids", "run_ids", "code"),
)
_PARTS = (
    *(to_say("weights"), to_say("adapters"), to_say("gradients"), to_say("optimizer"), to_say("activations")),
    *(to_say("logits"), to_say("rest")),
)


def _part(name: str) -> Column:
    return Column(name, lambda row: wording.size(row.get(name)), "number")


_PART_COLUMNS = (
    Column("workload", "row"),
    Column("method", "method"),
    Column("backend and machine", "party"),
    *(_part(name) for name in _PARTS),
    Column("together", lambda row: wording.size(row["total"]), "number"),
    Column("run id", "run_id", "code"),
)


def frontier(findings: Findings) -> Section | None:
    """The edges; None where there are none."""
    rows = edges(findings)
    if not rows:
        return None
    title = say("Frontier")
    return Section("frontier", title, (say(_TEXT),), tables=(tabulate(title, rows, filled(_EDGE, rows)),))


def edges(findings: Findings) -> list[Record]:
    """The edges among the runs, along every axis; found once.

    Beside what is shown of them each has `machine`, the raw `last_value` (None: none ran), its `sizes`, and whether the other
    conditions are the `usual` ones of the lesson's suites.
    """
    if "edges" not in findings.kept:
        runs = findings.runs if findings.runs.empty else _prepared(findings.runs)
        findings.kept["edges"] = [row for axis in AXES if axis in runs and len(runs) for row in _edges(runs, axis)]
    found: list[Record] = findings.kept["edges"]
    return found


def parts(findings: Findings) -> Section | None:
    """The measured parts, a row a run; None where no run told them."""
    if findings.parts.empty:
        return None
    wide = findings.parts.pivot_table(index="run_id", columns="scope", values="value", aggfunc="sum")
    runs = findings.runs.assign(row=work_names(findings.runs), party=party_names(findings.runs))
    named = runs[["run_id", "row", "method", "party"]].sort_values(["row", "method", "party", "run_id"])
    rows = records(named.merge(wide.assign(total=wide.sum(axis=1)), left_on="run_id", right_index=True))
    title = say("Parts of memory")
    table: Table = tabulate(title, rows, filled(_PART_COLUMNS, rows))
    return Section("parts", title, (say(_PARTS_TEXT),), tables=(table,)) if rows else None


def _prepared(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that say whether something fits, with `fits` and what else an edge is told by."""
    told = runs.reindex(
        columns=[*runs.columns, *(name for name in ("capacity_bytes", "predicted_held_bytes") if name not in runs)]
    )
    flags = [frozenset(each) if isinstance(each, tuple | list) else frozenset() for each in runs["flags"]]
    ended = [outcome in MEMORY_OUTCOMES or bool(NO_FIT & each) for outcome, each in zip(runs["outcome"], flags, strict=True)]
    told["fits"] = [outcome == "ok" and not over for outcome, over in zip(runs["outcome"], ended, strict=True)]
    told["uncertain"] = [", ".join(sorted(UNCERTAIN & each)) for each in flags]
    told["limited"] = told["capacity_bytes"].where(pd.Series(["limited" in each for each in flags], told.index, dtype=bool))
    told["party"] = party_names(runs)
    return told.loc[[fits or over for fits, over in zip(told["fits"], ended, strict=True)]]


def _edges(runs: pd.DataFrame, axis: str) -> Iterator[dict[str, Any]]:
    """An edge for each group of runs that differ along the axis alone and lie on both sides of it."""
    size = "parameters" if axis == "model" else axis
    loose = {axis, *(_MODEL if axis == "model" else ()), *(("sequence_length",) if axis == "prompt_tokens" else ())}
    fields = [name for name in (*_PLACE, *WORKLOAD_FIELDS, "architecture") if name in runs and name not in loose]
    known = runs[runs[size].notna()]
    number = known.groupby(list(dict.fromkeys(fields)), dropna=False, sort=True).ngroup()
    ended_somewhere = number[~known["fits"]].unique()
    for _, group in known[number.isin(ended_somewhere)].groupby(number):
        ran, ended = group[group["fits"]], group[~group["fits"]]
        beyond = ended[ended[size] > (ran[size].max() if len(ran) else -1)]
        if len(beyond) and group[size].nunique() > 1:
            yield _edge(group, ran, beyond[beyond[size] == beyond[size].min()], axis, size)


def _edge(group: pd.DataFrame, ran: pd.DataFrame, first: pd.DataFrame, axis: str, size: str) -> dict[str, Any]:
    last = ran[(ran[size] == ran[size].max()) & ran[size].lt(first[size].iloc[0])]
    one = group.iloc[0]
    within = group[group["predicted_held_bytes"].notna() & group["predicted_held_bytes"].le(group["capacity_bytes"])]
    predicted = within[within[size] == within[size].max()]
    return {
        "row": say("all") if axis == "model" else str(one["model"]),
        "method": one["method"],
        "party": one["party"],
        "axis": axis,
        "last": _value(last, axis) or say("none of them"),
        "first": _value(first, axis),
        "predicted": _value(predicted, axis),
        "steps": wording.whole(last["step_count"].max()) if "step_count" in last else "",
        "capacity_bytes": group["capacity_bytes"].max(),
        "doubts": ", ".join(sorted(set(last["uncertain"]) - {""})),
        "tier": one["tier"],
        "run_ids": ", ".join(sorted([*last["run_id"], *first["run_id"]])),
        "machine": one["machine"],
        "last_value": None if last.empty else last[axis].iloc[0],
        "sizes": {name: one.get(name) for name in ("batch_size", "sequence_length")},
        "usual": all(one.get(name) == value for name, value in USUAL.items()),
    }


def _value(rows: pd.DataFrame, axis: str) -> str:
    if rows.empty:
        return ""
    value: Any = rows[axis].iloc[0]
    return str(value) if axis == "model" else wording.whole(value)
