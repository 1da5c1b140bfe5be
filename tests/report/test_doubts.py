"""Flags, what they spoil, and what was not measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.report import doubts
from bench.report.document import Section
from bench.report.findings import gather
from bench.trust.flags import FLAGS

Row = Callable[..., dict[str, Any]]


def made(make: Callable[..., Section | None], *rows: dict[str, Any]) -> list[list[str]] | None:
    section = make(gather(pd.DataFrame(list(rows)), pd.DataFrame()))
    return section and [[cell.text for cell in row] for row in section.tables[0].rows]


def test_each_flag_that_occurs_is_explained_and_no_other(run_row: Row) -> None:
    rows = [run_row(index=0, flags=["throttled", "slept"]), run_row(index=1, flags=["slept"]), run_row(index=2)]
    slept, throttled = FLAGS["slept"], FLAGS["throttled"]
    assert made(doubts.flags, *rows) == [
        ["slept", "2", "time, energy", slept.cause, slept.remedy],
        ["throttled", "1", "time, energy", throttled.cause, throttled.remedy],
    ]


def test_an_unknown_flag_spoils_everything_and_says_so(run_row: Row) -> None:
    (row,) = made(doubts.flags, run_row(flags=["cursed"])) or []
    assert row[:3] == ["cursed", "1", "time, memory, energy"]
    assert row[3].startswith("not among the flags")


def test_without_flags_or_reasons_there_is_no_section(run_row: Row, old_row: Row) -> None:
    for rows in ([run_row()], [old_row()]):
        assert made(doubts.flags, *rows) is None
        assert made(doubts.not_measured, *rows) is None


def test_what_was_not_measured_is_grouped_by_reason(run_row: Row) -> None:
    none, other = "no power sensor here", "the driver lists no processes"
    rows = [
        run_row(index=0, not_measured=[("power_w", none), ("energy_j", none)]),
        run_row(index=1, not_measured={"power_w": none}),
    ]
    rows += [
        run_row(index=2, machine="pc-rtx-4090", backend="hf", not_measured=[("device_peak_bytes", other), ("power_w", none)])
    ]
    both = "hf@cuda on pc-rtx-4090, mlx@metal on mac-studio-m3-ultra"
    assert made(doubts.not_measured, *rows) == [
        [none, "energy_j, power_w", both, "3"],
        [other, "device_peak_bytes", "hf@cuda on pc-rtx-4090", "1"],
    ]
