"""pytest-benchmark itself compares what is exported."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from nightly_rows import CELLS, MakeRun, label, stored_run

from bench import store
from bench.export import pytest_benchmark as storage
from bench.record import Step
from bench.spec import BadInput


def step(number: int, duration_s: float, phase: str = "measured") -> Step:
    return Step(step=number, phase=phase, start_s=0.0, duration_s=duration_s, tokens=32, loss_tokens=31, loss=None)


def fill(results: Path, make_run: MakeRun, number: int, duration_s: float, cells=CELLS, **values) -> None:
    for cell in cells:
        for repeat in range(2):
            steps = [step(1, 9.0, "warmup"), step(2, duration_s), step(3, duration_s + 0.002 * (repeat + 1))]
            store.append(results, stored_run(make_run, label(number), cell, repeat, **values), steps)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


def test_a_file_per_machine_and_night_in_their_order(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, 1, 0.5)
    fill(tmp_path / "results", make_run, 0, 0.5)
    fill(tmp_path / "results", make_run, 4, 0.5, machine="a/b", machine_id="4567")
    done = storage.write(tmp_path / "results", tmp_path / "out")
    assert done.damaged == ()
    assert [str(path.relative_to(tmp_path / "out")) for path in done.paths] == [
        *("a%2Fb/0001_2026-11-05.json", "box/0001_2026-11-01.json", "box/0002_2026-11-02.json")
    ]


def test_a_benchmark_is_a_cell_and_a_round_a_measured_step(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, 0, 0.5)
    (path,) = storage.write(tmp_path / "results", tmp_path / "out").paths
    told = read(path)
    assert [each["name"] for each in told["benchmarks"]] == list(CELLS)
    benchmark = told["benchmarks"][0]
    assert benchmark["fullname"] == f"{CELLS[0]}#1111111111111111"
    assert benchmark["stats"]["data"] == [0.5, 0.502, 0.5, 0.504]
    assert benchmark["stats"]["median"] == statistics.median([0.5, 0.502, 0.5, 0.504])
    assert (benchmark["stats"]["rounds"], benchmark["stats"]["iterations"], benchmark["params"]) == (4, 1, None)
    assert len(benchmark["extra_info"]["run_ids"]) == 2
    assert told["machine_info"]["node"] == "box"
    assert told["machine_info"]["processor"] == "Test Chip"
    assert told["datetime"] == "2026-11-01T00:00:00+00:00"


def test_a_batch_of_requests_is_one_round(tmp_path: Path, make_run: MakeRun) -> None:
    steps = [step(1, 1.0, "warmup"), step(2, 0.25, "prefill"), step(2, 0.5, "decode")]
    store.append(tmp_path / "results", stored_run(make_run, label(0), CELLS[0]), steps)
    (path,) = storage.write(tmp_path / "results", tmp_path / "out").paths
    assert read(path)["benchmarks"][0]["stats"]["data"] == [0.75]


THROTTLED = {"flags": ("idle-drift", "thermal_throttling")}


def test_flagged_failed_and_stepless_runs_are_left_out_and_told(tmp_path: Path, make_run: MakeRun) -> None:
    for number, values in enumerate((THROTTLED, {"outcome": "crashed"}, {})):
        store.append(tmp_path / "results", stored_run(make_run, label(number), CELLS[0], **values), [step(1, 0.5)] * (number < 2))
    told = (
        "2026-11-01 of box is left out: 1 run flagged (thermal_throttling)",
        "2026-11-02 of box is left out: 1 run failed (crashed)",
        "2026-11-03 of box is left out: 1 run without a measured step",
    )
    assert storage.write(tmp_path / "results", tmp_path / "out") == storage.Exported((), told, ())
    assert not (tmp_path / "out").exists()


def test_a_night_that_is_left_out_is_told_with_all_its_reasons(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, 0, 0.5)
    fill(tmp_path / "results", make_run, 1, 0.5, CELLS[:1], **THROTTLED)
    fill(tmp_path / "results", make_run, 1, 0.5, CELLS[1:], outcome="oom_device")
    fill(tmp_path / "results", make_run, 2, 0.5, CELLS[:1], **THROTTLED)
    fill(tmp_path / "results", make_run, 2, 0.5, CELLS[1:])
    done = storage.write(tmp_path / "results", tmp_path / "out")
    assert [path.name for path in done.paths] == ["0001_2026-11-01.json", "0002_2026-11-03.json"]
    assert done.left_out == ("2026-11-02 of box is left out: 2 runs failed (oom_device); 2 runs flagged (thermal_throttling)",)


def test_runs_of_no_night_go_by_their_day(tmp_path: Path, make_run: MakeRun) -> None:
    run = replace(stored_run(make_run, label(3), CELLS[0]), night=None)
    store.append(tmp_path / "results", run, [step(1, 0.5)])
    (path,) = storage.write(tmp_path / "results", tmp_path / "out").paths
    assert path.name == f"0001_{label(3)}.json"


def test_cells_that_share_an_id_stay_apart(tmp_path: Path, make_run: MakeRun) -> None:
    for repeat, key in enumerate(("a" * 16, "b" * 16)):
        store.append(tmp_path / "results", stored_run(make_run, label(0), CELLS[0], repeat, cell_key=key), [step(1, 0.5)])
    (path,) = storage.write(tmp_path / "results", tmp_path / "out").paths
    assert [each["fullname"][-2:] for each in read(path)["benchmarks"]] == ["aa", "bb"]


def test_again_is_the_same_and_a_late_night_takes_its_place(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, 1, 0.5)
    first = {path: path.read_bytes() for path in storage.write(tmp_path / "results", tmp_path / "out").paths}
    assert {path: path.read_bytes() for path in storage.write(tmp_path / "results", tmp_path / "out").paths} == first
    (tmp_path / "out" / "box" / "0009_mine.json").touch()
    fill(tmp_path / "results", make_run, 0, 0.5)
    storage.write(tmp_path / "results", tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out" / "box").iterdir())
    assert names == ["0001_2026-11-01.json", "0002_2026-11-02.json", "0009_mine.json"]


def test_without_pytest_benchmark_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(storage, "version", missing)
    with pytest.raises(BadInput, match="is missing: pip install pytest-benchmark"):
        storage.write(tmp_path, tmp_path / "out")


def test_pytest_benchmark_compares_the_nights(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, 0, 0.5)
    fill(tmp_path / "results", make_run, 1, 0.75)
    storage.write(tmp_path / "results", tmp_path / "out")
    command = [
        sys.executable,
        "-c",
        "from pytest_benchmark.cli import main; main()",
        "--storage",
        str(tmp_path / "out"),
        "compare",
    ]
    options = ["--csv", str(tmp_path / "told.csv"), "--columns", "median,rounds", "--group-by", "fullname"]
    options += ["--name", "long", "--sort", "name"]  # as docs/exports.md has it: the short name has no room for the date
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for cell in CELLS:
        assert f"benchmark '{cell}#" in done.stdout
    assert done.stdout.index("(0001_2026-11-01)") < done.stdout.index("(0002_2026-11-02)")
    assert "(1.50)" in done.stdout, "the second night beside the first"
    assert "WARNING" not in done.stdout + done.stderr
    assert (tmp_path / "told.csv").read_text().count("\n") == 5
