"""Runs to summaries: means, intervals and ratios.

In: the table `runs` as a DataFrame (columns as in the design's "Storage"; maps may be dictionaries or lists of pairs). Out:
DataFrames. Nothing is read or written here, and no run is dropped in silence: flagged runs (throttled, disturbed) are
counted and left out of means and ratios; runs that did not end `ok` are counted by outcome; of a run that is stored more
than once one row counts, and `copies` names the others.

Rates, times and bytes spread by factors rather than by amounts, so intervals are t-intervals of log values: across runs
(fresh processes), never across the steps of one run (`bench.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pandas as pd

from bench.fairness import PARTY, Side, refusal
from bench.intervals import geometric_mean, ratio_interval, t_quantile
from bench.record import OUTCOMES
from bench.spec import WORKLOAD_FIELDS


@dataclass(frozen=True, slots=True)
class Metric:
    """A column of `runs` that can be summarised: how it is called, in which unit, and which direction is the better one."""

    label: str
    unit: str
    higher_is_better: bool


METRICS: Mapping[str, Metric] = {
    "tokens_per_s": Metric("training rate, all tokens", "tokens/s", True),
    "loss_tokens_per_s": Metric("training rate, loss tokens", "tokens/s", True),
    "prefill_tokens_per_s": Metric("prefill rate", "tokens/s", True),
    "step_s_median": Metric("median step", "s", False),
    "load_s": Metric("time to build the model", "s", False),
    "first_step_s": Metric("first step", "s", False),
    "framework_peak_bytes": Metric("peak by the framework's counter", "bytes", False),
    "reserved_peak_bytes": Metric("peak reserved by the framework", "bytes", False),
    "cache_peak_bytes": Metric("peak of the framework's cache", "bytes", False),
    "device_peak_bytes": Metric("peak on the device by its driver", "bytes", False),
    "host_peak_bytes": Metric("peak resident memory of the process", "bytes", False),
    "j_per_token": Metric("energy per token", "J", False),
}

GROUP = (*PARTY, "cell", "workload_digest")
"""Who computes what: the runs of one group repeat one another."""
_AGREED = {
    "tokens_digest": "tokens_digests",
    "trainable_parameters": "trainable_parameters",
    "environment_digest": "environments",
    "step_count": "step_counts",
}
"""What repeated runs should agree on, and the column of the summaries that holds the distinct values of the clean ones."""
_TEXTS = ("run_id", *GROUP, "cell_key", "machine_id", "model", "method", "outcome", "tokens_digest", "environment_digest")
_NUMBERS = (
    *("parameters", "trainable_parameters", "capacity_bytes", "memory_bytes", "warmup_steps", "steps"),
    *("loss_first", "loss_last", *METRICS),
)


def prepare(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs in a fixed order (machine, time, id), every column used here present, maps as text and flags as tuples.

    Adds `work` (the cell's id without backend and device), `clean` (ended ok, unflagged) and `step_count` (steps of warm-up and
    measured ones, "3 + 10"; "" where they were not recorded). Each run id counts once: see `copies`. Two machines of one name
    get the start of their `machine_id` behind it. A run that ended before its model stood has recorded no implementation;
    where its cell is known with exactly one, it counts as that one. Numbers that are not finite, and times outside the years 1
    to 9999, are taken as not measured. Preparing prepared runs changes nothing.
    """
    frame = _typed(runs)
    frame = frame[~_is_copy(frame)].copy()
    frame["machine"] = _machine_names(frame)
    frame["implementation"] = _known_implementations(frame)
    where = "/" + frame["backend"] + "@" + frame["device"]
    frame["work"] = [cell.replace(part, "", 1) for cell, part in zip(frame["cell"], where, strict=True)]
    frame["clean"] = (frame["outcome"] == "ok") & ~frame["flags"].map(bool).astype(bool)
    measured = frame["steps"] - frame["warmup_steps"]
    frame["step_count"] = [
        "" if math.isnan(rest) else f"{warmup:.0f} + {rest:.0f}"
        for warmup, rest in zip(frame["warmup_steps"], measured, strict=True)
    ]
    return _in_order(frame)


