"""`wingspan export`: what is written where, what is said, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from commanded import wingspan
from nightly_rows import CELLS, MakeRun, fill, label
from stored_rows import STEPS, file_of

from bench import store


@pytest.fixture
def results(tmp_path: Path, make_run: MakeRun) -> Path:
    fill(tmp_path / "results", make_run, range(2), CELLS[:1], repeats=1)
    return tmp_path / "results"


def test_csv_on_standard_output_or_in_a_file(tmp_path: Path, results: Path) -> None:
    told = wingspan("export", "csv", "--results", results)
    assert (told.exit_code, told.stderr) == (0, "")
    assert [row["night"] for row in csv.DictReader(io.StringIO(told.stdout))] == [label(0), label(1)]
    path = tmp_path / "new" / "runs.csv"
    told = wingspan("export", "csv", "--results", results, "--out", path)
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", f"{path}\n")
    assert path.read_text() == wingspan("export", "csv", "--results", results).stdout
    assert wingspan("export", "csv", "--results", results, "--table", "steps").stdout.startswith("run_id,step,phase,")


def test_damaged_files_end_it_with_4(results: Path) -> None:
    harmed = file_of(results, f"box-{label(0)}-tiny-lora-hf-cpu-0")
    harmed.write_bytes(b"PAR1")
    for arguments in (["csv"], ["pytest-benchmark", "--out", results / "out"], ["asv", "--no-html"]):
        told = wingspan("export", *arguments, "--results", results)
        assert told.exit_code == 4
        assert str(harmed) in told.stderr


def test_pytest_benchmark_names_its_files(tmp_path: Path, results: Path, make_run: MakeRun) -> None:
    out = tmp_path / "storage"
    told = wingspan("export", "pytest-benchmark", "--results", results, "--out", out)
    left_out = [f"{label(number)} of box is left out: 1 run without a measured step" for number in range(2)]
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr.splitlines() == [*left_out, f"{results}: no run to export"]
    store.append(results, make_run("with-steps"), STEPS)
    told = wingspan("export", "pytest-benchmark", "--results", results, "--out", out)
    assert (told.exit_code, told.stdout) == (0, f"{out}/box/0003_2026-11-30.json\n")
    assert told.stderr.splitlines() == left_out


def test_asv_records_and_publishes(tmp_path: Path, results: Path) -> None:
    page = tmp_path / "page"
    told = wingspan("export", "asv", "--results", results, "--html", page)
    assert (told.exit_code, told.stdout) == (0, f"2 nights in the ledger, 2 new\n{page}/index.html\n")
    told = wingspan("export", "asv", "--results", results, "--no-html", "--json")
    assert json.loads(told.stdout) == {"nights": 2, "added": 0, "rewritten_from": None, "damaged": [], "page": None}


def test_asv_without_nights_makes_no_page(tmp_path: Path) -> None:
    told = wingspan("export", "asv", "--results", tmp_path, "--html", tmp_path / "page")
    assert (told.exit_code, told.stdout.startswith("no run belongs to a night yet")) == (0, True)
    assert not (tmp_path / "page").exists()


def test_what_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "bench.ledger.recording", raising=False)
    for name in [each for each in sys.modules if each.split(".")[0] == "asv"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asv", None)
    told = wingspan("export", "asv", "--results", tmp_path)
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == "asv, which draws the history of nights, is not installed: pip install -e '.[nightly]'\n"


def test_another_format_is_refused() -> None:
    assert wingspan("export", "xlsx").exit_code == 2
