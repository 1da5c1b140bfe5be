"""The gate over a results folder.

In: the folder, the file of acknowledged shifts, a machine to look at alone. Out: the `Verdict`, and the result files that could
not be read. Only runs that belong to a night are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from bench.environments import EnvironmentDiff, environment_diff
from bench.epochs import Conditions
from bench.history.acknowledged import FILE, Acknowledgement, plain_name, read_acknowledged
from bench.history.gate import Verdict, judge
from bench.history.series import COLUMNS, Track, tracks
from bench.reading.strict import meant, printable, shown
from bench.record import last_night
from bench.spec import BadInput
from bench.store import Damaged, read


@dataclass(frozen=True, slots=True)
class Gated:
    """The verdict, what could not be read, and where shifts are acknowledged."""

    verdict: Verdict
    damaged: tuple[Damaged, ...]
    acknowledged: Path


def gate(results: Path, acknowledged: Path | None = None, machine: str | None = None, as_of: date | None = None) -> Gated:
    """Judge all nights until `as_of`, today (UTC) where not given, and a day's grace; later ones are left out and told.

    Nothing in the folder is changed: a damaged file stays where it is and is named each time.

    `acknowledged` is `results/acknowledged.toml` where not given, and need not be there then. Raises BadFile for its faults,
    BadInput for a folder that is none and a machine without a night, OSError for what cannot be read.
    """
    if not results.is_dir():
        raise BadInput(f"--results: {printable(str(results))} is no folder; `wingspan nightly` makes it")
    file = acknowledged or results / FILE
    said = read_acknowledged(file) if acknowledged or file.exists() else ()
    today = as_of or datetime.now(UTC).date()
    stored = read(results, "runs", COLUMNS, quarantine=False)
    nightly = stored.rows.filter(stored.rows["night"].is_valid()).to_pandas()
    begun = nightly["night"] <= last_night(today)
    to_come = tuple(sorted(set(nightly.loc[~begun, "night"])))
    found, spoken = _of_machine(tracks(nightly[begun]), said, machine)

    def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> EnvironmentDiff:
        return environment_diff(results, Conditions.of(before), Conditions.of(after))

    return Gated(replace(judge(found, spoken, compare, today), to_come=to_come), stored.damaged, file)


def _of_machine(
    found: Sequence[Track], said: Sequence[Acknowledgement], machine: str | None
) -> tuple[Sequence[Track], Sequence[Acknowledgement]]:
    """The tracks and acknowledgements of one machine, under whichever of its names; of all where none is named."""
    if machine is None:
        return found, said
    own = [each for each in found if machine in (each.machine, plain_name(each.machine))]
    if not own:
        names = sorted({each.machine for each in found})
        known = meant(machine, names) if names else "no machine has one yet"
        raise BadInput(f"--machine: {shown(machine)} has no night in these results; {known}")
    borne = {plain_name(name) for track in own for name in track.machines}
    return own, [each for each in said if plain_name(each.machine) in borne]
