"""Runs to summaries: means, intervals and ratios.

In: the table `runs` as a DataFrame (columns as in the design's "Storage"; maps may be dictionaries or lists of pairs). Out:
DataFrames. Nothing is read or written here, and no run is dropped in silence: flagged runs are counted, and left out of the
means and ratios that their flags spoil (`bench.trust.flags`), of no others; runs that did not end `ok` are counted by outcome;
of a run that is stored more than once one row counts, and `copies` names the others.

Rates, times and bytes spread by factors rather than by amounts, so intervals are those of logs: across runs (fresh processes),
never across the steps of one run (`bench.intervals`). A run whose rate stands apart from its repeats' is marked and kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, groupby
from typing import Any

import numpy as np
import pandas as pd

from bench.fairness import PARTY, Side, refusal
from bench.intervals import geometric_mean, interval, ratio_interval
from bench.metrics import CLEAN, METRICS
from bench.record import OUTCOMES
from bench.spec import WORKLOAD_FIELDS
from bench.trust.flags import spoils
from bench.trust.outliers import outlying

GROUP = (*PARTY, "cell", "workload_digest")
"""Who computes what: the runs of one group repeat one another."""
HELD = ", held to "
ENOUGH_TO_STAND_APART = 5
"""Of fewer repeats the median says too little for one of them to be called an outlier."""
_DISTINCT = {
    "tokens_digest": "tokens_digests",
    "trainable_parameters": "trainable_parameters",
    "environment_digest": "environments",
    "step_count": "step_counts",
    "warmup_steps": "warmups",
    "power_scope": "power_scopes",
    "device_peak_scope": "device_peak_scopes",
}
"""Columns of which a summary keeps every distinct value, and what it calls them; the first four should be one value each."""
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
    frame["work"] = [cell.replace(part, "", 1) for cell, part in zip(frame["cell"], where, strict=True)]
    for kind, column in CLEAN.items():
        unspoilt = pd.Series([not spoils(flags, kind) for flags in frame["flags"]], frame.index, dtype=bool)
        frame[column] = (frame["outcome"] == "ok") & unspoilt
    frame["step_count"] = frame["steps"] - frame["warmup_steps"]
    frame["stands_apart"] = _stands_apart(frame)
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
    `n_<outcome>` for every outcome, `n_flagged` (ok with any flag), `n_clean`, `n_clean_memory`, `n_clean_energy` (ok runs whose
    times, memory, energy no flag spoils). As sorted tuples: `run_ids`, `outlier_runs` (ids of clean runs whose rate stands
    apart), `flags` (of the ok runs), and of the runs that are clean in any respect the distinct `tokens_digests`,
    `trainable_parameters`, `environments`, `step_counts`, `warmups` (lengths), `power_scopes` and `device_peak_scopes`. Per
    metric its value over the runs that are clean for its kind (the geometric mean, as in `compare`; of bytes the median, since
    peaks hardly spread; NaN where they differ in scope), and `<metric>_low`, `<metric>_high`: the 95% interval of the geometric
    mean (NaN with fewer than two runs, or a value that is not above zero).
    """
    frame = prepare(runs)
    summaries = counted(frame)
    return summaries.join(_values(frame, summaries.index)).reset_index()


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The summaries of prepared runs, all but the metrics; the index is `GROUP`."""
    groups, ok = frame.groupby(list(GROUP)), frame["outcome"] == "ok"
    counted = {f"n_{outcome}": frame["outcome"] == outcome for outcome in OUTCOMES}
    counted |= {f"n_{column}": frame[column] for column in CLEAN.values()}
    counted["n_flagged"] = ok & frame["flags"].map(bool).astype(bool)
    keys = [frame[name] for name in GROUP]
    columns = {
        **{name: groups[name].first() for name in ("work", "model", "method")},
        **{name: groups[name].max() for name in ("parameters", "capacity_bytes", "memory_bytes")},
        "n_runs": groups.size(),
        **{name: these.groupby(keys).sum() for name, these in counted.items()},
        "run_ids": groups["run_id"].agg(_distinct),
        "outlier_runs": frame["run_id"].where(frame["stands_apart"], "").groupby(keys).agg(_distinct),
        "flags": frame["flags"].where(ok, "").groupby(keys).agg(_all_of),
    }
    summaries = pd.DataFrame(columns)
    return summaries.join(_distinct_values(frame[frame[list(CLEAN.values())].any(axis=1)], summaries.index))


def _values(frame: pd.DataFrame, index: pd.Index[Any]) -> pd.DataFrame:
    """Per group and metric, over the runs that are clean for it: geometric mean, of bytes the median, and the interval."""
    number = frame.groupby(list(GROUP)).ngroup()
    columns = {}
    for name, metric in METRICS.items():
        clean = frame[frame[metric.clean] & frame[name].notna()]
        if metric.scope:
            clean = clean[clean[metric.scope].groupby(number).transform("nunique") == 1]
        groups = clean[name].groupby(number)
        columns[name] = groups.median() if metric.unit == "bytes" else groups.agg(geometric_mean)
        bounds = {group: interval(values.tolist()) for group, values in groups}
        columns[f"{name}_low"] = pd.Series({group: low for group, (_, low, _) in bounds.items()}, dtype=float)
        columns[f"{name}_high"] = pd.Series({group: high for group, (_, _, high) in bounds.items()}, dtype=float)
    return pd.DataFrame(columns, index=range(len(index))).set_axis(index)


def _distinct_values(runs: pd.DataFrame, index: pd.Index[Any]) -> pd.DataFrame:
    """Per group of `index` the distinct values of the given runs, as sorted tuples."""
    found = runs.groupby(list(GROUP))[list(_DISTINCT)].agg(_distinct).reindex(index)
    columns = {name: [each if isinstance(each, tuple) else () for each in found[column]] for column, name in _DISTINCT.items()}
    return pd.DataFrame(columns, index=index)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(value for value in set(values) if value != "" and not pd.isna(value)))


def _all_of(lists: pd.Series[Any]) -> tuple[Any, ...]:
    return _distinct(chain(*lists))


def describe_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Per run (index `run_id`), over measured steps or decodes: `measured_steps`; `slowest_step`, the slowest over the median."""
    columns = steps.reindex(columns=["run_id", "phase", "duration_s"]).astype({"run_id": object, "duration_s": float})
    durations = columns[columns["phase"].isin(["measured", "decode"])].groupby("run_id")["duration_s"]
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
    rows = [_comparison(above, below, metric) for above, below in _pairs(sides(prepare(runs), metric))]
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