def copies(runs: pd.DataFrame) -> pd.DataFrame:
    """What `prepare` leaves out: further rows of a run id, as when a folder of results was copied beside itself.

    The first by machine, time and id counts, for want of anything that tells a copy from its original. Columns `machine`,
    `run_id`.
    """
    frame = _typed(runs)
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


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per group of runs that repeat one another (`GROUP`), in the order of `GROUP`.

    Columns beside `GROUP`: `work`, `model`, `method`, `parameters`, `capacity_bytes`, `memory_bytes`; `n_runs`,
    `n_<outcome>` for every outcome, `n_flagged` (ok but flagged), `n_clean`; `run_ids`, and of the clean runs
    `tokens_digests`, `trainable_parameters`, `environments` and `step_counts`, each a sorted tuple of distinct values; per
    metric its value over clean runs (the geometric mean, as in `compare`; of bytes the median, since peaks hardly spread), and
    `<metric>_low`, `<metric>_high`: the 95% t-interval of the geometric mean (NaN with fewer than two runs, or a value that is
    not above zero).
    """
    frame = prepare(runs)
    groups, clean = frame.groupby(list(GROUP)), frame[frame["clean"]]
    columns = {
        **{name: groups[name].first() for name in ("work", "model", "method")},
        **{name: groups[name].max() for name in ("parameters", "capacity_bytes", "memory_bytes")},
        "n_runs": groups.size(),
        **{f"n_{outcome}": (frame["outcome"] == outcome).groupby([frame[name] for name in GROUP]).sum() for outcome in OUTCOMES},
        "n_clean": groups["clean"].sum(),
        "run_ids": groups["run_id"].agg(_distinct),
    }
    summaries = pd.DataFrame(columns)
    summaries["n_flagged"] = summaries["n_ok"] - summaries["n_clean"]
    agreed = clean.groupby(list(GROUP))[list(_AGREED)].agg(_distinct)
    for column, name in _AGREED.items():
        found = agreed[column].reindex(summaries.index)
        summaries[name] = [value if isinstance(value, tuple) else () for value in found]
    return summaries.join(_values(clean)).reset_index()


def _values(clean: pd.DataFrame) -> pd.DataFrame:
    """Per group and metric: geometric mean, of bytes the median, and the t-interval of the geometric mean."""
    names, keys = list(METRICS), list(GROUP)
    logs = clean[names].where(clean[names] > 0).apply(np.log).groupby([clean[key] for key in keys])
    numbers = clean.groupby(keys)[names]
    n = numbers.count()
    usable = (n >= 2) & (logs.count() == n)
    margin = n.map(t_quantile) * logs.std() / n.pow(0.5)
    low, high = ((logs.mean() + sign * margin).where(usable).apply(np.exp) for sign in (-1, 1))
    ordered = [column for name in names for column in (name, f"{name}_low", f"{name}_high")]
    spread = {name: "median" if METRICS[name].unit == "bytes" else geometric_mean for name in names}
    return numbers.agg(spread).join(low.add_suffix("_low")).join(high.add_suffix("_high"))[ordered]


def _distinct(values: pd.Series[Any]) -> tuple[Any, ...]:
    return tuple(sorted({value for value in values if value != "" and not pd.isna(value)}))


def describe_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Per run (index `run_id`) over its measured steps: `measured_steps`, and `slowest_step`, the slowest over the median."""
    columns = steps.reindex(columns=["run_id", "phase", "duration_s"]).astype({"run_id": object, "duration_s": float})
    durations = columns[columns["phase"] == "measured"].groupby("run_id")["duration_s"]
    return pd.DataFrame({"measured_steps": durations.count(), "slowest_step": durations.max() / durations.median()})


def compare(runs: pd.DataFrame, metric: str = "tokens_per_s") -> pd.DataFrame:
    """Every pair of parties that did, or were meant to do, the same work: a ratio, or why there is none.

    Parties are compared on one machine and across machines wherever their workload digests are equal. Those whose cells bear
    the same name but share no digest appear refused. Pairs without a clean run on either side are left to the holes.
    Columns: `work`, `workload_digest`, `method`, `parameters`, `metric`; `above_<name>` and `below_<name>` for each name of
    `PARTY`; `n_above`, `n_below`; `ratio`, `low`, `high` (NaN: none); `refused` (the reason in words, "" with a ratio).
    Raises KeyError for an unknown metric.
    """
    METRICS[metric]
    rows = [_comparison(above, below, metric) for above, below in _pairs(_sides(prepare(runs), metric))]
    parties = [f"{side}_{name}" for side in ("above", "below") for name in PARTY]
    head = ["work", "workload_digest", "method", "parameters", "metric"]
    frame = pd.DataFrame(rows, columns=[*head, *parties, "n_above", "n_below", "ratio", "low", "high", "refused"])
    return frame.sort_values(["work", "workload_digest", *parties], kind="stable").reset_index(drop=True)


