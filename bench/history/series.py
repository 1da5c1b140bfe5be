"""Runs to histories: what each night saw of each cell.

In: the table `runs` as a DataFrame. Out: a `Track` for each cell on each machine, in a fixed order: which nights it ran, failed
or was not run, under which conditions, and for each gated metric one level a night. Runs that are no night's are left out.
Nothing is read or written here.

A level is the geometric mean of the night's runs that no flag spoils, of bytes the median (`bench.metrics`, `bench.intervals`);
None where the night has no such run, and the series says why. Another workload or implementation asked for is another cell, and
so another track; what a stack made of the same request is not, since that is what an upgrade may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd

from bench.analysis import prepare
from bench.metrics import METRICS

GATED = ("tokens_per_s", "framework_peak_bytes", "device_peak_bytes", "host_peak_bytes", "j_per_token")
"""The metrics that turn a night red: slower, hungrier, hotter."""
UNDECIDED = frozenset({"interrupted", "skipped"})
"""Outcomes that say nothing of the cell: somebody stopped the sweep, or it was never started."""
CONDITIONS = (
    *("epoch_digest", "environment_digest", "versions", "os_version", "device_settings", "source_revision"),
    *("implementation", "backend", "device"),
)
"""The columns that say in what environment a run was made."""
COLUMNS = (
    *("run_id", "started_at", "night", "machine", "machine_id", "suite", "cell", "cell_key", "workload_digest", "tier"),
    *("outcome", "reason", "flags", "capacity_bytes", "power_scope", "device_peak_scope", *GATED, *CONDITIONS),
)
"""The columns of `runs` that a history is made of."""

Seen = Literal["measured", "failed", "not run"]
Why = Literal["", "failed", "not run", "flagged", "no figure", "other scope"]
_KEYS = ["unit", "suite", "tier", "cell_key"]


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one cell: a level for each of the track's nights, in the metric's unit, and where there is none, why not.

    `scope` is what the figures cover, for metrics that cover now this and now that: the last night's. Nights of another scope
    have no level here, for they cannot be divided by one another; `former` is the series of the last other scope, if any.
    """

    metric: str
    levels: tuple[float | None, ...]
    why: tuple[Why, ...]
    scope: str = ""
    former: Series | None = None

    @property
    def measured(self) -> tuple[int, ...]:
        """The nights that have a level."""
        return tuple(at for at, level in enumerate(self.levels) if level is not None)

    @property
    def renewed(self) -> tuple[int, ...]:
        """The nights that have a level since the scope last changed."""
        last = self.former.measured[-1] if self.former else -1
        return tuple(at for at in self.measured if at > last)


@dataclass(frozen=True, slots=True)
class Track:
    """One cell on one machine, as one suite asks for it: `nights` are those of machine and suite since the cell's first.

    `machine` is the name that it bore last, with its id where another bears it too: `box [0123ab]`; `machines` and `cells` are
    all names that the two ever bore. `seen`, `reasons`, `runs` and `failed_runs` go with the nights: a reason is the
    outcome and the words of the night's last failed run, empty where none failed; the runs counted are those that were decided,
    one way or the other. `conditions` holds by night the `CONDITIONS` of its last run, of nights on which this cell did not run
    those of another with the same backend and device; `mixed` are the nights within which the environment changed. `later`
    counts the machine's nights after the suite's last, which other suites had. `flags` are those of the last night that ran.
    """

    machine: str
    machine_id: str
    suite: str
    tier: str
    cell: str
    cell_key: str
    nights: tuple[str, ...]
    seen: tuple[Seen, ...]
    reasons: tuple[str, ...]
    runs: tuple[int, ...]
    failed_runs: tuple[int, ...]
    series: tuple[Series, ...]
    conditions: Mapping[str, Mapping[str, Any]]
    machines: tuple[str, ...]
    cells: tuple[str, ...]
    mixed: frozenset[str] = frozenset()
    later: int = 0
    flags: tuple[str, ...] = ()


