"""The frames that all sections of a report speak of, made once.

In: the tables `runs` and `steps` as DataFrames, the machines of the catalogue, damaged files. Out: prepared runs with
harmless text, summaries, comparisons, and names for parties, workloads and implementations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bench import analysis
from bench.catalog import MachineProfile
from bench.nights import latest
from bench.report import wording
from bench.report.labels import in_order, party_names, work_names
from bench.report.language import say, to_say

LESSON_MACHINES = ("mac-studio-m3-ultra", "pc-rtx-4090")
"""Their capacities are drawn in every report."""
UNRECORDED = to_say("not recorded")
FOLD = 2
"""Repeated runs that differ more than this have measured something else besides the cell."""
BOUNDED = ("tokens_per_s", "prefill_tokens_per_s", "time_to_first_token_s", "j_per_token")
"""Of the figures in summaries, those that are shown with their intervals."""
_SHOWN = (
    *("question", "suite", "reason", "source_revision", "schema_version", "versions", "loss_first", "loss_last"),
    *("chip", "accelerator", "os_version", "device_settings", "not_measured"),
)
"""Columns of `runs` that are shown as they are; older files may lack some."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything a report may say.

    `runs` are prepared (`bench.analysis.prepare`) with each run's step statistics; `summaries` and `comparisons` have in
    addition `party` (or `above`, `below`) and `row`, the names of parties and workloads, and the names of implementations:
    `implementation_name`, or `implementations` for both sides. `implementations` maps (backend, implementation) to its name.
    `place` of a summary is its party, shortened to the backend where all is on one machine.
    `copies` are (machine, run id) of rows left out because their run id is counted already, `earlier_nights` the number
    of those left out because a later night of their cell counts (`bench.nights`). `parts` are the measured parts of memory:
    `run_id`, `scope` (the part), `value` (bytes). `kept` is what one section found and another asks for again, by name.
    """

    runs: pd.DataFrame
    summaries: pd.DataFrame
    comparisons: pd.DataFrame
    implementations: Mapping[tuple[str, str], str]
    profiles: tuple[MachineProfile, ...]
    damaged: tuple[tuple[str, str], ...]
    copies: tuple[tuple[str, str], ...]
    earlier_nights: int
    parts: pd.DataFrame = field(default_factory=pd.DataFrame)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def drawn_profiles(self) -> list[MachineProfile]:
        """The lesson's machines, and any other that has runs here and stands in the catalogue."""
        wanted = {*LESSON_MACHINES, *self.runs["machine"]}
        return [profile for profile in self.profiles if profile.name in wanted]

    @property
    def capacities(self) -> dict[str, int]:
        """Whole memory in bytes of the machines that are drawn."""
        return {profile.name: profile.memory_bytes for profile in self.drawn_profiles}

    @property
    def main_memories(self) -> dict[str, int]:
        """Main memory in bytes, as recorded, of machines with runs that do not stand in the catalogue."""
        known = {profile.name for profile in self.profiles}
        found = self.runs.groupby("machine")["memory_bytes"].max().dropna()
        return {str(machine): int(size) for machine, size in found.items() if machine not in known}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before reading a rate: that clean runs of one cell differ too much; empty where they agree."""
        runs = self.runs[self.runs["clean"] & (self.runs["tier"] == "measured") & (self.runs["tokens_per_s"] > 0)]
        rates = runs.groupby(list(analysis.GROUP))["tokens_per_s"]
        folds = rates.max() / rates.min()
        wide = int((folds > FOLD).sum())
        if not wide:
            return ()
        text = to_say(
            "Runs of one cell differ up to {most}-fold ({wide} of {cells} cells more than {fold}-fold): something else used the"
            " machine, or it changed its pace between runs. Do not read these rates."
        )
        return (say(text, most=wording.number(folds.max(), 2), wide=wide, cells=len(folds), fold=FOLD),)


def gather(
    runs: pd.DataFrame,
    steps: pd.DataFrame,
    profiles: Sequence[MachineProfile] = (),
    damaged: Iterable[tuple[str, str]] = (),
    readings: pd.DataFrame | None = None,
) -> Findings:
    """The evidence in raw tables; `damaged` are (path, reason), `readings` those that the parts of memory are among."""
    lately = latest(runs)
    harmless = _harmless(lately.reindex(columns=[*lately.columns, *(c for c in _SHOWN if c not in lately)]))
    earlier_nights = len(runs) - len(lately)
    prepared, left_out = _as_objects(analysis.prepare(harmless)), analysis.copies(harmless)
    copies = tuple(zip(left_out["machine"], left_out["run_id"], strict=True))
    names = _implementation_names(prepared)
    prepared["implementation_name"] = _named(prepared, names)
    counts = analysis.counted(prepared)
    summaries = analysis.summarised(prepared, counts, BOUNDED)
    summaries = in_order(summaries.assign(party=party_names(summaries), row=work_names(summaries)))
    places = summaries["party"] if summaries["machine"].nunique() > 1 else summaries["backend"] + "@" + summaries["device"]
    summaries["place"] = [place + wording.held(tier) for place, tier in zip(places, summaries["tier"], strict=True)]
    summaries["implementation_name"] = _named(summaries, names)
    comparisons = analysis.compared(prepared, "tokens_per_s", counts)
    sides = {side: party_names(comparisons, f"{side}_") for side in ("above", "below")}
    comparisons = comparisons.assign(**sides, row=work_names(comparisons))
    comparisons["implementations"] = _named(comparisons, names, "above_") + " ÷ " + _named(comparisons, names, "below_")
    prepared = prepared.join(analysis.describe_steps(steps), on="run_id")
    prepared["reason"] = [reason if isinstance(reason, str) else "" for reason in prepared["reason"]]
    named = tuple(sorted((wording.plain(path), wording.plain(reason)) for path, reason in damaged))
    made = in_order(comparisons)
    return Findings(prepared, summaries, made, names, tuple(profiles), named, copies, earlier_nights, _parts(readings))


def _parts(readings: pd.DataFrame | None) -> pd.DataFrame:
    if readings is None:
        return pd.DataFrame()
    found = readings[readings["meter"] == "parts"]
    return found.assign(scope=[wording.plain(scope) for scope in found["scope"]])


def _harmless(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with every text on one line and without invisible characters, in columns as in maps and lists."""
    texts = [name for name in runs.columns if runs[name].dtype == object or pd.api.types.is_string_dtype(runs[name])]
    return runs.assign(**{name: _cleaned(runs[name]) for name in texts})


