"""Measuring by command: exit codes, held machines, limits."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commanded import started, wingspan

from bench.sweep.lock import hold_machine, lock_path


def test_a_failed_cell_exits_3(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    ran = wingspan("run", write_suite({"a": {"fail": "exit"}}), "--results", tmp_path / "results")
    assert ran.exit_code == 3
    assert "2 crashed" in ran.stderr
    assert "logs in" in ran.stderr


def test_a_held_machine_exits_75(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "other", "since": "now"}):
        ran = wingspan("run", write_suite({"a": {}}), "--results", tmp_path / "results")
    assert ran.exit_code == 75
    assert "suite other" in ran.stderr


def test_all_faults_of_a_suite_at_once(tmp_path: Path) -> None:
    suite = tmp_path / "bad.toml"
    suite.write_text('question = 3\n[sweep]\nmodel = []\nmethod = ["lroa"]\nbackend = ["hf"]\n[fixed]\nbach_size = 1\n')
    result = wingspan("run", suite, "--results", tmp_path)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 4
    for key in ("question", "sweep.model", "sweep.method[0]", "fixed.bach_size"):
        assert f"{suite}: {key}: " in result.stderr


def test_a_results_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert wingspan("run", "smoke", "--results", path).exit_code == 2


def test_a_reader_that_leaves_does_not_stop_a_sweep(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {}, "b": {}}), tmp_path / "results"
    process = started("run", suite, "--results", results, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    assert process.wait(60) in (0, 4)
    assert len(list((results / "runs").rglob("*.parquet"))) == 2


def test_closed_output_is_no_crash(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {}}), tmp_path / "results"
    command = f"exec {sys.executable} -m bench run {suite} --results {results} 2>&- >&-"
    assert subprocess.run(["sh", "-c", command], check=False, timeout=60).returncode == 0
    assert len(list((results / "runs").rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--memory-limit", "24"], '"24" has no unit: write 24GB'),
        (["--memory-limit", "24gigs"], '"24gigs" is no size of memory'),
        (["--memory-limit", "0GB"], "nothing runs in it"),
        (["--memory-like", "pc-rtx-5090"], 'machine "pc-rtx-5090" in suites/catalog/machines.toml; did you mean "pc-rtx-4090"?'),
        (["--memory-like", "pc-rtx-4090", "--memory-limit", "1GB"], "both set the limit"),
        (["--memory-limit", "900TB"], "--memory-limit asks for 900,000,000,000,000 bytes, and cpu of"),
        (["--memory-limit", "1GB", "--precision", "2%"], "leave one out"),
        (["--memory-watchdog", "5%"], "is no share of memory"),
        (["--night", "30.11.2026"], "is no night: give the date on which it began, in UTC, such as 2026-11-30"),
        (["--night", ""], "is no night"),
        (["--memory-watchdog", "lots"], "is no share of memory"),
    ],
)
def test_an_option_that_cannot_be_meant_exits_2_with_one_clear_message(
    write_suite: Callable[..., Path], tmp_path: Path, arguments: list[str], told: str
) -> None:
    result = wingspan("run", write_suite({"a": {}}), "--results", tmp_path / "results", *arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Traceback" not in result.output
    assert not list((tmp_path / "results").rglob("*.parquet"))


def test_a_run_is_held_to_a_limit(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = write_suite({"a": {"peak_bytes": 2_000_001}}), tmp_path / "results"
    limited = ("run", suite, "--results", results, "--memory-limit", "2MB", "--memory-watchdog", "off", "--json")
    result = wingspan(*limited)
    assert result.exit_code == 0
    assert [run["outcome"] for run in json.loads(result.stdout)["runs"]] == ["over_limit"]
    assert json.loads(wingspan(*limited).stdout)["runs"] == []
    assert len(json.loads(wingspan("run", suite, "--results", results, "--json").stdout)["runs"]) == 1