def is_night(label: Any) -> bool:
    """Whether it is a date as nights are labelled: `2026-11-30`."""
    try:
        return isinstance(label, str) and date.fromisoformat(label).isoformat() == label
    except ValueError:
        return False


def tracks(runs: pd.DataFrame) -> tuple[Track, ...]:
    """The histories of all cells, by machine, suite and cell; the order of the rows does not matter, nor do copies of a run."""
    frame = runs.reindex(columns=list(dict.fromkeys([*COLUMNS, *runs.columns])))
    frame = frame[[is_night(label) for label in frame["night"]]]
    if frame.empty:
        return ()
    frame = _prepared(frame)
    nights: dict[Any, tuple[str, ...]] = {
        key: tuple(sorted(set(labels))) for key, labels in frame.groupby(["unit", "suite"])["night"]
    }
    of_unit: dict[Any, set[str]] = {unit: set(labels) for unit, labels in frame.groupby("unit")["night"]}
    later: dict[Any, int] = {
        (unit, suite): sum(each > own[-1] for each in of_unit[unit]) for (unit, suite), own in nights.items()
    }
    names: dict[Any, tuple[str, ...]] = {unit: tuple(borne[::-1].unique()) for unit, borne in frame.groupby("unit")["machine"]}
    shared = _conditions(frame, ["unit", "backend", "device"])
    levels = {metric: _levels(frame, metric) for metric in GATED}
    found = [
        _track(key, rows, nights[key[:2]], later[key[:2]], names[key[0]], shared, levels) for key, rows in frame.groupby(_KEYS)
    ]
    return tuple(sorted(found, key=lambda each: (each.machine, each.machine_id, each.suite, each.cell, each.cell_key, each.tier)))


def _prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs as `bench.analysis` prepares them, with the `unit` of hardware that a machine is, whatever its name.

    Within a night the runs that ended ok come last, so that the last one tells best in what environment the night was.
    """
    reasons = frame["reason"].where(frame["reason"].notna(), "")
    frame = prepare(frame.assign(night=frame["night"].astype(object), reason=reasons))
    frame["unit"] = frame["machine_id"].where(frame["machine_id"] != "", frame["machine"])
    frame["ok"] = frame["outcome"] == "ok"
    return frame.sort_values(["unit", "night", "ok", "started_at", "run_id"], kind="stable").reset_index(drop=True)


Levels = Mapping[tuple[Any, ...], Mapping[str, tuple[float, str]]]


def _levels(frame: pd.DataFrame, name: str) -> Levels:
    """By cell (`_KEYS`) and night: the level and its scope. A night of runs that differ in scope has none."""
    metric = METRICS[name]
    clean = frame[frame[metric.clean] & (frame[name] > 0)]
    if clean.empty:
        return {}
    keys = [clean[key] for key in (*_KEYS, "night")]
    scopes = clean[metric.scope] if metric.scope else pd.Series("", clean.index)
    values = clean[name] if metric.unit == "bytes" else pd.Series(np.log(clean[name]), clean.index)
    groups = values.groupby(keys)
    level = groups.median() if metric.unit == "bytes" else np.exp(groups.mean())
    told = pd.DataFrame({"level": level, "n": scopes.groupby(keys).nunique(), "scope": scopes.groupby(keys).first()})
    found: dict[tuple[Any, ...], dict[str, tuple[float, str]]] = {}
    for (*cell, night), value, scope in told.loc[told["n"] == 1, ["level", "scope"]].itertuples():
        found.setdefault(tuple(cell), {})[night] = (value, scope)
    return found


def _conditions(frame: pd.DataFrame, keys: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Mapping[str, Any]]]:
    """By `keys` and night: the conditions of the night's last run."""
    last = frame.drop_duplicates([*keys, "night"], keep="last")
    rows = last[list(CONDITIONS)].to_dict("records")
    found: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for *key, night, row in zip(*(last[name] for name in (*keys, "night")), rows, strict=True):
        found.setdefault(tuple(key), {})[night] = row
    return found


