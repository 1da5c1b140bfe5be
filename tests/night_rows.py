"""Rows of `runs` as nights store them: frames of a few cells over some weeks, without a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.environments import EnvironmentDiff, environment_diff
from bench.epochs import Conditions
from bench.history.acknowledged import Acknowledgement
from bench.history.gate import Verdict, judge
from bench.history.series import Series, Track, tracks

FIRST = date(2026, 1, 1)
CELL = "tiny/lora/hf@cpu"
OWN: Mapping[str, Any] = {
    "machine": "box",
    "machine_id": "0123456789ab",
    "suite": "nightly",
    "tier": "measured",
    "cell_key": "fedc",
    "workload_digest": "abcd",
    "backend": "hf",
    "device": "cpu",
    "outcome": "ok",
    "reason": None,
    "flags": (),
    "implementation": [("attention", "sdpa")],
    "epoch_digest": "e" * 16,
    "environment_digest": "a" * 16,
    "os_version": "Test OS 1",
    "source_revision": "c" * 40,
    "versions": [("python", "3.11.9"), ("torch", "2.13.0")],
    "device_settings": [("power_limit_w", "450")],
}


def night(at: int) -> str:
    """The label of a night, counted from the first."""
    return (FIRST + timedelta(days=at)).isoformat()


def rows(
    levels: Sequence[float | None],
    *,
    metric: str = "tokens_per_s",
    spread: float = 0.005,
    repeats: int = 3,
    cell: str = CELL,
    nights: Mapping[int, Mapping[str, Any]] | None = None,
    **columns: Any,
) -> pd.DataFrame:
    """Runs of one cell: `repeats` a night about each level, none where it is None; `nights` sets columns of some nights."""
    random = np.random.default_rng(7)
    found = []
    for at, level in enumerate(levels):
        of_night = {**OWN, **columns, **(nights or {}).get(at, {})}
        if level is None:
            continue
        for repeat in range(repeats):
            found.append(
                {
                    **of_night,
                    "cell": cell,
                    "night": night(at),
                    "run_id": f"{of_night['machine']}-{of_night['cell_key']}-{metric}-{at:03}-{repeat}",
                    "started_at": datetime(2026, 1, 1, 2, repeat, tzinfo=UTC) + timedelta(days=at),
                    metric: level * float(np.exp(random.normal(0, spread))),
                }
            )
    return pd.DataFrame(found)


def track(levels: Sequence[float], metric: str = "tokens_per_s", spread: float = 0.003) -> Track:
    """A cell that was measured on each night, with a little noise: what `tracks` makes of `rows`, at once."""
    random = np.random.default_rng(7)
    noisy = tuple(level * float(np.exp(random.normal(0, spread))) for level in levels)
    nights = tuple(night(at) for at in range(len(levels)))
    series = Series(metric, noisy, ("",) * len(nights))
    names = ("box", "0123456789ab", "nightly", "measured", CELL, "fedc")
    of_nights = (("measured",), ("",), (1,), (0,))
    seen = (each * len(nights) for each in of_nights)
    return Track(*names, nights, *seen, (series,), {}, machines=("box",), cells=(CELL,))


def step(before: int, after: int, ratio: float, level: float = 1000.0) -> list[float | None]:
    """Levels of a series that shifts once."""
    return [level] * before + [level * ratio] * after


NEWER: Mapping[str, Any] = {
    "epoch_digest": "f" * 16,
    "environment_digest": "b" * 16,
    "versions": [("python", "3.11.9"), ("torch", "2.14.0")],
}
"""Columns of a run after an upgrade."""


def since(at: int, until: int, columns: Mapping[str, Any] = NEWER) -> dict[int, Mapping[str, Any]]:
    """For `nights` of `rows`: those columns from night `at` on, to before `until`."""
    return dict.fromkeys(range(at, until), columns)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> EnvironmentDiff:
    """As over a folder that keeps no list of packages."""
    return environment_diff(Path("none"), Conditions.of(before), Conditions.of(after))


def judged(frame: pd.DataFrame, said: Sequence[Acknowledgement] = (), as_of: date | None = None) -> Verdict:
    """The gate's verdict, on the day of the last night unless another is given."""
    return judge(tracks(frame), said, compare, as_of or date.fromisoformat(frame["night"].dropna().max()))


def marks(verdict: Verdict, what: str = "regressions") -> list[tuple[str, str, str]]:
    """(cell, metric, night) of the shifts of a kind."""
    return [(each.finding.track.cell, each.finding.metric, each.finding.night) for each in getattr(verdict, what)]
