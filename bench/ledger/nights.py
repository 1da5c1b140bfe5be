"""What asv tracks of a night, from the stored runs.

In: the table `runs` as a DataFrame, and the lists of installed packages by digest. Out: a `Night` per machine and night, in
order: per cell the figures of its runs, every one the better the lower, since asv takes up as worse and cannot be told
otherwise; and in words what the machine and its environment were. Nothing is read or written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from bench.analysis import prepare
from bench.environments import Environment
from bench.history.series import UNDECIDED, is_night
from bench.ledger.environment import describe
from bench.metrics import METRICS

COLUMNS = (
    *("run_id", "started_at", "night", "machine", "machine_id", "cell", "cell_key", "backend", "device", "tier", "outcome"),
    *(
        "reason",
        "flags",
        "capacity_bytes",
        "tokens_per_s",
        "framework_peak_bytes",
        "device_peak_bytes",
        "host_peak_bytes",
        "j_per_token",
    ),
    *("import_s", "load_s", "first_step_s", "power_scope", "device_peak_scope", "chip", "accelerator", "memory_bytes"),
    *("os_version", "versions", "device_settings", "environment_digest", "source_revision"),
)
"""The columns of `runs` that a night is made of."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Figure:
    """What asv tracks: its unit, the metric whose flags and scope it shares, and how it is made of the columns of `runs`."""

    unit: str
    metric: str
    of: Callable[[pd.DataFrame], pd.Series[float]]


FIGURES: Mapping[str, Figure] = {
    "ms_per_1000_tokens": Figure("ms", "tokens_per_s", lambda runs: 1e6 / runs["tokens_per_s"].where(runs["tokens_per_s"] > 0)),
    "framework_peak_gib": Figure("GiB", "framework_peak_bytes", lambda runs: runs["framework_peak_bytes"] / GIB),
    "device_peak_gib": Figure("GiB", "device_peak_bytes", lambda runs: runs["device_peak_bytes"] / GIB),
    "host_peak_gib": Figure("GiB", "host_peak_bytes", lambda runs: runs["host_peak_bytes"] / GIB),
    "j_per_1000_tokens": Figure("J", "j_per_token", lambda runs: 1e3 * runs["j_per_token"]),
    "time_to_first_step_s": Figure("s", "first_step_s", lambda runs: runs["import_s"] + runs["load_s"] + runs["first_step_s"]),
}
"""By name. The time to the first step runs from the worker's imports to that step's end."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One cell in one night: by figure one sample per run that counts; where every run failed, how the last did."""

    samples: Mapping[str, tuple[float, ...]]
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Night:
    """One night of one machine. `label` is its date; `environment` tells line by line in what conditions the runs were made."""

    machine: str
    label: str
    environment: str
    hardware: Mapping[str, str] = field(default_factory=dict)
    cells: Mapping[str, Seen] = field(default_factory=dict)

    @property
    def moment(self) -> datetime:
        """The beginning of that day (UTC)."""
        return datetime.fromisoformat(self.label).replace(tzinfo=UTC)


Cells = Mapping[tuple[str, str], Mapping[str, Seen]]
"""By night and machine, what was seen of each cell."""


def nights_of(runs: pd.DataFrame, packages: Mapping[str, Environment]) -> tuple[Night, ...]:
    """Every night, by date, then machine; the order of the rows does not matter, nor do copies of a run.

    A machine is one piece of hardware, called as it was last. A cell is called by its id; of several that share one, and differ
    in what else was asked for, the first to be seen keeps the bare id, so that no later one can rename it. `packages` holds
    the lists of installed packages that are known, by their digest.
    """
    frame = runs.reindex(columns=list(dict.fromkeys([*COLUMNS, *runs.columns])))
    frame = frame[[is_night(label) for label in frame["night"]]]
    if frame.empty:
        return ()
    frame = prepare(frame.assign(own_name=frame["machine"], reason=frame["reason"].where(frame["reason"].notna(), "")))
    frame["unit"] = frame["machine_id"].where(frame["machine_id"] != "", frame["own_name"])
    frame["ok"] = frame["outcome"] == "ok"
    frame = frame.sort_values(["night", "ok", "started_at", "run_id"], kind="stable").reset_index(drop=True)
    frame["called"], frame["label"] = _machines(frame), _cells(frame)
    cells, rows = _seen(frame), _last(frame)
    return tuple(_night(*key, rows[key], cells[key], packages) for key in sorted(cells))


