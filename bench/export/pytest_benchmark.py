"""The measured steps as files that `pytest-benchmark compare` reads.

In: a results folder. Out: in the layout of pytest-benchmark's own storage one file per machine and night, or per day of runs
that are no night's: `<machine>/NNNN_<date>.json`, numbered by date. A benchmark is a cell, a round a measured step (of serving, a
batch of requests) of any of its runs that no flag spoils; warm-up is left out.

Statistics are pytest-benchmark's own. Its `params`, of which its files grow large, hold nothing; what was asked is the name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from bench import store
from bench.analysis import prepare
from bench.files import atomic
from bench.spec import BadInput
from bench.store import Damaged
from bench.trust.flags import spoils

RUNS = (
    *("run_id", "started_at", "night", "machine", "machine_id", "suite", "cell", "cell_key", "backend", "device", "tier"),
    *("outcome", "flags", "capacity_bytes", "device_settings", "implementation", "versions", "environment_digest"),
    *("source_revision", "chip", "accelerator", "memory_bytes", "os_version"),
)
STEPS = ("run_id", "step", "phase", "duration_s")
MACHINE = {
    **{"node": "machine", "machine_id": "machine_id", "processor": "chip", "accelerator": "accelerator"},
    **{"memory_bytes": "memory_bytes", "system": "os_version"},
}
"""What is told of the machine, by the column that it comes from."""
OURS = re.compile(r"\d{4,}_\d{4}-\d\d-\d\d\.json")
"""Files that an earlier export wrote, and that this one replaces."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The files written, the sessions that have none, with the reason, and the files of the results that could not be read."""

    paths: tuple[Path, ...]
    left_out: tuple[str, ...]
    damaged: tuple[Damaged, ...]


def write(results: Path, storage: Path) -> Exported:
    """Write every session's file. Raises BadInput without pytest-benchmark, OSError for what cannot be read or written."""
    own_version = _installed()
    runs = store.read(results, "runs", RUNS, quarantine=False)
    steps = store.read(results, "steps", STEPS, quarantine=False)
    frame, durations = _sessions(runs.rows.to_pandas()), _durations(steps.rows.to_pandas())
    written = [_publish(storage / name, content) for name, content in _files(frame, durations, own_version)]
    for folder in {path.parent for path in written}:
        for stale in [path for path in folder.iterdir() if OURS.fullmatch(path.name) and path not in written]:
            atomic.remove(stale)
    return Exported(tuple(written), tuple(_left_out(frame, durations)), (*runs.damaged, *steps.damaged))


def _installed() -> str:
    try:
        return version("pytest-benchmark")
    except PackageNotFoundError:
        raise BadInput("pytest-benchmark, whose statistics are exported, is missing: pip install pytest-benchmark") from None


def _publish(path: Path, content: Mapping[str, Any]) -> Path:
    with atomic.staged(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()) as temporary:
        atomic.republish(temporary, path)
    return path


def _sessions(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs, prepared, each with its session: its night, or the day of a run that is no night's."""
    frame = prepare(runs)
    return frame.assign(session=frame["night"].where(frame["night"].notna(), frame["started_at"].dt.strftime("%Y-%m-%d")))


def _left_out(frame: pd.DataFrame, durations: Mapping[str, list[float]]) -> Iterator[str]:
    """A line for each session of which no run counts: how many of its runs failed, are flagged, or have no measured step."""
    for (machine, session), runs in frame.groupby(["machine", "session"]):
        failed, flagged = runs[runs["outcome"] != "ok"], runs[(runs["outcome"] == "ok") & ~runs["clean"]]
        bare = runs[runs["clean"] & ~runs["run_id"].isin(durations.keys())]
        if len(failed) + len(flagged) + len(bare) == len(runs):
            why = (
                _why("failed", len(failed), failed["outcome"]),
                _why("flagged", len(flagged), (flag for flags in flagged["flags"] for flag in flags if spoils((flag,), "time"))),
                _why("without a measured step", len(bare), ()),
            )
            yield f"{session} of {machine} is left out: {'; '.join(each for each in why if each)}"


def _why(what: str, count: int, told: Iterable[Any]) -> str:
    names = ", ".join(sorted({str(each) for each in told}))
    return "" if not count else f"{count:,} run{'s' * (count != 1)} {what}{f' ({names})' if names else ''}"


def _files(frame: pd.DataFrame, durations: Mapping[str, list[float]], own_version: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of each file: the sessions of a machine in the order of their dates."""
    frame = frame[frame["clean"]]
    for machine, sessions in frame.groupby("machine"):
        for number, (session, rows) in enumerate(sessions.groupby("session"), 1):
            content = _content(str(session), rows, durations, own_version)
            if content["benchmarks"]:
                yield f"{quote(str(machine), safe=' []')}/{number:04}_{session}.json", content


def _durations(steps: pd.DataFrame) -> Mapping[str, list[float]]:
    """By run the seconds of its measured steps in their order; the parts of a batch of requests are one."""
    measured = steps[(steps["phase"] != "warmup") & steps["duration_s"].notna()]
    whole = measured.groupby(["run_id", "step"])["duration_s"].sum()
    return {str(run): each.tolist() for run, each in whole.groupby("run_id")}


def _content(session: str, rows: pd.DataFrame, durations: Mapping[str, list[float]], own_version: str) -> dict[str, Any]:
    last = rows.iloc[-1]
    return {
        "machine_info": {name: str(last[column]) for name, column in MACHINE.items() if not pd.isna(last[column])},
        "commit_info": {"id": last["source_revision"] or "", "time": last["started_at"].isoformat(), "project": "wingspan"},
        "benchmarks": list(_benchmarks(rows, durations)),
        "datetime": f"{session}T00:00:00+00:00",
        "version": own_version,
    }


def _benchmarks(rows: pd.DataFrame, durations: Mapping[str, list[float]]) -> Iterator[dict[str, Any]]:
    """One per cell; those that share an id, and differ in what else was asked for or in their tier, have it in the full name."""
    for (cell, tier, key), runs in rows.groupby(["cell", "tier", "cell_key"]):
        data = [each for run in runs["run_id"] for each in durations.get(run, [])]
        if data:
            told = {"suite": runs.iloc[-1]["suite"], "tier": tier, "implementation": runs.iloc[-1]["implementation"]}
            yield {
                "group": None,
                "name": cell,
                "fullname": f"{cell}#{key}" if tier == "measured" else f"{cell}#{key} ({tier})",
                "params": None,
                "param": None,
                "extra_info": {**told, "run_ids": runs["run_id"].tolist()},
                "options": {},
                "stats": _stats(data),
            }


def _stats(data: list[float]) -> dict[str, Any]:
    from pytest_benchmark import stats as theirs

    stats: Any = theirs.Stats()  # type: ignore[no-untyped-call]  # the package claims types that it does not have
    for each in data:
        stats.update(each)
    return {**stats.as_dict(), "data": data, "iterations": 1}
