"""The top of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from bench.report import overview
from bench.report.findings import Findings, gather

Row = Callable[..., dict[str, Any]]


def findings(*rows: dict[str, Any]) -> Findings:
    return gather(pd.DataFrame(list(rows)), pd.DataFrame())


def test_questions_come_once_each_in_the_order_of_their_first_runs(run_row: Row) -> None:
    rows = [
        run_row(index=2, question="late?"),
        run_row(index=1, question="early?"),
        run_row(index=3, question="early?"),
        run_row(index=4, question=None),
    ]
    assert overview.questions(findings(*rows)) == ("early?", "late?")


def test_facts_count_runs_by_outcome_and_name_the_evidence(run_row: Row, failed_row: Row) -> None:
    rows = [
        run_row(index=0),
        run_row(index=1, flags=["cold"]),
        failed_row("timeout", "hung", index=2),
        run_row(index=3, tier="stand-in"),
    ]
    facts = dict(overview.facts(findings(*rows)))
    assert facts["Evidence of the runs"] == "measured (3 runs), stand-in (1 run)"
    assert facts["Runs"] == "4: 3 ok, 1 timeout; of the ok ones 1 flagged, each left out of the figures that its flags spoil"
    assert facts["Schema"] == "2"
    assert overview.facts(findings()) == ()


def test_a_nightly_cell_counts_by_its_last_night_and_the_others_are_told(run_row: Row) -> None:
    nights = [
        run_row(index=index, night=f"2026-11-0{index + 1}", tokens_per_s=rate) for index, rate in enumerate((50.0, 60.0, 70.0))
    ]
    found = findings(*nights)
    assert dict(overview.facts(found))["Nights"] == "2 runs of earlier nights are left out: each cell's last night counts"
    assert list(found.summaries["tokens_per_s"]) == pytest.approx([70.0])
    assert "Nights" not in dict(overview.facts(findings(run_row(index=0, night=None))))


def test_revisions_that_differ_are_all_named(run_row: Row) -> None:
    facts = dict(overview.facts(findings(run_row(index=0, source_revision="b-dirty"), run_row(index=1, source_revision="a"))))
    assert facts["Source revision"] == "a, b-dirty"


def test_software_lists_every_version_seen_and_says_where_they_were_pooled(run_row: Row) -> None:
    rows = [
        run_row(index=0, versions={"mlx": "1"}),
        run_row(index=1, versions={"mlx": "2", "a": "3"}, environment_digest="other"),
    ]
    (table,) = overview.software(findings(*rows)).tables
    assert [cell.text for cell in table.rows[0]] == ["mlx@metal on mac-studio-m3-ultra", "a 3, mlx 1 or 2"]
    assert table.notes[0].startswith("1 cell pools runs of more than one set of packages")


def test_a_glance_tells_rate_and_meter_or_what_came_instead(run_row: Row, failed_row: Row) -> None:
    rows = [
        run_row(index=0, tokens_per_s=400.0),
        run_row(index=1, backend="hf", device="cpu", framework_peak_bytes=None),
        failed_row("oom_device", "full", index=2, backend="hf"),
        failed_row("unsupported", "no", index=3, backend="fake"),
        run_row(index=4, backend="hf", device="mps", flags=["throttled"]),
    ]
    (table,) = overview.glance(findings(*rows)).tables
    found = {row[1].text: row[2:] for row in table.rows}
    assert [cell.text for cell in found["mlx@metal"]] == ["400 (1 run)", "3.00 GB process, 20.0 GB mlx's own counter"]
    assert [cell.text for cell in found["hf@cpu"]] == ["400 (1 run)", "3.00 GB process"]
    told = {backend: (cells[0].text, cells[0].tone) for backend, cells in found.items()}
    assert told["mlx@metal"][1] == "good"
    assert told["hf@cuda"] == ("out of memory (device)", "bad")
    assert told["fake@cpu"] == ("unsupported", "quiet")
    assert told["hf@mps"] == ("rate spoilt (throttled)", "quiet")


def test_a_glance_tells_the_geometric_mean_and_its_spread(run_row: Row) -> None:
    rows = [run_row(index=index, tokens_per_s=rate) for index, rate in enumerate((390.0, 400.0, 410.0))]
    rows += [run_row(index=index, tokens_per_s=rate, machine="pc") for index, rate in enumerate((100.0, 900.0))]
    section = overview.glance(findings(*rows))
    told = {row[1].text: row[2].text for row in section.tables[0].rows}
    assert told["mlx@metal on mac-studio-m3-ultra"] == "400 (95%: 376 – 426; 3 runs)"
    assert told["mlx@metal on pc"] == "300 (95%: over 100-fold wide; 2 runs)"
    assert section.warnings[0].startswith("Runs of one cell differ up to 9.0-fold (1 of 2 cells more than 2-fold)")


def test_runs_that_agree_are_no_reason_to_warn(run_row: Row) -> None:
    rows = [run_row(index=0), run_row(index=1, tokens_per_s=799.0), run_row(index=2, tokens_per_s=9.0, flags=["throttled"])]
    assert overview.glance(findings(*rows)).warnings == ()


def test_the_top_counts_the_cells_of_the_grid(run_row: Row, failed_row: Row) -> None:
    rows = [run_row(), run_row(backend="hf", device="mps"), failed_row("crashed", "gone", method="full")]
    assert dict(overview.facts(findings(*rows)))["Cells"] == "2 of 4 cells measured, 1 not run yet"


def test_a_glance_says_how_many_workloads_it_leaves_out(run_row: Row) -> None:
    (table,) = overview.glance(findings(*(run_row(index=size, batch_size=size) for size in range(1, 44)))).tables
    assert len(table.rows) == overview.ROWS_AT_A_GLANCE
    assert table.notes == ("3 more workloads stand in the summaries.",)


def test_machines_are_told_as_their_runs_describe_them(run_row: Row) -> None:
    (table,) = overview.machines(findings(run_row(), run_row(index=1, machine="pc-rtx-4090", backend="hf"))).tables
    assert [cell.text for cell in table.rows[1]][:5] == [
        "pc-rtx-4090",
        "Intel Core i9-14900K",
        "67.1 GB",
        "NVIDIA GeForce RTX 4090",
        "Ubuntu 24.04",
    ]


def test_the_top_says_how_many_cells_have_no_rate(run_row: Row) -> None:
    rows = [run_row(), run_row(method="full", flags=["throttled"]), run_row(method="qlora", flags=["swapped"])]
    assert dict(overview.facts(findings(*rows)))["Cells"] == "2 of 3 cells measured, 1 of them without a rate, which flags spoil"


def test_a_glance_shows_the_memory_of_a_cell_whose_rate_is_spoilt(run_row: Row) -> None:
    device = {"device_peak_bytes": 21_000_000_000, "device_peak_scope": "process"}
    (table,) = overview.glance(findings(run_row(flags=["throttled"], **device))).tables
    assert table.rows[0][3].text == "3.00 GB process, 21.0 GB device, 20.0 GB mlx's own counter"


def test_a_glance_names_the_limit_that_runs_were_held_to(run_row: Row) -> None:
    held = {"flags": ["limited"], "capacity_bytes": 2_000_000_000}
    (table,) = overview.glance(findings(run_row(index=0), run_row(index=1, **held))).tables
    assert {row[1].text for row in table.rows} == {"mlx@metal", "mlx@metal, held to 2 GB"}
