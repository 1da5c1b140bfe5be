"""Runs as they are stored -> runs as they are counted: one row a run, every column there, and which figures of it are clean.

In: the table `runs` as a DataFrame (columns as in the design's "Storage"; maps may be dictionaries or lists of pairs). Out: the
same in a fixed order, with what is told of each run beside. Nothing is read or written here; of a run that is stored more than
once one row counts, and `copies` names the others. A run whose rate stands apart from its repeats' is marked and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bench.fairness import PARTY
from bench.metrics import CLEAN, METRICS
from bench.trust.flags import spoils
from bench.trust.outliers import outlying

GROUP = (*PARTY, "cell", "workload_digest")
"""Who computes what: the runs of one group repeat one another."""
HELD = ", held to "
ENOUGH_TO_STAND_APART = 5
"""Of fewer repeats the median says too little for one of them to be called an outlier."""
_TEXTS = (
    *("run_id", *GROUP, "cell_key", "machine_id", "model", "method", "outcome", "tokens_digest", "environment_digest"),
    *("power_scope", "device_peak_scope", "warmup_rule"),
)
_NUMBERS = (
    *("parameters", "trainable_parameters", "capacity_bytes", "memory_bytes", "warmup_steps", "steps", "outlier_steps"),
    *("loss_first", "loss_last", "swap_growth_bytes", "others_cpu_share", "peak_power_w", "idle_power_w", "energy_j"),
    *("energy_counter_j", "energy_integral_j", "energy_window_s", "wall_power_w", "wall_energy_j", *METRICS),
)


def prepare(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs in a fixed order (machine, time, id), every column used here present, maps as text and flags as tuples.

    Adds `work` (the cell's id without backend and device), `clean`, `clean_memory` and `clean_energy` (ended ok, and no flag
    spoils its times, its memory, its energy), `step_count` (the measured steps; NaN where warm-up was not recorded) and
    `stands_apart` (a clean rate that is an outlier among its repeats'). Each run id counts once: see `copies`. Two machines of
    one name get the start of their `machine_id` behind it. A run that ended before its model stood has recorded no
    implementation; where its cell is known with exactly one, it counts as that one. A run that was held to a limit on memory has
    the limit in its `tier`, so that it is neither averaged nor compared with runs under another or none. Numbers that are not
    finite, and times outside the years 1 to 9999, are taken as not measured. Preparing prepared runs changes nothing.
    """
    frame = _typed(runs)
    frame = frame[~_is_copy(frame)].copy()
    frame["machine"] = _machine_names(frame)
    frame["tier"] = _tiers(frame)
    frame["implementation"] = _known_implementations(frame)
    where = "/" + frame["backend"] + "@" + frame["device"]
    frame["work"] = [cell.replace(part, "", 1) for cell, part in zip(frame["cell"].tolist(), where.tolist(), strict=True)]
    for kind, column in CLEAN.items():
        spoiling = {flags for flags in set(frame["flags"]) if spoils(flags, kind)}
        unspoilt = pd.Series([flags not in spoiling for flags in frame["flags"]], frame.index, dtype=bool)
        frame[column] = (frame["outcome"] == "ok") & unspoilt
    frame["step_count"] = frame["steps"] - frame["warmup_steps"]
    frame["stands_apart"] = _stands_apart(frame)
    return _in_order(frame)


def copies(runs: pd.DataFrame) -> pd.DataFrame:
    """What `prepare` leaves out: further rows of a run id, as when a folder of results was copied beside itself.

    The first by machine, time and id counts, for want of anything that tells a copy from its original. Columns `machine`,
    `run_id`.
    """
    frame = _typed(runs[runs["run_id"].duplicated(keep=False)]) if "run_id" in runs else _typed(runs)
    return frame.loc[_is_copy(frame), ["machine", "run_id"]].reset_index(drop=True)


def _typed(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs in a fixed order, every column used here present and of one type."""
    columns = [*runs.columns, *(c for c in (*_TEXTS, *_NUMBERS, "flags", "started_at") if c not in runs.columns)]
    frame = runs.reindex(columns=columns).copy()
    frame["implementation"] = [as_text(value) for value in frame["implementation"]]
    frame["flags"] = [tuple(value) if _is_sequence(value) else () for value in frame["flags"]]
    for column in _TEXTS:
        frame[column] = frame[column].astype(object).where(frame[column].notna(), "").astype(str)
    for column in _NUMBERS:
        numbers = pd.to_numeric(frame[column], errors="coerce").astype(float)
        frame[column] = numbers.where(np.isfinite(numbers))
    moments = pd.to_datetime(frame["started_at"], utc=True, errors="coerce").astype("datetime64[us, UTC]")
    frame["started_at"] = moments.where(moments.dt.year.between(1, 9999))
    return _in_order(frame)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["machine", "started_at", "run_id"], kind="stable").reset_index(drop=True)


def _is_copy(frame: pd.DataFrame) -> pd.Series[bool]:
    return frame["run_id"].duplicated() & (frame["run_id"] != "")


def as_text(value: Any) -> str:
    """A stored map (dictionary or list of pairs) as `key=value; …` with sorted keys; text as it is; anything else empty."""
    if isinstance(value, str):
        return value
    pairs = value.items() if isinstance(value, Mapping) else value if _is_sequence(value) else ()
    return "; ".join(f"{key}={entry}" for key, entry in sorted(pairs))


def _stands_apart(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether a clean run's rate is an outlier among those of its repeats; fewer than `ENOUGH_TO_STAND_APART` say nothing."""
    rates = frame.loc[frame["clean"] & (frame["tokens_per_s"] > 0), "tokens_per_s"]
    apart: set[Any] = set()
    for _, repeats in rates.groupby([frame[name] for name in GROUP]):
        if len(repeats) >= ENOUGH_TO_STAND_APART:
            apart.update(repeats.index[outlying(repeats.tolist())])
    return pd.Series(frame.index.isin(apart), frame.index)


def _machine_names(frame: pd.DataFrame) -> pd.Series[str]:
    alike = frame.groupby("machine")["machine_id"].transform("nunique") > 1
    return frame["machine"].where(~alike, frame["machine"] + " [" + frame["machine_id"].str[:6] + "]")


def _tiers(frame: pd.DataFrame) -> list[str]:
    """The tier of each run, and of a limited one what it was held to, to the byte, and for which machine it stood in."""
    settings = frame["device_settings"] if "device_settings" in frame else [None] * len(frame)
    rows = zip(frame["tier"].tolist(), frame["flags"], frame["capacity_bytes"], settings, strict=True)
    return [_held(tier, size, told) if "limited" in flags else tier for tier, flags, size, told in rows]


def _held(tier: str, size: float, settings: Any) -> str:
    like = dict(settings).get("memory_like") if _is_sequence(settings) else None
    return f"{tier.partition(HELD)[0]}{HELD}{size / 1e9:.12g} GB" + (f" as {like}" if like else "")


def _known_implementations(frame: pd.DataFrame) -> pd.Series[str]:
    keys = [frame[name] for name in ("tier", "machine", "cell", "workload_digest", "cell_key")]
    known = frame["implementation"].where(frame["implementation"] != "")
    groups = known.groupby(keys)
    only = groups.transform("first").where(groups.transform("nunique") == 1)
    return known.fillna(only).fillna("")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)
