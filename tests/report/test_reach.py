"""The fit frontier as a section, with what runs say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from advised import MAC, PC

from bench.frontier.reach import Reach
from bench.report import reach
from bench.report.beside import here
from bench.report.document import Section, Sketch
from bench.report.findings import Findings, gather

Row = Callable[..., dict[str, Any]]
NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}
USUAL = {"batch_size": 1, "gradient_checkpointing": True, "optimizer": "adamw", "gradient_accumulation": 1}


def made(**fields: Any) -> Reach:
    usual: dict[str, Any] = {
        **{"machine": PC, "axis": "sequence_length", "method": "lora", "model": "llama-3.1-8b", "parameters": 8_030_261_248},
        **{"stack": "hf@cuda", "likely": 12_032, "low": 7_168, "high": 17_408, "rank": 47, "ranks": 512},
    }
    return Reach(**{**usual, **fields})


FOUND = [
    made(axis="model", model="", parameters=0, likely="llama-3.1-8b", low="llama-3.1-8b", high="qwen3-14b"),
    made(),
    made(model="llama-3.3-70b", parameters=70_553_706_496, likely=None, low=None, high=None, rank=0),
    made(machine=MAC, stack="mlx@metal", likely=131_072, low=131_072, high=131_072, rank=512),
]


def nothing() -> Findings:
    return gather(pd.DataFrame(), pd.DataFrame())


def rows(section: Section | None) -> list[dict[str, str]]:
    assert section is not None
    table = section.details[0].tables[0]
    headings = [heading for heading, _ in table.columns]
    return [dict(zip(headings, (cell.text for cell in cells), strict=True)) for cells in table.rows]


def edge(run_row: Row, failed_row: Row, **fields: Any) -> Findings:
    """Runs at 8,192 and 16,384 tokens, of which memory ended the second."""
    common = {"model": "llama-3.1-8b", "method": "lora", "machine": PC, "backend": "hf", "device": "cuda", **USUAL, **fields}
    ran = run_row(**{**common, "index": 1, "sequence_length": 8192})
    failed = failed_row("oom_device", "full", **{**common, "index": 2, "sequence_length": 16_384})
    return gather(pd.DataFrame([ran, failed]), pd.DataFrame())


def test_nothing_predicted_makes_no_section() -> None:
    assert reach.reach([], nothing(), NAMES) is None


def test_edges_are_told_with_what_surely_and_what_perhaps_fits() -> None:
    model, sequence, none, all_of_it = rows(reach.reach(FOUND, nothing(), NAMES))
    assert (model["predicted edge"], model["surely, and perhaps"]) == ("llama-3.1-8b", "llama-3.1-8b to qwen3-14b")
    assert (sequence["predicted edge"], sequence["surely, and perhaps"]) == ("12,032", "7,168 to 17,408")
    assert none["predicted edge"] == "none"
    assert all_of_it["predicted edge"] == "131,072 or more"
    assert {each["evidence"] for each in (model, sequence, none, all_of_it)} == {"predicted"}


def test_what_runs_say_stands_beside(run_row: Row, failed_row: Row) -> None:
    found = rows(reach.reach(FOUND, edge(run_row, failed_row), NAMES))
    assert [each["measured: ran, and did not"] for each in found] == ["", "8,192; not 16,384", "", ""]
    assert found[1]["evidence"] == "predicted, measured"


@pytest.mark.parametrize("fields", [{"batch_size": 4}, {"gradient_checkpointing": False}, {"optimizer": "adamw_8bit"}])
def test_runs_under_other_conditions_say_nothing_of_it(fields: dict[str, Any], run_row: Row, failed_row: Row) -> None:
    assert reach.measured(edge(run_row, failed_row, **fields)) == {}


def test_a_measured_edge_is_drawn(run_row: Row, failed_row: Row) -> None:
    without, with_runs = (reach.reach(FOUND, found, NAMES) for found in (nothing(), edge(run_row, failed_row)))
    assert without is not None
    assert with_runs is not None
    assert isinstance(without.figure, Sketch)
    assert isinstance(with_runs.figure, Sketch)
    assert here(without.figure)() != here(with_runs.figure)()