def _comparison(above: Side, below: Side, metric: str) -> dict[str, Any]:
    refused = refusal(above, below)
    found = None if refused else ratio_interval(above.values, below.values)
    if found is None and not refused:
        refused = f"{metric} is not above zero in every run"
    ratio, low, high = found or (math.nan,) * 3
    return {
        **{f"above_{name}": above.key[name] for name in PARTY},
        **{f"below_{name}": below.key[name] for name in PARTY},
        **{name: above.key[name] for name in ("work", "workload_digest", "method")},
        **{"parameters": above.parameters, "metric": metric, "n_above": len(above.values), "n_below": len(below.values)},
        **{"ratio": ratio, "low": low, "high": high, "refused": refused or ""},
    }


def _pairs(sides: Sequence[Side]) -> list[tuple[Side, Side]]:
    """(above, below) with the alphabetically later party above, so that the same results always give the same ratios."""
    equal = [(a, b) for a, b in _couples(sides, lambda side: side.digest) if a.values or b.values]
    matched = {(a.work, a.party, b.party) for a, b in equal}
    namesakes = [(a, b) for a, b in _couples(sides, lambda side: side.work) if a.digest != b.digest and a.values and b.values]
    return equal + [(a, b) for a, b in namesakes if (a.work, a.party, b.party) not in matched]


def _couples(sides: Sequence[Side], key: Callable[[Side], str]) -> Iterator[tuple[Side, Side]]:
    """Every two sides of different parties that share `key`."""
    ordered = sorted(sides, key=lambda side: (key(side), side.party, side.work, side.digest))
    for _, group in groupby(ordered, key):
        yield from ((above, below) for below, above in combinations(group, 2) if above.party != below.party)


def _sides(frame: pd.DataFrame, metric: str) -> list[Side]:
    """The summaries of prepared runs as sides of comparisons, with the clean values and the last run's declared workload."""
    keys = list(GROUP)
    values = frame[frame["clean"]].dropna(subset=[metric]).groupby(keys)[metric].agg(tuple)
    fields = [name for name in WORKLOAD_FIELDS if name != "model" and name in frame.columns]
    declared = frame.drop_duplicates(keys, keep="last").set_index(keys)[fields].astype(object)
    declared = declared.where(declared.notna(), None)
    sides = []
    for row in summarise(frame).to_dict("records"):
        key = tuple(row[name] for name in GROUP)
        sides.append(
            Side(
                key={name: row[name] for name in (*GROUP, "work", "method")},
                parameters=row["parameters"],
                declared=dict(declared.loc[key]),
                values=values.get(key, ()),
                outcomes=count_in_words({outcome: row[f"n_{outcome}"] for outcome in OUTCOMES}, row["n_flagged"]),
                tokens_digests=row["tokens_digests"],
                trainable_parameters=row["trainable_parameters"],
                step_counts=row["step_counts"],
            )
        )
    return sides


def count_in_words(counts: Mapping[str, int], flagged: int = 0) -> str:
    """Outcomes counted, in the order of `OUTCOMES`: "2 ok (1 flagged), 1 oom_device"."""
    notes = {"ok": f" ({flagged} flagged)" if flagged else ""}
    return ", ".join(f"{counts[each]} {each}{notes.get(each, '')}" for each in OUTCOMES if counts.get(each))


def _machine_names(frame: pd.DataFrame) -> pd.Series[str]:
    alike = frame.groupby("machine")["machine_id"].transform("nunique") > 1
    return frame["machine"].where(~alike, frame["machine"] + " [" + frame["machine_id"].str[:6] + "]")


def _known_implementations(frame: pd.DataFrame) -> pd.Series[str]:
    keys = [frame[name] for name in ("tier", "machine", "cell", "workload_digest", "cell_key")]
    known = frame["implementation"].where(frame["implementation"] != "")
    groups = known.groupby(keys)
    only = groups.transform("first").where(groups.transform("nunique") == 1)
    return known.fillna(only).fillna("")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)
