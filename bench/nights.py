"""Runs that were repeated night after night -> those that speak of today: each cell's last night.

In: the table `runs` as a DataFrame. Out: the same without the runs of earlier nights. Their history is what `wingspan regress`
judges. A mean over a year of nights, through every upgrade, would be true of none of them, and a cell that is measured nightly
would outweigh all others; so pages, verdicts and advice count the last night on which the cell was tried to the end. A night of a
date that is yet to come, from a clock that was wrong or a slip of the hand, counts where a cell has no other.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

import pandas as pd

from bench.record import last_night

ANSWERS = ("ok", "oom_device", "oom_host", "over_limit")
"""Outcomes of a run that was tried to the end; a night of crashes alone does not take the place of one that measured."""
WHOSE = ["machine_id", "cell_key", "tier"]


def latest(runs: pd.DataFrame, today: date | None = None) -> pd.DataFrame:
    """The runs of no night, and of the nights each cell's last one that has an answer; where none has, the last one.

    A cell is one of a machine, by its `cell_key`, at one tier. Order and columns stay. Older files know no nights: all stays.
    `today`, the date in UTC where not given, tells which nights are yet to come.
    """
    if "night" not in runs or not runs["night"].notna().any():
        return runs
    runs = runs.drop(index=_to_come(runs, today or datetime.now(UTC).date()))
    of_nights = runs[runs["night"].notna()]
    keys = _keys(of_nights)
    answered = of_nights["night"].where(of_nights["outcome"].isin(ANSWERS))
    last = answered.groupby(keys, dropna=False).transform("max")
    last = last.fillna(of_nights["night"].groupby(keys, dropna=False).transform("max"))
    earlier = of_nights.index[of_nights["night"] != last]
    return runs.drop(index=earlier)


def _to_come(runs: pd.DataFrame, today: date) -> pd.Index:
    """The rows of nights yet to come, of cells that have others too."""
    of_nights = runs[runs["night"].notna()]
    to_come = of_nights["night"] > last_night(today)
    alone = to_come.groupby(_keys(of_nights), dropna=False).transform("all") if to_come.any() else to_come
    return of_nights.index[to_come & ~alone]


def _keys(runs: pd.DataFrame) -> list[pd.Series]:
    return [runs[name].astype(object) for name in WHOSE]
