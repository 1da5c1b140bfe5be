"""Peak memory: which meter, which capacity, and what is said of what is left out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.figure import Figure

from bench import analysis
from bench.report.figures import memory as figure
from bench.report.figures.memory import METERS, apart, memory, peaks

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


def test_names_of_lines_stand_at_their_lines_or_a_gap_apart() -> None:
    assert apart([0.1, 0.5, 0.9], 0.06) == [0.1, 0.5, 0.9]
    assert apart([0.1, 0.5, 0.51], 0.06) == pytest.approx([0.1, 0.475, 0.535])
    assert apart([0.5, 0.5, 0.52, 0.56], 0.06) == pytest.approx([0.43, 0.49, 0.55, 0.61])
    assert apart([], 0.06) == []


def test_neither_labels_of_sizes_nor_names_of_lines_are_printed_over_each_other(
    run_row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Figure] = []
    write = figure.to_svg
    monkeypatch.setattr(figure, "to_svg", lambda made, *rest: (seen.append(made), write(made, *rest))[1])
    sizes = (181e3, 525e3, 596e6, 1.24e9, 70e9)
    rows = [run_row(method=method, parameters=int(size)) for method in ("full", "lora", "qlora", "serve") for size in sizes]
    capacities = {"mac-studio-m3-ultra": 103_079_215_104, "pc-rtx-4090": 25_757_220_864}
    assert memory(summaries(*rows), capacities, {"a computer": 25_276_510_208}) is not None
    for ax in seen[0].axes:
        labels = [each for each in ax.get_xticklabels() if each.get_text() and each.get_visible()]
        extents = sorted((each.get_window_extent() for each in labels), key=lambda each: each.x0)
        assert all(left.x1 < right.x0 for left, right in pairwise(extents))
    names = {each.get_text().partition("  ")[2]: each for each in seen[0].axes[3].texts}
    heights = sorted((each.get_window_extent().y0, each.get_window_extent().y1) for each in names.values())
    assert all(below[1] <= above[0] for below, above in pairwise(heights))
    for name, capacity in capacities.items():
        (_, place), height = seen[0].axes[3].transData.transform((1, capacity)), names[name].get_window_extent()
        assert height.y0 - height.height < place < height.y1 + height.height, "next to its line"
