"""The grid that the rows span, and how much of it was measured.

In: prepared runs (`bench.analysis.prepare`). Out: one row for each workload of a suite and each backend that the suite knows on
a machine, run or not: after a budget or an interruption the cells that never came to a run leave no row, and no row is no
answer.
"""

from __future__ import annotations

import pandas as pd

from bench.metrics import CLEAN
from bench.report.labels import in_order, party_names, work_names

_WORK = ["work", "workload_digest", "row", "method", "parameters"]
_PARTY = ["backend", "device", "machine"]


def grid(runs: pd.DataFrame) -> pd.DataFrame:
    """Every cell with `suite`, names, `party`, `n_runs` (0: not run yet), `n_clean` (rates) and `n_usable` (clean for any kind).

    A workload that no backend of its suite has tried on a machine is not in the rows, and so not here; nor are the arms of a
    suite with the backends of other arms.
    """
    named = runs.assign(row=work_names(runs), suite=runs["suite"].astype(object).where(runs["suite"].notna(), ""))
    named["usable"] = named[list(CLEAN.values())].any(axis=1)
    named["parameters"] = named.groupby("workload_digest")["parameters"].transform("max")
    place = ["suite", "machine"]
    works, parties = named[[*place, *_WORK]].drop_duplicates(), named[["suite", *_PARTY]].drop_duplicates()
    cells = works.merge(parties, on=place)
    key = ["suite", "work", "workload_digest", *_PARTY]
    counted = {"n_runs": ("run_id", "size"), "n_clean": ("clean", "sum"), "n_usable": ("usable", "sum")}
    counts = named.groupby(key).agg(**counted).reset_index()
    cells = cells.merge(counts, on=key, how="left").fillna(dict.fromkeys(counted, 0))
    cells = cells[(cells["n_runs"] > 0) | ~cells["work"].str.contains("/arm=")]
    return in_order(cells.assign(party=party_names(cells))).sort_values(
        ["suite", "method", "parameters", "work", "workload_digest", "party"], kind="stable", ignore_index=True
    )