def sides(frame: pd.DataFrame, metric: str, summaries: pd.DataFrame | None = None) -> list[Side]:
    """The summaries of prepared runs as sides of comparisons, with the clean values and the last run's declared workload.

    `summaries` are what `counted` makes of the runs, for who asks for several metrics.
    """
    keys, scope = list(GROUP), METRICS[metric].scope
    clean = frame[frame[METRICS[metric].clean] & frame[metric].notna()]
    groups = clean.groupby(keys)
    values, ids = groups[metric].agg(tuple).to_dict(), groups["run_id"].agg(_distinct).to_dict()
    fields = [name for name in WORKLOAD_FIELDS if name != "model" and name in frame.columns]
    declared = frame.drop_duplicates(keys, keep="last").set_index(keys)[fields].astype(object)
    declared = declared.where(declared.notna(), None)
    of_cell = dict(zip(declared.index, declared.to_dict("records"), strict=True))
    summaries = counted(frame) if summaries is None else summaries
    agreed = _distinct_values(clean, summaries.index)
    sides = []
    for key, row, same in zip(summaries.index, summaries.to_dict("records"), agreed.to_dict("records"), strict=True):
        sides.append(
            Side(
                key={**dict(zip(GROUP, key, strict=True)), "work": row["work"], "method": row["method"]},
                parameters=row["parameters"],
                declared=of_cell[key],
                values=values.get(key, ()),
                outcomes=count_in_words({outcome: row[f"n_{outcome}"] for outcome in OUTCOMES}, row["n_flagged"]),
                tokens_digests=same["tokens_digests"],
                trainable_parameters=same["trainable_parameters"],
                step_counts=same["step_counts"],
                scopes=same[_DISTINCT[scope]] if scope else None,
                run_ids=ids.get(key, ()),
            )
        )
    return sides


def count_in_words(counts: Mapping[str, int], flagged: int = 0) -> str:
    """Outcomes counted, in the order of `OUTCOMES`: "2 ok (1 flagged), 1 oom_device"."""
    notes = {"ok": f" ({flagged} flagged)" if flagged else ""}
    return ", ".join(f"{counts[each]} {each}{notes.get(each, '')}" for each in OUTCOMES if counts.get(each))


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
    rows = zip(frame["tier"], frame["flags"], frame["capacity_bytes"], settings, strict=True)
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
