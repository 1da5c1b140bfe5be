"""The top of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

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
    assert facts["Evidence"] == "measured (3 runs), stand-in (1 runs)"
    assert facts["Runs"] == "4: 3 ok, 1 timeout; of the ok ones 1 flagged, and left out of medians and ratios"
    assert facts["Schema"] == "1"
    assert overview.facts(findings()) == ()


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
    assert table.notes[0].startswith("1 cells pool runs of more than one set of packages")


def test_a_glance_tells_rate_and_meter_or_what_came_instead(run_row: Row, failed_row: Row) -> None:
    rows = [
        run_row(index=0, tokens_per_s=400.0),
        run_row(index=1, backend="hf", device="cpu", framework_peak_bytes=None),
        failed_row("oom_device", "full", index=2, backend="hf"),
        failed_row("unsupported", "no", index=3, backend="fake"),
        run_row(index=4, backend="hf", device="mps", flags=["throttled"]),
    ]
    (table,) = overview.glance(findings(*rows)).tables
    row = {heading: cell for (heading, _), cell in zip(table.columns, table.rows[0], strict=True)}
    place = "on mac-studio-m3-ultra"
    assert (row[f"mlx@metal {place}"].text, row[f"mlx@metal {place}"].tone) == ("400 tok/s, 20.0 GB", "good")
    assert row[f"hf@cpu {place}"].text == "400 tok/s, 3.00 GB (process)"
    assert (row[f"hf@cuda {place}"].text, row[f"hf@cuda {place}"].tone) == ("out of memory (device)", "bad")
    assert (row[f"fake@cpu {place}"].text, row[f"fake@cpu {place}"].tone) == ("unsupported", "quiet")
    assert row[f"hf@mps {place}"].text == "flagged runs only"


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
