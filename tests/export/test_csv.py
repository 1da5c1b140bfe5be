"""Comma-separated values as pandas, DuckDB and the csv module read them, and no formula for a spreadsheet to run."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from stored_rows import READINGS, STEPS, file_of, rows_of

from bench import store
from bench.export.csv import write

AWKWARD = {
    "reason": 'said "no", twice;\nthen left',
    "flags": ("thermal_throttling", "swap"),
    "versions": {"torch": "2.13.0+cpu", "python": "3.11.7"},
    "tokens_per_s": 0.1 + 0.2,
    "host_peak_bytes": 2**53 + 1,
    "loss_first": float("nan"),
    "loss_last": float("inf"),
    "swap_growth_bytes": -1,
    "chip": "Zürich ™",
}


def text_of(results: Path, table: str = "runs") -> str:
    into = io.StringIO()
    assert write(results, table, into) == ()
    return into.getvalue()


def row_of(results: Path) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO(text_of(results)))
    return row


def test_every_column_of_every_table_and_nothing_else(tmp_path: Path, make_run) -> None:
    store.append(tmp_path, make_run(), STEPS, READINGS)
    for table in ("runs", "steps", "readings"):
        header, *lines = csv.reader(io.StringIO(text_of(tmp_path, table)))
        assert header == [*store.SCHEMAS[table].names, "machine"]
        assert len(lines) == len(rows_of(tmp_path, table))


def test_values_are_read_back_as_they_are(tmp_path: Path, make_run) -> None:
    store.append(tmp_path, make_run(**AWKWARD))
    row = row_of(tmp_path)
    assert row["reason"] == AWKWARD["reason"]
    assert json.loads(row["flags"]) == list(AWKWARD["flags"])
    assert json.loads(row["versions"]) == AWKWARD["versions"]
    assert float(row["tokens_per_s"]) == AWKWARD["tokens_per_s"], "to the last digit"
    assert int(row["host_peak_bytes"]) == 2**53 + 1
    assert (row["loss_first"], row["loss_last"], row["swap_growth_bytes"]) == ("nan", "inf", "-1")
    assert row["chip"] == "Zürich ™"
    assert row["started_at"] == "2026-11-30T02:15:00.123456Z"
    assert row["gradient_checkpointing"] == "true"
    assert row["power_w"] == "", "not measured"


def test_pandas_and_duckdb_read_it(tmp_path: Path, make_run) -> None:
    for number in range(3):
        store.append(tmp_path / "results", make_run(f"run-{number}", **AWKWARD))
    path = tmp_path / "runs.csv"
    path.write_text(text_of(tmp_path / "results"), encoding="utf-8")
    frame = pd.read_csv(path, parse_dates=["started_at"])
    assert frame["tokens_per_s"].tolist() == [AWKWARD["tokens_per_s"]] * 3
    assert str(frame["started_at"].dt.tz) == "UTC"
    assert frame["gradient_checkpointing"].dtype == bool
    assert frame["host_peak_bytes"].tolist() == [2**53 + 1] * 3
    rows = duckdb.sql(f"SELECT run_id, reason, tokens_per_s FROM read_csv('{path}') ORDER BY run_id").fetchall()
    assert rows == [(f"run-{number}", AWKWARD["reason"], AWKWARD["tokens_per_s"]) for number in range(3)]


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x")', "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_text_is_a_formula(tmp_path: Path, make_run, text: str) -> None:
    store.append(tmp_path, make_run(reason=text, machine=f"m{text.replace('/', '')}" if text.isprintable() else "box"))
    assert row_of(tmp_path)["reason"] == "'" + text.replace("\r", "\n")


def test_no_runs_are_a_header(tmp_path: Path) -> None:
    assert text_of(tmp_path / "nowhere").count("\n") == 1


def test_damaged_files_are_named_and_the_rest_is_written(tmp_path: Path, make_run) -> None:
    store.append(tmp_path, make_run("run-1"))
    store.append(tmp_path, make_run("run-2"))
    file_of(tmp_path, "run-1").write_bytes(b"PAR1")
    into = io.StringIO()
    (damaged,) = write(tmp_path, "runs", into)
    assert damaged.path == file_of(tmp_path, "run-1")
    assert damaged.path.exists()
    assert [row["run_id"] for row in csv.DictReader(io.StringIO(into.getvalue()))] == ["run-2"]
