"""Peak memory: which meter, which capacity, and what is said of what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from bench import analysis
from bench.report.figures.memory import METERS, memory, peaks

Row = Callable[..., dict[str, Any]]
FRAMEWORK, HOST = METERS["framework_peak_bytes"], METERS["host_peak_bytes"]


def summaries(*rows: dict[str, Any]) -> pd.DataFrame:
    return analysis.summarise(pd.DataFrame(list(rows)))


def test_every_party_stands_under_every_meter_that_it_has(run_row: Row) -> None:
    rows = summaries(run_row(), run_row(machine="other", backend="hf", device="cpu", framework_peak_bytes=None))
    found = {(row["backend"], row["meter"]): row["peak_bytes"] for row in peaks(rows, {}).to_dict("records")}
    assert found == {("mlx", FRAMEWORK): 20e9, ("mlx", HOST): 3e9, ("hf", HOST): 3e9}


def test_a_cell_out_of_memory_is_one_cross_where_its_party_has_both_meters(run_row: Row, failed_row: Row) -> None:
    rows = summaries(run_row(), failed_row("oom_device", "too much", model="qwen3-32b"))
    found = peaks(rows, {"mac-studio-m3-ultra": 103_079_215_104}).query("ran_out")
    assert list(zip(found["meter"], found["peak_bytes"], strict=True)) == [(FRAMEWORK, 103_079_215_104)]


def test_a_peak_of_which_nothing_is_known_is_not_drawn(run_row: Row) -> None:
    assert peaks(summaries(run_row(framework_peak_bytes=None, host_peak_bytes=None)), {}).empty


def test_a_cell_out_of_memory_stands_at_its_capacity_under_its_partys_meter(run_row: Row, failed_row: Row) -> None:
    cpu = {"machine": "other", "backend": "hf", "device": "cpu"}
    rows = summaries(
        run_row(**cpu, framework_peak_bytes=None),
        failed_row("oom_host", "too much", model="qwen3-32b", **cpu),
        failed_row("oom_device", "too much", model="qwen3-32b", machine="pc-rtx-4090", backend="hf"),
    )
    found = peaks(rows, {"pc-rtx-4090": 25_757_220_864}).query("ran_out").set_index("machine")
    assert (found.loc["other", "meter"], found.loc["other", "peak_bytes"]) == (HOST, 16 * 2**30)
    assert (found.loc["pc-rtx-4090", "meter"], found.loc["pc-rtx-4090", "peak_bytes"]) == (FRAMEWORK, 25_757_220_864)


def test_the_capacity_that_a_run_recorded_goes_before_the_profiles(failed_row: Row) -> None:
    rows = summaries(failed_row("over_limit", "too much", machine="pc-rtx-4090", backend="hf", capacity_bytes=10**9))
    assert list(peaks(rows, {"pc-rtx-4090": 25_757_220_864})["peak_bytes"]) == [10**9]


def test_cards_are_not_given_their_hosts_memory_as_capacity(failed_row: Row) -> None:
    rows = summaries(failed_row("oom_device", "too much", machine="unknown", backend="hf", device="cuda"))
    assert peaks(rows, {}).empty
    assert memory(rows, {}) is None


def test_cells_that_ran_out_once_but_also_ended_ok_are_no_crosses(run_row: Row, failed_row: Row) -> None:
    rows = summaries(run_row(index=1), failed_row("oom_device", "too much", index=2))
    assert list(peaks(rows, {})["ran_out"]) == [False, False]


def test_the_caption_names_evidence_meter_and_omissions(run_row: Row, failed_row: Row) -> None:
    lost = failed_row("oom_device", "too much", machine="unknown", backend="hf", device="cuda")
    drawn = memory(summaries(run_row(), lost), {})
    assert drawn is not None
    assert drawn.caption.startswith("Evidence: measured.")
    assert "the two never share a panel" in drawn.caption
    assert "not known: 1 cell that ran out" in drawn.caption


def test_the_description_names_both_capacities(lesson_runs: pd.DataFrame, capacities: dict[str, int]) -> None:
    drawn = memory(analysis.summarise(lesson_runs), capacities)
    assert drawn is not None
    described = ElementTree.fromstring(drawn.svg).findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert "mac-studio-m3-ultra 103 GB, pc-rtx-4090 25.8 GB" in described
    assert "cells ran out of memory" in described


def test_main_memories_are_lines_of_their_own(run_row: Row) -> None:
    drawn = memory(summaries(run_row(machine="other")), {"pc-rtx-4090": 25_757_220_864}, {"other": 25_276_510_208})
    assert drawn is not None
    described = ElementTree.fromstring(drawn.svg).findtext("{http://www.w3.org/2000/svg}desc") or ""
    assert "other, main memory 25.3 GB, pc-rtx-4090 25.8 GB" in described


@pytest.mark.parametrize("parameters", [None, 0])
def test_models_of_unknown_size_have_no_place(run_row: Row, parameters: int | None) -> None:
    assert memory(summaries(run_row(parameters=parameters)), {}) is None
