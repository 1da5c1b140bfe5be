"""The nights of a results folder.

In: a results folder. Out: its nights, and which files could not be read. Nothing is written, and no damaged file is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from bench import environments, store
from bench.environments import Environment
from bench.ledger.nights import COLUMNS, Night, nights_of
from bench.store import Damaged


@dataclass(frozen=True)
class Stored:
    """The nights by date, then machine, and the files that could not be read."""

    nights: tuple[Night, ...]
    damaged: tuple[Damaged, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[tuple[str, str], Night]:
        """The nights by machine and label."""
        return {(night.machine, night.label): night for night in self.nights}


def read(results: Path) -> Stored:
    """Every night. A folder that is missing has none. Raises OSError naming a folder that cannot be listed."""
    table = store.read(results, "runs", COLUMNS, quarantine=False)
    runs = table.rows.to_pandas()
    runs = runs[runs["night"].notna()]
    return Stored(nights_of(runs, _packages(results, runs["environment_digest"])), table.damaged)


def any_night(results: Path) -> tuple[bool, tuple[Damaged, ...]]:
    """Whether a run belongs to a night, by that column alone; and the files that could not be read."""
    table = store.read(results, "runs", ("night",), quarantine=False)
    return table.rows.column("night").null_count < table.rows.num_rows, table.damaged


def _packages(results: Path, digests: pd.Series[str]) -> dict[str, Environment]:
    """The lists of installed packages that are there; for others the runs' own versions must do."""
    found = {}
    for digest in sorted(digests.dropna().unique()):
        with suppress(environments.NotKnown):
            found[digest] = environments.load(results, digest)
    return found
