"""The ladder's tables, as a reader sees them."""

from __future__ import annotations

from typing import Any

import pandas as pd
from ladder_rows import rung_row, whole_ladder

from bench.report import ladder, page
from bench.report.document import Section, Table
from bench.report.findings import gather


def section(rows: list[dict[str, Any]]) -> Section | None:
    return ladder.ladders(gather(pd.DataFrame(rows), pd.DataFrame()))


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_two_matrices_of_every_rung_against_every_other() -> None:
    made = section(whole_ladder())
    assert made is not None
    rungs, rates, memory = made.tables
    assert rates.title == "Rate, row ÷ column: llama-3.1-8b/qlora on pc-rtx-4090"
    assert [heading for heading, _ in rates.columns] == ["rung", "1-eager", "2-sdpa", "8-unsloth"]
    assert texts(rates) == [
        ["1-eager", "1", "0.500 (0.489 – 0.511; n 3, 3)", "0.250 (0.244 – 0.256; n 3, 3)"],
        ["2-sdpa", "2.00 (1.96 – 2.05; n 3, 3)", "1", "0.500 (0.489 – 0.511; n 3, 3)"],
        ["8-unsloth", "4.00 (3.91 – 4.09; n 3, 3)", "2.00 (1.96 – 2.05; n 3, 3)", "1"],
    ]
    assert texts(memory)[2][1:3] == ["0.417 (0.417 – 0.417; n 3, 3)", "0.500 (0.500 – 0.500; n 3, 3)"]
    assert memory.notes == ("Memory is the peak by the framework's counter.",)
    assert [row[0] for row in texts(rungs)] == ["1-eager", "2-sdpa", "8-unsloth"]
    assert {row[8] for row in texts(rungs)} == {"hf-1", "hf-2", "unsloth-1"}


def test_a_refused_factor_is_an_empty_entry_and_a_note() -> None:
    made = section(whole_ladder(versions=[("torch", "2.15.0"), ("transformers", "5.17.0")]))
    assert made is not None
    rates = made.tables[1]
    assert [row[3] for row in texts(rates)] == ["", "", "1"]
    assert rates.notes == (
        "No factor, as the versions of torch differ (2.15.0 against 2.14.1): 8-unsloth and 1-eager; 8-unsloth and 2-sdpa.",
    )


def test_memory_is_compared_by_a_meter_that_all_rungs_have() -> None:
    made = section(whole_ladder(framework_peak_bytes=None))
    assert made is not None
    assert made.tables[2].notes == ("Memory is the peak resident memory of the process.",)


def test_each_work_and_machine_has_its_own_tables() -> None:
    more = [rung_row(arm, machine="h200", machine_id="9") for arm in ("1-eager", "2-sdpa")]
    made = section(whole_ladder() + more)
    assert made is not None
    assert [table.title.partition(": ")[2] for table in made.tables[::3]] == [
        "llama-3.1-8b/qlora on h200",
        "llama-3.1-8b/qlora on pc-rtx-4090",
    ]
    assert texts(made.tables[1])[1] == ["2-sdpa", "2.00 (no interval; n 1, 1)", "1"]


def test_without_arms_there_is_no_section_and_with_them_the_page_has_it() -> None:
    assert section([rung_row("x", cell="llama-3.1-8b/qlora/hf@cuda")]) is None
    document = page.compose(pd.DataFrame(whole_ladder()), pd.DataFrame())
    assert '<section id="ladder"' in page.to_html(document)
    assert "2.00 (1.96 – 2.05; n 3, 3)" in page.to_markdown(document)
