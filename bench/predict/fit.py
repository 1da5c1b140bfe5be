"""Calibration: what the predictor learns from published rows and our own runs, kept in `suites/catalog/calibration.toml`.

In: a results folder. Out: the fitted part of that file, below a line that says so; what
stands above the line is written by hand and stays. The same evidence gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from bench import cited
from bench.files import atomic
from bench.predict.decoding import Decoded, decoded_rows
from bench.predict.evidence import Observation, observe
from bench.predict.fit_memory import Correction, Residual, corrections
from bench.predict.fit_memory import Key as MemoryKey
from bench.predict.fit_power import Metered, fit_load, power_rows
from bench.predict.fit_speed import Seen, fit
from bench.predict.fractions import ASSUMED_LOAD, Calibration, Load
from bench.predict.own_runs import Own, own_runs
from bench.predict.sources import of_one_source
from bench.predict.spread import LINE

QUANTITIES = ("peak", "reserved", "held")
"""What the rules take a factor for; what rows teach that leave conditions open serves the score card alone."""


NONE = Own()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What can be learnt from, and by id why the other published rows cannot; which of our own runs count; watts metered under
    load, and rates of decoding, each with why other rows say nothing of them.
    """

    observations: tuple[Observation, ...]
    left_out: Mapping[str, str]
    own: Own = NONE
    powers: tuple[Sequence[Metered], Mapping[str, str]] = ((), MappingProxyType({}))
    decoded: tuple[Sequence[Decoded], Mapping[str, str]] = ((), MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Fitted:
    """`memory` by stack and quantity, `speed` by stack and family of machines, `load`: the share of a limit that is drawn."""

    memory: Mapping[MemoryKey, Correction]
    speed: Calibration
    load: Load = ASSUMED_LOAD


def gather(results: Path) -> Evidence:
    """Published rows and own runs. Raises BadFile for a damaged table of published rows."""
    observations: list[Observation] = []
    left_out: dict[str, str] = {}
    rows = cited.read(results)
    for row in rows:
        found = observe(row)
        if isinstance(found, Observation):
            observations.append(found)
        else:
            left_out[row.id] = found
    own = own_runs(results)
    return Evidence((*of_one_source(observations), *own.observations), left_out, own, power_rows(rows), decoded_rows(rows))


def fitted(found: Sequence[Residual], rates: Sequence[Seen], powers: Sequence[Metered] = ()) -> Fitted:
    """From all of them."""
    return Fitted(corrections(found), fit(rates), fit_load(powers))


def without(family: str, found: Sequence[Residual], rates: Sequence[Seen]) -> Fitted:
    """As if that source did not exist."""
    return fitted([each for each in found if each.source != family], [each for each in rates if each.source != family])


def write(path: Path, learnt: Fitted) -> None:
    """Put the fitted part into the file, in the place of what is below the line. Raises OSError naming the file."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = before.partition(LINE)[0].rstrip("\n")
    content = "\n\n".join(part for part in (text, LINE, *_tables(learnt)) if part) + "\n"
    with atomic.staged(path, content.encode()) as staged:
        atomic.republish(staged, path)


def _tables(learnt: Fitted) -> list[str]:
    named = [("memory", *key, asdict(value)) for key, value in sorted(learnt.memory.items()) if key[1] in QUANTITIES]
    named += [("speed", *key, asdict(value)) for key, value in sorted(learnt.speed.items())]
    named += [("power", "any", "load", asdict(learnt.load))] if learnt.load.rows else []
    return [
        "\n".join([f'[{what}.{first}."{second}"]', *(f"{name} = {value}" for name, value in values.items())])
        for what, first, second, values in named
    ]
