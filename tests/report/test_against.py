"""Two machines against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.report.against import against
from bench.report.findings import gather

Row = Callable[..., dict[str, Any]]
MAC, PC = "mac-studio-m3-ultra", "pc-rtx-4090"


def told(rows: list[dict[str, Any]], first: str = PC, second: str = MAC) -> list[dict[str, str]]:
    section = against(gather(pd.DataFrame(rows), pd.DataFrame()), first, second)
    if not section.tables:
        return []
    table = section.tables[0]
    headings = [heading for heading, _ in table.columns]
    return [dict(zip(headings, (cell.text for cell in cells), strict=True)) for cells in table.rows]


def rates(run_row: Row, machine: str, rate: float, **fields: Any) -> list[dict[str, Any]]:
    place = {"backend": "hf", "device": "cuda"} if machine == PC else {}
    return [run_row(index=n, machine=machine, tokens_per_s=rate * (1 + n / 1000), **{**place, **fields}) for n in range(3)]


def test_the_faster_one_wins_with_its_ratio(run_row: Row) -> None:
    (row,) = told([*rates(run_row, PC, 1200.0), *rates(run_row, MAC, 400.0)])
    assert row["winner"] == PC
    assert row["ratio"].startswith("3.00× (")


def test_turned_over_the_same_machine_wins(run_row: Row) -> None:
    (row,) = told([*rates(run_row, PC, 1200.0), *rates(run_row, MAC, 400.0)], MAC, PC)
    assert row["winner"] == PC
    assert row["ratio"].startswith("0.333× (")


def test_equal_rates_have_no_winner(run_row: Row) -> None:
    (row,) = told([*rates(run_row, PC, 400.0), *rates(run_row, MAC, 400.0)])
    assert row["winner"] == "not told apart"


def test_unequal_work_is_refused_with_the_reason(run_row: Row) -> None:
    (row,) = told([*rates(run_row, PC, 1200.0, tokens_digest="other"), *rates(run_row, MAC, 400.0)])
    assert row["winner"] == "not comparable"
    assert row["ratio"] == "they were given different tokens"


def test_the_only_one_that_ran_wins(run_row: Row, failed_row: Row) -> None:
    lost = failed_row("oom_device", "full", index=9, machine=PC, backend="hf", device="cuda")
    (row,) = told([*rates(run_row, MAC, 400.0), lost])
    assert row["winner"] == f"{MAC} only"


def test_nothing_in_common_is_said(run_row: Row) -> None:
    rows = rates(run_row, MAC, 400.0)
    assert told(rows) == []
    assert against(gather(pd.DataFrame(rows), pd.DataFrame()), PC, MAC).texts == (
        "No work was done, or tried, by both machines.",
    )