def _machines(frame: pd.DataFrame) -> pd.Series[str]:
    """The name of each run's machine: its last one, safe as a folder's; with its id where two machines have one name."""
    last = frame.drop_duplicates("unit", keep="last").set_index("unit")["own_name"].map(_safe)
    alike = last.duplicated(keep=False)
    names = last.where(~alike, last + [f" [{unit[:6]}]" for unit in last.index])
    return frame["unit"].map(names)


def _safe(name: str) -> str:
    """The name with what a path, or git, may not hold escaped as in an address."""
    return re.sub(r'^\.|[/\\<>:"|?*%\x00-\x1f]', lambda found: f"%{ord(found[0]):02X}", name)


def _cells(frame: pd.DataFrame) -> pd.Series[str]:
    """The label of each run's cell: its id, its tier where that is not plain `measured`, and its key's start in doubt."""
    plain = frame["cell"] + frame["tier"].map(lambda tier: "" if tier == "measured" else f" ({tier})")
    keyed = plain + " #" + frame["cell_key"].str[:8]
    kinds = pd.DataFrame({"unit": frame["unit"], "plain": plain, "keyed": keyed}).drop_duplicates(["plain", "keyed"])
    first = kinds.drop_duplicates("plain").set_index("plain")["keyed"]
    return plain.where(plain.map(first) == keyed, keyed)


def _counted(frame: pd.DataFrame, figure: Figure) -> pd.Series[float]:
    """The figure of each run that no flag spoils, NaN elsewhere; of figures that differ in scope, those of the last one's."""
    metric = METRICS[figure.metric]
    values = figure.of(frame).where(frame[metric.clean])
    if metric.scope is None:
        return values
    scopes = frame[metric.scope].where(values.notna())
    return values.where(scopes == scopes.groupby([frame["called"], frame["label"]]).transform("last"))


def _last(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """By night and machine the last run of each backend, for what it says of the conditions."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in frame.drop_duplicates(["night", "called", "backend", "device"], keep="last").to_dict("records"):
        found.setdefault((row["night"], row["called"]), []).append({str(name): value for name, value in row.items()})
    return found


def _night(
    label: str, machine: str, rows: list[dict[str, Any]], cells: Mapping[str, Seen], packages: Mapping[str, Environment]
) -> Night:
    last = rows[-1]
    hardware = {
        "cpu": _text(last["chip"]),
        "gpu": _text(last["accelerator"]),
        "ram": "" if pd.isna(last["memory_bytes"]) else f"{last['memory_bytes'] / GIB:.1f} GiB",
    }
    return Night(machine, label, describe(machine, rows, packages), hardware, cells)


def _seen(frame: pd.DataFrame) -> Cells:
    """By night and machine, then cell: what was seen."""
    keys = [frame[name] for name in ("night", "called", "label")]
    samples = {name: _counted(frame, figure).dropna().groupby(keys).agg(tuple).to_dict() for name, figure in FIGURES.items()}
    failures = frame[~frame["ok"] & ~frame["outcome"].isin(UNDECIDED)].drop_duplicates(["night", "called", "label"], keep="last")
    how = failures["outcome"] + failures["reason"].map(lambda reason: f": {reason}" if reason else "")
    failed = dict(zip(zip(*(failures[key.name] for key in keys), strict=True), how, strict=True))
    found: dict[tuple[str, str], dict[str, Seen]] = {}
    told: pd.DataFrame = frame["ok"].groupby(keys).any().reset_index()
    for *key_parts, ok in told.itertuples(index=False):
        night, machine, cell = key = tuple(key_parts)
        seen = Seen({name: those.get(key, ()) for name, those in samples.items()}, "" if ok else failed.get(key, ""))
        found.setdefault((night, machine), {})[cell] = seen
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
