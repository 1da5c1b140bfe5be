"""asv's result files, written in one process by asv's own classes; nothing of asv's import stays behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nightly_rows import MakeRun, fill

from bench.ledger import asked, recording
from bench.ledger.record import BENCHMARKS


@pytest.fixture
def nights(tmp_path: Path, make_run: MakeRun):
    fill(tmp_path, make_run, range(2), repeats=1)
    asked.known.cache_clear()
    return asked.known(tmp_path).nights


def write(results: Path, nights, benchmarks: Path = BENCHMARKS) -> Path:
    recording.write(results, results / "recorded", nights, ["a" * 40, "b" * 40], benchmarks)
    return results / "recorded"


def test_a_file_per_night_machine_and_one_of_benchmarks(tmp_path: Path, nights) -> None:
    folder = write(tmp_path, nights)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        *("benchmarks.json", "box/aaaaaaaa-stored-runs.json", "box/bbbbbbbb-stored-runs.json", "box/machine.json")
    ]


def test_only_what_differs_is_written_and_the_rest_of_ours_removed(tmp_path: Path, nights) -> None:
    folder = write(tmp_path, nights)
    before = {path.name: path.stat().st_ino for path in folder.rglob("*.json")}
    (folder / "box" / "aaaaaaaa-stored-runs.json").write_text("{")
    (folder / "box" / "cccccccc-stored-runs.json").write_text("{}")
    (folder / "gone").mkdir()
    (folder / "gone" / "machine.json").write_text("{}")
    write(tmp_path, nights)
    after = {path.name: path.stat().st_ino for path in folder.rglob("*.json")}
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["aaaaaaaa-stored-runs.json"]
    assert not (folder / "gone").exists()


def test_what_a_kill_left_is_found_and_cleared(tmp_path: Path, nights) -> None:
    whole = write(tmp_path, nights)
    before = {path.relative_to(whole) for path in whole.rglob("*")}
    (tmp_path / "staging" / "gone").mkdir(parents=True)
    (tmp_path / "staging" / "gone" / "cccccccc-stored-runs.json").write_text("{")
    write(tmp_path, nights)
    assert {path.relative_to(whole) for path in whole.rglob("*")} == before
    assert not (tmp_path / "staging").exists()


def test_importing_the_benchmarks_leaves_no_trace(tmp_path: Path, nights, capsys: pytest.CaptureFixture[str]) -> None:
    def traces() -> tuple:
        return list(sys.meta_path), [name for name in sys.modules if name.startswith("asv_bench")], dict(os.environ)

    before = traces()
    write(tmp_path, nights)
    assert traces() == before
    assert capsys.readouterr().out == "", "asv tells what it skips"


def test_a_fault_in_a_benchmark_is_no_failed_cell(tmp_path: Path, nights) -> None:
    folder = tmp_path / "asv_bench"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "cells.py").write_text("class Cells:\n    params = (['x'],)\n    def track_it(self, cell):\n        return 1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        write(tmp_path, nights, folder)
    assert not (tmp_path / "recorded").exists()
