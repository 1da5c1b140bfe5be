"""Which runs a report is about, where it is not about all of them.

In: the table `runs` as the store gives it, and what was asked for. Out: the rows that are meant, or one message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd

from bench.reading.strict import meant, shown
from bench.report import wording
from bench.report.language import both, say
from bench.spec import BadInput


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was asked for: runs started from `since` on, of `machines`. None: of whenever, of all."""

    since: datetime | None = None
    machines: tuple[str, str] | None = None

    def of(self, runs: pd.DataFrame) -> pd.DataFrame:
        """The rows that are meant. Raises BadInput for a machine that has no runs."""
        if self.machines is not None:
            self._refuse_strangers(runs)
            runs = runs[runs["machine"].isin(self.machines)]
        if self.since is None or runs.empty:
            return runs
        started = pd.to_datetime(runs["started_at"], utc=True)
        return runs[started >= pd.Timestamp(self.since)]

    def facts(self) -> Iterator[tuple[str, str]]:
        """What the reader has to know of the choice."""
        if self.machines is not None:
            yield say("Compared"), both(wording.plain(name) for name in self.machines)
        if self.since is not None:
            yield say("Started from"), wording.moment(self.since)

    def _refuse_strangers(self, runs: pd.DataFrame) -> None:
        there = sorted(set(runs["machine"])) if len(runs) else []
        first, second = self.machines or ("", "")
        if first == second:
            raise BadInput(f"--compare {shown(first)} {shown(second)}: a machine is as fast as itself; name two")
        for name in (first, second):
            if name not in there:
                choice = meant(name, there) if there else "they hold no runs at all"
                raise BadInput(f"--compare {shown(name)}: these results hold no run of such a machine; {choice}")


def moment(text: str) -> datetime:
    """A date or a time of ISO 8601, in UTC where it names no zone. Raises BadInput for anything else."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput(f"--since {shown(text)} is no date: write it as 2026-03-01, or 2026-03-01T18:00 (UTC)") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
