"""What parties and workloads are called, and the order in which their rows stand, in figures as in tables.

In: frames of `bench.analysis`. Out: names for each of their rows, or the rows in order.
"""

from __future__ import annotations

import pandas as pd

from bench.report.language import say


def party_names(frame: pd.DataFrame, prefix: str = "") -> pd.Series[str]:
    """`backend@device on machine` for each row of a frame with these columns (their names preceded by `prefix`)."""
    backend, device, machine = (frame[prefix + name] for name in ("backend", "device", "machine"))
    return backend + "@" + device + f" {say('on')} " + machine


def work_names(frame: pd.DataFrame) -> pd.Series[str]:
    """The workload of each row, its method left out; the digest's start behind it where one name stands for several."""
    names = pd.Series(
        [_without(work, method) for work, method in zip(frame["work"], frame["method"], strict=True)], frame.index, dtype=object
    )
    several = frame.groupby("work")["workload_digest"].transform("nunique") > 1
    return names.where(~several, names + " #" + frame["workload_digest"].str[:6])


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by method, then by model size (unknown last), then by name."""
    return frame.sort_values(["method", "parameters", "work", "workload_digest"], kind="stable")


def _without(work: str, method: str) -> str:
    return work.replace(f"/{method}", "", 1)
