"""What is known of each cell of a suite on a machine: outcomes, rates, durations.

In: a results folder, and whose runs are asked for. Out: `Tallies`, which resuming, stopping and estimating need.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import store
from bench.limits import Limit
from bench.record import Outcome
from bench.trust.flags import doubtful, spoils

_TIMES = ["import_s", "load_s", "first_step_s", "steps", "step_s_median"]


@dataclass(frozen=True, slots=True)
class Tallies:
    """Per `cell_key`, how many runs had which outcome, and in the order of time the rates (tokens per second) of those
    whose time no flag spoils; `flagged` counts the ok runs with any flag that nobody asked for. `durations` are the seconds that
    each ok run took, flagged or not.

    `damaged` are the files, of whatever cell, that could not be read.
    """

    by_cell: dict[str, Counter[Outcome]]
    damaged: tuple[store.Damaged, ...]
    rates: dict[str, list[float]]
    flagged: Counter[str]
    durations: dict[str, list[float]]


def tallies(
    results: Path,
    machine_id: str,
    suite: str,
    limit: Limit | None = None,
    watchdog: str | None = None,
    night: str | None = None,
) -> Tallies:
    """The outcomes and rates of the runs of this suite on this machine: what resuming and stopping need.

    Runs under a limit on memory answer another question than runs without, or under another: only those of `limit` count; and
    of those that the watch on memory ended, only those that the same watch did (`watchdog`, as in the column `memory_limit`).
    Each night asks anew, so the runs of that night alone count; and without a night, those of no night: what ran in some night
    long ago does not answer what is asked now. How long a run takes is learnt from all of them.

    Changes nothing in the folder: a damaged file counts for nothing, is named, and stays for the next `read` to set aside.
    Raises OSError naming a folder that cannot be listed.
    """
    found: dict[str, Counter[Outcome]] = {}
    rates: dict[str, list[float]] = {}
    flagged: Counter[str] = Counter()
    durations: dict[str, list[float]] = {}
    columns = ["started_at", "machine_id", "suite", "cell_key", "outcome", "tokens_per_s", "flags", "tier", "capacity_bytes"]
    columns += ["memory_limit", "device_settings", "night"]
    columns += _TIMES
    table = store.read(results, "runs", columns, quarantine=False)
    for row in store.by_time(table.rows):
        if not (row["machine_id"] == machine_id and row["suite"] == suite and under(row, limit) and watched(row, watchdog)):
            continue
        key, ok, flags = row["cell_key"], row["outcome"] == "ok", row["flags"] or ()
        if ok and (took_s := _duration_s(row)) is not None:
            durations.setdefault(key, []).append(took_s)
        if row["night"] == night:
            found.setdefault(key, Counter())[row["outcome"]] += 1
            flagged[key] += ok and doubtful(flags)
            if ok and row["tokens_per_s"] and not spoils(flags, "time"):
                rates.setdefault(key, []).append(row["tokens_per_s"])
    return Tallies(found, table.damaged, rates, +flagged, durations)


def _duration_s(row: Mapping[str, Any]) -> float | None:
    """From the start of a run's imports to the end of its last step, the steps after the first by their median.

    None where the steps were not timed, or what is stored is a time that no run takes.
    """
    if not (row["steps"] and row["step_s_median"]):
        return None
    steps_s = (row["first_step_s"] or row["step_s_median"]) + (row["steps"] - 1) * row["step_s_median"]
    took_s = float((row["import_s"] or 0.0) + (row["load_s"] or 0.0) + steps_s)
    return took_s if 0 < took_s < math.inf else None


def under(row: Mapping[str, Any], limit: Limit | None) -> bool:
    """Whether a row was made under that very limit, or under none."""
    limited = "limited" in (row["flags"] or ())
    if limit is None or not limited:
        return limited is (limit is not None)
    like = dict(row["device_settings"] or ()).get("memory_like")
    return (row["tier"], row["capacity_bytes"], like) == (limit.tier, limit.capacity_bytes, limit.like)


def watched(row: Mapping[str, Any], watchdog: str | None) -> bool:
    """Whether a row was not ended by another watch on memory than this one."""
    means = row["memory_limit"] or ""
    return not means.startswith("watchdog") or means == watchdog