def _track(
    key: tuple[Any, ...],
    rows: pd.DataFrame,
    nights: tuple[str, ...],
    later: int,
    machines: tuple[str, ...],
    shared: Mapping[tuple[Any, ...], Mapping[str, Mapping[str, Any]]],
    levels: Mapping[str, Levels],
) -> Track:
    last, first = rows.loc[rows["night"] == rows["night"].max()].iloc[-1], rows["night"].min()
    nights = nights[nights.index(first) :]
    decided = rows[~rows["outcome"].isin(UNDECIDED)]
    failed, seen = decided[~decided["ok"]], _seen(decided, nights)
    epochs = rows.groupby("night")["epoch_digest"].nunique()
    own = _conditions(rows, ["unit"])[last["unit"],]
    return Track(
        machine=machines[0],
        machine_id=last["machine_id"],
        suite=last["suite"],
        tier=last["tier"],
        cell=last["cell"],
        cell_key=last["cell_key"],
        nights=nights,
        seen=seen,
        reasons=_reasons(failed, nights),
        runs=_counts(decided, nights),
        failed_runs=_counts(failed, nights),
        series=tuple(_series(name, rows, nights, seen, levels[name].get(key, {})) for name in GATED),
        conditions={**shared[last["unit"], last["backend"], last["device"]], **own},
        machines=machines,
        cells=tuple(sorted(set(rows["cell"]))),
        mixed=frozenset(epochs.index[epochs > 1]),
        later=later,
        flags=tuple(sorted(set(chain(*rows.loc[rows["ok"] & (rows["night"] == last["night"]), "flags"])))),
    )


def _seen(decided: pd.DataFrame, nights: Sequence[str]) -> tuple[Seen, ...]:
    """Of each night, whether the cell ran."""
    ran, tried = set(decided.loc[decided["ok"], "night"]), set(decided["night"])
    return tuple("measured" if night in ran else "failed" if night in tried else "not run" for night in nights)


def _reasons(failed: pd.DataFrame, nights: Sequence[str]) -> tuple[str, ...]:
    """Of each night, how its last failed run failed."""
    rows = failed[["night", "outcome", "reason"]].itertuples(index=False)
    told = {night: ": ".join(filter(None, each)) for night, *each in rows}
    return tuple(told.get(night, "") for night in nights)


def _counts(runs: pd.DataFrame, nights: Sequence[str]) -> tuple[int, ...]:
    """Of each night, how many runs there are."""
    counts = Counter(runs["night"])
    return tuple(counts[night] for night in nights)


def _series(
    name: str, rows: pd.DataFrame, nights: Sequence[str], seen: Sequence[Seen], levels: Mapping[str, tuple[float, str]]
) -> Series:
    spoilt = set(rows.loc[rows["ok"] & rows[name].notna() & ~rows[METRICS[name].clean], "night"])
    scope = levels[max(levels)][1] if levels else ""

    def of(wanted: str) -> Series:
        found: list[tuple[float | None, Why]] = []
        for night, state in zip(nights, seen, strict=True):
            level, covers = levels.get(night, (None, wanted))
            if level is not None and covers == wanted:
                found.append((float(level), ""))
            else:
                found.append((None, _why_not(state, night in spoilt, covers == wanted)))
        return Series(name, tuple(level for level, _ in found), tuple(why for _, why in found), wanted)

    others = [night for night, (_, covers) in levels.items() if covers != scope]
    return replace(of(scope), former=of(levels[max(others)][1]) if others else None)


def _why_not(state: Seen, spoilt: bool, same_scope: bool) -> Why:
    if state != "measured":
        return state
    if not same_scope:
        return "other scope"
    return "flagged" if spoilt else "no figure"
