"""Rungs of a ladder, each against every other.

In: the table `runs` (as `bench.analysis` takes it), of which the cells that a suite declared as arms are rungs. Out: per ladder
(the work on one machine) every pair of rungs with a ratio, or why there is none. The rules are those of `bench.fairness`, and one
more: a ladder asks what the way of doing the work is worth, so all rungs need the same torch and transformers under them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bench import analysis

SAME_VERSIONS = ("torch", "transformers")
"""What a factor between two rungs would otherwise measure too."""
SIDES = ("above", "below")
LADDER = ("machine", "work")
"""The columns that tell ladders apart; `work` is the cell's id without backend, device and arm."""
_ARM = r"/arm=([^/]+)"


def rungs(runs: pd.DataFrame) -> pd.DataFrame:
    """The measured runs of arms, prepared, with `rung`: the arm's name, and the digest's start behind it where it did other work.

    Runs that were held to a limit on memory, or are no measurements, are left out: their rates say nothing.
    """
    return rungs_of(analysis.prepare(runs))


def rungs_of(prepared: pd.DataFrame) -> pd.DataFrame:
    """`rungs` of prepared runs."""
    rung = prepared["cell"].str.extract(_ARM, expand=False)
    found = prepared.assign(rung=rung)[rung.notna() & (prepared["tier"] == "measured")].copy()
    found["work"] = found["work"].str.replace(_ARM, "", n=1, regex=True)
    several = found.groupby(list(LADDER))["workload_digest"].transform("nunique") > 1
    found["rung"] = found["rung"].where(~several, found["rung"] + " #" + found["workload_digest"].str[:6])
    return found.reset_index(drop=True)


def factors(found: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Every pair of the rungs that `rungs` found, on one machine, the later name above.

    Columns: those of `LADDER`, `above`, `below` (rungs), `n_above`, `n_below`, `ratio`, `low`, `high`, `refused` (the reason; ""
    with a ratio). A rung is what its arm asked for, so runs that recorded different implementations are refused as well.
    """
    stood = found.assign(implementation=found["rung"], cell=found["cell"].str.replace(_ARM, "", n=1, regex=True))
    pairs = analysis.compare(stood, metric)
    pairs = pairs[pairs["above_machine"] == pairs["below_machine"]]
    pairs = pairs.rename(columns={"above_machine": "machine", "above_implementation": "above", "below_implementation": "below"})
    known = _known(found)
    for index, row in pairs.to_dict("index").items():
        reason = row["refused"] or _unlike(row, *(known[row["machine"], row["workload_digest"], row[side]] for side in SIDES))
        if reason:
            pairs.loc[index, ["ratio", "low", "high", "refused"]] = [float("nan")] * 3 + [reason]
    return pairs[[*LADDER, "above", "below", "n_above", "n_below", "ratio", "low", "high", "refused"]].reset_index(drop=True)


def _known(found: pd.DataFrame) -> dict[tuple[str, str, str], Mapping[str, tuple[str, ...]]]:
    """Per machine, work and rung what its ok runs recorded: implementations, and versions of each of `SAME_VERSIONS`.

    Work is known by its digest, since two suites may call the same cell by different names.
    """
    known: dict[tuple[str, str, str], Mapping[str, tuple[str, ...]]] = {}
    for (machine, work, rung), runs in found.groupby(["machine", "workload_digest", "rung"]):
        ok = runs[runs["outcome"] == "ok"]
        versions = [_map(each) for each in ok["versions"]] if "versions" in ok else []
        seen = {name: tuple(sorted({each[name] for each in versions if name in each})) for name in SAME_VERSIONS}
        known[str(machine), str(work), str(rung)] = {"implementation": tuple(sorted(set(ok["implementation"]))), **seen}
    return known


def _unlike(row: Mapping[Any, Any], above: Mapping[str, tuple[str, ...]], below: Mapping[str, tuple[str, ...]]) -> str:
    """Why two rungs of equal work are no two rungs of one ladder; "" if they are."""
    for rung, seen in ((row["above"], above), (row["below"], below)):
        if len(seen["implementation"]) > 1:
            return f"{rung}: its runs were done in {len(seen['implementation'])} different ways"
    for name in SAME_VERSIONS:
        if not above[name] or not below[name]:
            return f"the version of {name} was not recorded on both sides"
        if len({*above[name], *below[name]}) > 1:
            return f"the versions of {name} differ ({', '.join(above[name])} against {', '.join(below[name])})"
    return ""


def _map(stored: Any) -> dict[str, str]:
    """A stored map, which may be a dictionary or pairs; empty where it was not recorded."""
    return dict(stored) if isinstance(stored, Mapping | list | tuple) else {}
