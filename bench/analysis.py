"""Runs to summaries: means, intervals and ratios.

In: the table `runs` as a DataFrame, as it is stored, or prepared already (`bench.prepared`). Out: DataFrames. Nothing is read or
written here, and no run is dropped in silence: flagged runs are counted, and left out of the means and ratios that their flags
spoil (`bench.trust.flags`), of no others; runs that did not end `ok` are counted by outcome.

Rates, times and bytes spread by factors rather than by amounts, so intervals are those of logs: across runs (fresh processes),
never across the steps of one run (`bench.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np
import pandas as pd

from bench.fairness import PARTY, Side, refusal
from bench.intervals import geometric_mean, interval, ratio_interval
from bench.metrics import CLEAN, METRICS
from bench.prepared import GROUP, HELD, as_text, copies, prepare
from bench.record import OUTCOMES
from bench.spec import WORKLOAD_FIELDS

__all__ = ["GROUP", "HELD", "as_text", "compare", "compared", "copies", "count_in_words", "counted", "describe_steps"]
__all__ += ["prepare", "sides", "summarise", "summarised"]

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
    return summarised(frame, counted(frame))


def summarised(frame: pd.DataFrame, counts: pd.DataFrame, bounded: Collection[str] = METRICS) -> pd.DataFrame:
    """`summarise` of prepared runs; `counts` are what `counted` makes of them. Metrics that are not `bounded` get no interval."""
    return counts.join(_values(frame, counts.index, bounded)).reset_index()


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """The summaries of prepared runs, all but the metrics; the index is `GROUP`."""
    number, ok = _numbers(frame), frame["outcome"] == "ok"
    counted = {f"n_{outcome}": frame["outcome"] == outcome for outcome in OUTCOMES}
    counted |= {f"n_{column}": frame[column] for column in CLEAN.values()}
    counted["n_flagged"] = ok & frame["flags"].map(bool).astype(bool)
    flags = frame.loc[ok, "flags"].explode()
    one = frame.assign(number=number).drop_duplicates("number").sort_values("number")
    index = pd.MultiIndex.from_frame(one[list(GROUP)])
    columns = {
        **{name: one[name].to_numpy() for name in ("work", "model", "method")},
        **{name: frame[name].groupby(number).max().to_numpy() for name in ("parameters", "capacity_bytes", "memory_bytes")},
        "n_runs": number.value_counts(sort=False).sort_index().to_numpy(),
        **{name: these.groupby(number).sum().to_numpy() for name, these in counted.items()},
        "run_ids": _distinct(frame["run_id"], number, len(index)),
        "outlier_runs": _distinct(frame.loc[frame["stands_apart"], "run_id"], number, len(index)),
        "flags": _distinct(flags, number, len(index)),
    }
    clean = frame[frame[list(CLEAN.values())].any(axis=1)]
    return pd.DataFrame(columns | _distinct_values(clean, number, len(index)), index)


def _numbers(frame: pd.DataFrame) -> pd.Series[int]:
    """For each run the number of its group, in the order of `GROUP`: much faster to group by than its eight texts."""
    return frame.groupby(list(GROUP)).ngroup()


def _values(frame: pd.DataFrame, index: pd.Index[Any], bounded: Collection[str]) -> pd.DataFrame:
    """Per group and metric, over the runs that are clean for it: geometric mean, of bytes the median, and intervals."""
    number = _numbers(frame)
    columns = {}
    for name, metric in METRICS.items():
        clean = frame[frame[metric.clean] & frame[name].notna()]
        if metric.scope:
            clean = clean[clean[metric.scope].groupby(number).transform("nunique") == 1]
        groups, middle = _lists(clean[name], number), np.median if metric.unit == "bytes" else geometric_mean
        columns[name] = pd.Series({group: middle(values) for group, values in groups.items()}, dtype=float)
        if name in bounded:
            bounds = {group: interval(values) for group, values in groups.items()}
            columns[f"{name}_low"] = pd.Series({group: low for group, (_, low, _) in bounds.items()}, dtype=float)
            columns[f"{name}_high"] = pd.Series({group: high for group, (_, _, high) in bounds.items()}, dtype=float)
    return pd.DataFrame(columns, index=range(len(index))).set_axis(index)


def _lists(values: pd.Series[Any], number: pd.Series[int]) -> dict[int, list[Any]]:
    """By the number of the group, the values in their order; groups without any are left out."""
    found: dict[int, list[Any]] = {}
    for group, value in zip(number[values.index].tolist(), values.tolist(), strict=True):
        found.setdefault(group, []).append(value)
    return found


def _distinct_values(runs: pd.DataFrame, number: pd.Series[int], groups: int) -> dict[str, list[tuple[Any, ...]]]:
    """What a summary keeps every distinct value of, by its name there."""
    return {name: _distinct(runs[column], number, groups) for column, name in _DISTINCT.items()}


def _distinct(values: pd.Series[Any], number: pd.Series[int], groups: int) -> list[tuple[Any, ...]]:
    """For each of so many groups its distinct values, sorted; what is empty or missing is none."""
    known = values[values.notna() & (values != "")]
    found = _lists(known, number)
    return [tuple(sorted(set(found.get(group, ())))) for group in range(groups)]


def describe_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Per run (index `run_id`), over measured steps or decodes: `measured_steps`; `slowest_step`, the slowest over the median."""
    columns = steps.reindex(columns=["run_id", "phase", "duration_s"]).astype({"run_id": str, "duration_s": float})
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
    frame = prepare(runs)
    return compared(frame, metric, counted(frame))


def compared(frame: pd.DataFrame, metric: str, counts: pd.DataFrame) -> pd.DataFrame:
    """`compare` of prepared runs; `counts` are what `counted` makes of them."""
    rows = [_comparison(above, below, metric) for above, below in _pairs(sides(frame, metric, counts))]
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
    fields = [name for name in WORKLOAD_FIELDS if name != "model" and name in frame.columns]
    declared = frame.drop_duplicates(keys, keep="last").set_index(keys)[fields].astype(object)
    declared = declared.where(declared.notna(), None)
    of_cell = dict(zip(declared.index, declared.to_dict("records"), strict=True))
    summaries = counted(frame) if summaries is None else summaries
    number = _numbers(frame)
    values, ids = _lists(clean[metric], number), _distinct(clean["run_id"], number, len(summaries))
    agreed = pd.DataFrame(_distinct_values(clean, number, len(summaries))).to_dict("records")
    sides = []
    for place, (key, row, same) in enumerate(zip(summaries.index, summaries.to_dict("records"), agreed, strict=True)):
        sides.append(
            Side(
                key={**dict(zip(GROUP, key, strict=True)), "work": row["work"], "method": row["method"]},
                parameters=row["parameters"],
                declared=of_cell[key],
                values=tuple(values.get(place, ())),
                outcomes=count_in_words({outcome: row[f"n_{outcome}"] for outcome in OUTCOMES}, row["n_flagged"]),
                tokens_digests=same["tokens_digests"],
                trainable_parameters=same["trainable_parameters"],
                step_counts=same["step_counts"],
                scopes=same[_DISTINCT[scope]] if scope else None,
                run_ids=ids[place],
            )
        )
    return sides


def count_in_words(counts: Mapping[str, int], flagged: int = 0) -> str:
    """Outcomes counted, in the order of `OUTCOMES`: "2 ok (1 flagged), 1 oom_device"."""
    notes = {"ok": f" ({flagged} flagged)" if flagged else ""}
    return ", ".join(f"{counts[each]} {each}{notes.get(each, '')}" for each in OUTCOMES if counts.get(each))
