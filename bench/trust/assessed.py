"""What one assessment of a run comes to, whatever it assessed.

In: nothing. Out: columns of `runs` with their values, the flags raised, and for columns left empty the reason. Assessments are
added up into one row by `bench.sweep.rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Assessed:
    """`columns` hold measured values only; `not_measured` maps a column that stays empty to the reason why."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Assessed) -> Assessed:
        """Both together; a flag raised twice counts once."""
        return Assessed(
            {**self.columns, **other.columns},
            tuple(dict.fromkeys((*self.flags, *other.flags))),
            {**self.not_measured, **other.not_measured},
        )