def _as_objects(runs: pd.DataFrame) -> pd.DataFrame:
    """Texts as plain Python ones: Arrow's take twenty times as long to walk through, which nearly every section does."""
    texts = {name: object for name in runs.columns if isinstance(runs[name].dtype, pd.StringDtype)}
    return runs.astype(texts).copy()  # which puts the columns into few blocks again


def _cleaned(column: pd.Series[Any]) -> pd.Series[Any]:
    if not isinstance(column.dtype, pd.StringDtype):
        return pd.Series(list(map(_clean, column)), column.index, object)
    codes, distinct = pd.factorize(column)  # thousands of runs bear the same few texts; a missing one has the code -1
    clean = np.array([*map(_clean, distinct), math.nan], object)
    return pd.Series(clean[codes], column.index, object)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return wording.plain(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(entry) for key, entry in value.items()}
    if hasattr(value, "__iter__"):
        return tuple(map(_clean, value))
    return value


def _implementation_names(prepared: pd.DataFrame) -> dict[tuple[str, str], str]:
    """`hf-1`, `hf-2`, `mlx-1` …: numbered within each backend, in alphabetical order."""
    names: dict[tuple[str, str], str] = {}
    for backend, group in prepared.groupby("backend", sort=True):
        texts = sorted(set(group["implementation"]) - {""})
        names |= {(str(backend), text): f"{backend}-{number}" for number, text in enumerate(texts, 1)}
    return names


def _named(frame: pd.DataFrame, names: Mapping[tuple[str, str], str], prefix: str = "") -> pd.Series[str]:
    keys = zip(frame[f"{prefix}backend"], frame[f"{prefix}implementation"], strict=True)
    return pd.Series([names.get(key, say(UNRECORDED)) for key in keys], frame.index, dtype=object)


def pairs(stored: Any) -> list[tuple[str, str]]:
    """The entries of a stored map, which may be a dictionary or pairs; none where it was not recorded."""
    entries = stored.items() if isinstance(stored, Mapping) else stored if isinstance(stored, tuple) else ()
    return [(str(key), str(value)) for key, value in entries]
