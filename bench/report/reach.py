"""The fit frontier of both machines: what was predicted, and beside it what runs say, where there are any.

In: `Reach`es of each machine (`bench.frontier.reach`) and `Findings`. Out: a section with the figure and a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.analysis import HELD
from bench.frontier.reach import AXES, Reach
from bench.report import wording
from bench.report.document import Column, Detail, Record, Section, Sketch, filled, tabulate
from bench.report.findings import Findings
from bench.report.frontier import edges
from bench.report.language import say, to_say

HELD_SIZES: Mapping[str, Mapping[str, int]] = {
    "model": {"batch_size": 1, "sequence_length": 2048},
    "sequence_length": {"batch_size": 1},
    "batch_size": {"sequence_length": 2048},
}
"""The sizes that stay as they are while another is searched, as in suites/frontier.toml."""
_TEXT = to_say(
    "The largest of the lesson’s models that fits at batch 1 and 2,048 tokens, the longest sequence at batch 1, and the largest"
    " batch at 2,048 tokens, each by the stack of the machine that gets furthest, with gradient checkpointing and AdamW."
)
_HOW = to_say(
    "Predicted by closed form, as “wingspan frontier frontier --predicted” says, with what surely fits and what may fit. No"
    " sequence is longer than its model has positions. Measured is what runs of the same work say, where there are any."
)
_COLUMNS = (
    Column("what", "what"),
    Column("method", "method"),
    Column("model", "model"),
    Column("machine", "machine"),
    Column("predicted edge", "predicted", "number"),
    Column("surely, and perhaps", "interval", "number"),
    Column("stack", "stack"),
    Column("measured: ran, and did not", "measured", "number"),
    Column("evidence", "evidence"),
    Column("run ids", "run_ids", "code"),
)


def reach(found: Sequence[Reach], findings: Findings, names: Mapping[str, str]) -> Section | None:
    """The section; None where nothing was predicted. `names` are short ones, by machine."""
    if not found:
        return None
    seen = measured(findings)
    rows = [_row(each, seen.get((each.machine, each.axis, each.method, each.model))) for each in found]
    title = say("Fit frontier")
    sketch = Sketch("reach", (found, names, {key: row["last_value"] for key, row in seen.items()}))
    table = tabulate(say("How far each machine reaches"), rows, filled(_COLUMNS, rows))
    details = (Detail("reach-table", table.title, (say(_HOW),), (table,)),)
    return Section("reach", title, (say(_TEXT),), figure=sketch, details=details)


def measured(findings: Findings) -> dict[tuple[str, str, str, str], Record]:
    """Edges between runs under the same conditions, by machine (or the one that was stood in for), axis, method and model."""
    found: dict[tuple[str, str, str, str], Record] = {}
    for row in edges(findings):
        held = HELD_SIZES.get(row["axis"])
        if held is not None and all(row["sizes"].get(name) == size for name, size in held.items()) and row["usual"]:
            like = row["tier"].partition(HELD)[2].partition(" as ")[2]
            model = "" if row["axis"] == "model" else row["row"]
            found.setdefault((like or row["machine"], row["axis"], row["method"], model), row)
    return found


def _row(each: Reach, seen: Record | None) -> Record:
    interval = say("{low} to {high}", low=value_name(each.low), high=value_name(each.high)) if each.low != each.high else ""
    return {
        "what": axis_name(each.axis),
        "method": each.method,
        "model": each.model,
        "machine": each.machine,
        "predicted": say("{value} or more", value=value_name(each.likely)) if each.ends_the_search else value_name(each.likely),
        "interval": interval,
        "stack": each.stack,
        "measured": "" if seen is None else say("{ran}; not {failed}", ran=seen["last"], failed=seen["first"]),
        "evidence": wording.tier("predicted") if seen is None else f"{wording.tier('predicted')}, {wording.tier(seen['tier'])}",
        "run_ids": "" if seen is None else seen["run_ids"],
    }


def axis_name(axis: str) -> str:
    """What is searched, for people."""
    assert axis in AXES
    return {"model": say("largest model"), "sequence_length": say("longest sequence"), "batch_size": say("largest batch")}[axis]


def value_name(value: int | str | None) -> str:
    """A value of an axis, for people."""
    if value is None:
        return say("none")
    return value if isinstance(value, str) else wording.whole(value)
