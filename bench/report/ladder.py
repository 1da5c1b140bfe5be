"""The ladder: every way of doing the same work against every other, as a matrix of rates and one of memory.

In: `Findings`. Out: a section, or None where no suite declared arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from bench import ladder
from bench.metrics import METRICS
from bench.report import wording
from bench.report.document import Cell, Column, Record, Section, Table, records, tabulate
from bench.report.findings import Findings
from bench.report.language import both, say, strung, to_say
from bench.report.reasons import resaid

MEMORY = ("framework_peak_bytes", "device_peak_bytes", "host_peak_bytes")
"""Whose peak is compared: the first that all clean rungs have, since one meter's bytes are not another's."""
_TEXT = to_say(
    "Each rung does the same work on the same machine in another way. An entry is the rung of its row divided by the rung of its"
    " column, in brackets its 95% interval and the numbers of runs: 1.5 in a table of rates means that the row is half as fast"
    " again; 0.5 in a table of memory that it needs half. A vendor's factor holds against the rung it names, not against a lower"
    " one."
)
_SAME = to_say(
    "Rungs are divided only where work, tokens, measured steps and the versions of {packages} are equal; otherwise the entry is"
    " empty and a note says why."
)
_RUNG = (
    Column("rung", "rung"),
    Column("backend", "place"),
    Column("clean runs", "n_clean", "number"),
    Column("tokens/s", lambda row: wording.number(row["tokens_per_s"]), "number"),
    Column("95% interval", lambda row: wording.between(row["tokens_per_s_low"], row["tokens_per_s_high"]), "number"),
    Column("peak, framework", lambda row: wording.size(row["framework_peak_bytes"]), "number"),
    Column("peak, device", lambda row: wording.size(row["device_peak_bytes"]), "number"),
    Column("peak, process", lambda row: wording.size(row["host_peak_bytes"]), "number"),
    Column("implementation", "implementation_name"),
    Column("outcomes", wording.outcomes),
)


def ladders(findings: Findings) -> Section | None:
    """A table of rungs, a matrix of rates and one of peaks for each work on each machine."""
    found = ladder.rungs_of(findings.runs)
    if found.empty:
        return None
    rungs = _summaries(findings, found)
    rates = ladder.factors(found, "tokens_per_s")
    peaks = {name: ladder.factors(found, name) for name in MEMORY}
    tables: list[Table] = []
    for place, group in rungs.groupby(list(ladder.LADDER), sort=True):
        work = f"{place[1]} {say('on')} {place[0]}"
        names = sorted(group["rung"])
        memory = _memory_of(group)
        tables.append(tabulate(say("Rungs: {work}", work=work), records(group.sort_values("rung")), _RUNG))
        tables.append(_matrix(say("Rate, row ÷ column: {work}", work=work), names, _those(rates, place), ()))
        title, label = say("Memory, row ÷ column: {work}", work=work), say(METRICS[memory].label)
        notes = (say("Memory is the {label}.", label=label),)
        tables.append(_matrix(title, names, _those(peaks[memory], place), notes))
    texts = (say(_TEXT), say(_SAME, packages=both(ladder.SAME_VERSIONS)))
    return Section("ladder", say("Ladder"), texts, tables=tuple(tables))


def _summaries(findings: Findings, found: pd.DataFrame) -> pd.DataFrame:
    """The summaries of the rungs, with `rung` and the ladder that each belongs to."""
    keys = ["machine", "cell", "workload_digest"]
    names = found[[*keys, "rung", "work"]].drop_duplicates(keys)
    measured = findings.summaries[findings.summaries["tier"] == "measured"].drop(columns="work")
    return measured.merge(names, on=keys)


def _memory_of(rungs: pd.DataFrame) -> str:
    ran = rungs[rungs["n_clean_memory"] > 0]
    return next((name for name in MEMORY if len(ran) and ran[name].notna().all()), MEMORY[-1])


def _those(factors: pd.DataFrame, place: Iterable[Any]) -> list[dict[str, Any]]:
    """The pairs of one ladder."""
    here = factors
    for name, value in zip(ladder.LADDER, place, strict=True):
        here = here[here[name] == value]
    return records(here)


def _matrix(title: str, names: list[str], pairs: list[dict[str, Any]], notes: Iterable[str]) -> Table:
    entries = {(pair["above"], pair["below"]): pair for pair in pairs}
    columns = [Column("rung", "rung"), *(Column(name, _against(name, entries), "number", as_is=True) for name in names)]
    return tabulate(title, [{"rung": name} for name in names], columns, [*notes, *_refused(pairs)])


def _against(below: str, entries: Mapping[tuple[str, str], Record]) -> Any:
    """How the entry of a column is made: as it was compared, or turned round."""

    def entry(row: Record) -> Cell | str:
        above = row["rung"]
        if above == below:
            return Cell("1", "quiet")
        pair = entries.get((above, below))
        if pair is not None:
            return _factor(pair["ratio"], pair["low"], pair["high"], pair["n_above"], pair["n_below"])
        pair = entries.get((below, above))
        return (
            ""
            if pair is None
            else _factor(1 / pair["ratio"], 1 / pair["high"], 1 / pair["low"], pair["n_below"], pair["n_above"])
        )

    return entry


def _factor(ratio: float, low: float, high: float, n_above: int, n_below: int) -> str:
    if math.isnan(ratio):
        return ""
    interval = wording.between(low, high) or say("no interval")
    text = to_say("{ratio} ({interval}; n {above}, {below})")
    return say(text, ratio=wording.number(ratio), interval=interval, above=n_above, below=n_below)


def _refused(pairs: list[dict[str, Any]]) -> list[str]:
    """Why entries are empty, each reason once."""
    reasons: dict[str, list[str]] = {}
    for pair in pairs:
        if pair["refused"]:
            reasons.setdefault(pair["refused"], []).append(both([pair["above"], pair["below"]]))
    text = to_say("No factor, as {reason}: {pairs}.")
    return [say(text, reason=resaid(reason), pairs=strung(whom)) for reason, whom in reasons.items()]
