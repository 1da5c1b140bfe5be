"""Our own runs as evidence, beside what others published.

In: a results folder. Out: `Own`: one `Observation` for each run that says something, with the very cell that it measured (nothing
is open), and what of the others does not count and why. A flag spoils the figures that it casts doubt on and no others; a run
that ended for lack of memory says that the cell does not fit what it had. A machine is one source, however many runs it made; of
a cell that is measured nightly the last night counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bench import store
from bench.limits import profile_of
from bench.model import Model
from bench.nights import latest
from bench.predict.evidence import Observation
from bench.predict.speed import stack_of
from bench.spec import BACKENDS, WORKLOAD_FIELDS, Cell, Implementation, Workload
from bench.trust.flags import Spoilt, spoils

COLUMNS = (
    *("run_id", "machine", "machine_id", "model", "architecture", "parameters", "backend", "device", "implementation", "tier"),
    *("cell_key", "night", "outcome", "flags", "tokens_per_s", "framework_peak_bytes", "capacity_bytes"),
    *(name for name in WORKLOAD_FIELDS if name != "model"),
)
METERS = {"cuda": "allocated", "metal": "mlx_peak"}
"""What a framework's own peak is, by device; MLX counts alike on the CPU, and torch not at all."""


_NIGHTLY = ["run_id", "machine_id", "cell_key", "tier", "night", "outcome"]
EARLIER = "an earlier night of its cell: the last one counts"
OUT_OF_MEMORY = ("oom_device", "oom_host", "over_limit")


@dataclass(frozen=True, slots=True)
class Own:
    """`runs` were found; `unused` says for a figure (`run`, `peak`, `rate`) of a run why it does not count."""

    observations: tuple[Observation, ...] = ()
    unused: tuple[tuple[str, str], ...] = ()
    runs: int = 0


def own_runs(results: Path) -> Own:
    """In the order of run ids. Raises OSError for a folder that cannot be listed; damaged files count for nothing."""
    table = store.read(results, "runs", COLUMNS, quarantine=False).rows
    counted = {*latest(table.select(_NIGHTLY).to_pandas())["run_id"]}
    rows = table.to_pylist()
    found: list[Observation] = []
    unused: list[tuple[str, str]] = []
    for row in sorted(rows, key=lambda row: row["run_id"]):
        refused = _refused(row) if row["run_id"] in counted else EARLIER
        if refused is not None:
            unused.append(("run", refused))
            continue
        spoilt = {"peak": _no_peak(row), "rate": _no_rate(row)} if row["outcome"] == "ok" else {}
        unused += [(figure, reason) for figure, reason in spoilt.items() if reason is not None]
        found.append(_observation(row, spoilt))
    return Own(tuple(found), tuple(unused), len(rows))


def _refused(row: Mapping[str, Any]) -> str | None:
    if row["backend"] == "fake" or row["backend"] not in BACKENDS:
        return f"backend {row['backend']}: it does not train"
    if row["outcome"] == "ok" or row["outcome"] in OUT_OF_MEMORY:
        return None
    return f"outcome {row['outcome']}: no measurement"


def _no_peak(row: Mapping[str, Any]) -> str | None:
    if _meter(row) is None:
        return f"{row['backend']} on the {row['device']} counts no peak of its own"
    if row["framework_peak_bytes"] is None:
        return "no peak recorded"
    return _flagged(row, "memory")


def _no_rate(row: Mapping[str, Any]) -> str | None:
    if row["method"] == "serve":
        return "serving: rates are fitted on training alone"
    if row["tier"] != "measured":
        return f"tier {row['tier']}: evidence of memory alone"
    if flagged := _flagged(row, "time"):
        return flagged
    if row["device"] == "cpu" or profile_of(row["machine"]) is None:
        return "no rated speed is known of the machine"
    return "no rate recorded" if row["tokens_per_s"] is None else None


def _flagged(row: Mapping[str, Any], what: Spoilt) -> str | None:
    found = [flag for flag in row["flags"] or () if spoils([flag], what)]
    return f"flagged {', '.join(sorted(found))}" if found else None


def _meter(row: Mapping[str, Any]) -> str | None:
    return "mlx_peak" if row["backend"] == "mlx" else METERS.get(row["device"])


def _observation(row: Mapping[str, Any], spoilt: Mapping[str, str | None]) -> Observation:
    cell = _cell(row)
    ran = row["outcome"] == "ok"
    peak, timed = ran and spoilt["peak"] is None, ran and spoilt["rate"] is None
    return Observation(
        id=row["run_id"],
        family=f"own-{row['machine_id']}",
        source=f"this project's run on {row['machine']}",
        stack=stack_of(cell),
        framework=row["backend"],
        own=True,
        cells=(cell,),
        missing=(),
        logit_bytes=0,
        machine=profile_of(row["machine"]) if timed else None,
        capacity_bytes=row["capacity_bytes"],
        meter=_meter(row),
        peak_bytes=row["framework_peak_bytes"] if peak else None,
        tokens_per_s=row["tokens_per_s"] if timed else None,
        outcome="ok" if ran else "oom",
        tier=row["tier"],
    )


def _cell(row: Mapping[str, Any]) -> Cell:
    model = Model(row["model"], row["architecture"], row["parameters"])
    work = {name: row[name] for name in WORKLOAD_FIELDS if name != "model"}
    return Cell(Workload(model=model, **work), row["backend"], row["device"], _implementation(dict(row["implementation"] or ())))


def _implementation(recorded: Mapping[str, str]) -> Implementation:
    """What of the recorded choices can be asked for; a backend may have recorded more, and in words of its own."""
    hints = get_type_hints(Implementation)
    chosen = {field.name: _choice(hints[field.name], recorded.get(field.name)) for field in fields(Implementation)}
    return Implementation(**chosen)


def _choice(kind: Any, text: str | None) -> Any:
    options = [option for part in get_args(kind) for option in (get_args(part) or (part,))]
    if text in options:
        return text
    return json.loads(text) if bool in options and text in ("true", "false") else None
