"""All the evidence that a results folder and the catalogue hold, and the verdicts on it.

In: a results folder, and perhaps a file of claims of the user's own. Out: a `Judged` for each claim, in the order of the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bench import cited, support
from bench.analysis import prepare
from bench.claims import foretold, measured, published, rated
from bench.claims import support as supported
from bench.claims.beside import cited_beside
from bench.claims.claim import Claim, Estimate, Judged
from bench.claims.judge import Source, judge
from bench.claims.reader import CLAIMS, read_claims
from bench.nights import latest
from bench.reading.strict import printable
from bench.spec import BadInput
from bench.store import Damaged, read


@dataclass(frozen=True, slots=True)
class Trial:
    """The verdicts, and the result files that could not be read."""

    judged: tuple[Judged, ...]
    damaged: tuple[Damaged, ...]


def trial(results: Path, own: Path | None = None) -> Trial:
    """Judge every claim. Raises BadFile for claims or published rows with faults, OSError for what cannot be read."""
    if not results.is_dir():
        raise BadInput(f"--results: {printable(str(results))} is no folder; the verdicts would rest on predictions alone")
    claims = read_claims(CLAIMS, *([own] if own else []), results=results)
    runs, readings = read(results, "runs"), read(results, "readings", ["run_id", "meter", "scope", "value"])
    known = measured.Runs(prepare(latest(runs.rows.to_pandas())), parts_of(readings.rows.to_pandas()))
    return Trial(judged(claims, sources(known, results)), (*runs.damaged, *readings.damaged))


def judged(claims: tuple[Claim, ...], found: tuple[Source, ...]) -> tuple[Judged, ...]:
    """The verdict on each."""
    return tuple(judge(claim, found) for claim in claims)


def sources(own: measured.Runs, results: Path) -> tuple[Source, ...]:
    """All that is known: this project's runs, and what else lies in `results`.

    Raises BadFile for published rows or a support matrix with faults, OSError for what cannot be read.
    """
    matrix = support.stored(results)
    rows, citable = published.prepared(cited.read(results)), cited.known(results)
    return (
        lambda claim: measured.estimates(claim, own),
        lambda claim: rated.estimates(claim, results),
        lambda claim: supported.estimates(claim, matrix),
        lambda claim: _published(claim, rows, citable),
        foretold.estimates,
    )


def _published(claim: Claim, rows: published.Published, citable: Mapping[str, cited.Cited]) -> list[Estimate]:
    """What others published: as evidence, and the rest of what the claim cites."""
    found = published.estimates(claim, rows)
    return [*found, *cited_beside(claim, citable, {row_id for each in found for row_id in each.evidence})]


def parts_of(readings: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By run id, the bytes of each part of memory."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    told: list[dict[Any, Any]] = readings[readings["meter"] == "parts"].to_dict("records") if len(readings) else []
    for row in told:
        found[str(row["run_id"])][str(row["scope"])] = float(row["value"])
    return dict(found)
