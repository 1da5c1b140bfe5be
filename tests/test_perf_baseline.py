"""`nox -s perf`: a missing baseline is made, a slowdown fails, a corrupt baseline is an error, and the rest is told."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from perf import baseline

SCRIPT = Path(__file__).parent / "perf" / "baseline.py"
TINY = """
import os
from time import process_time

import pytest

pytestmark = pytest.mark.benchmark(timer=process_time)


def work(name):
    until_s = process_time() + 0.02 * float(os.environ.get(name, "1"))
    while process_time() < until_s:
        pass


@pytest.mark.parametrize("size", ["a parameter of some length"], ids=["some"])
def test_a_hot_path(benchmark, size):
    benchmark.pedantic(work, ("HOT",), rounds=5)


@pytest.mark.benchmark(group="ratio")
def test_a_ratio(benchmark):
    benchmark.pedantic(work, ("RATIO",), rounds=2)


def test_another(benchmark):
    benchmark.pedantic(work, ("OTHER",), rounds=2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Benchmarks in benchmarks/, and nothing in results/."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "test_tiny.py").write_text(TINY)
    return tmp_path


def perf(folder: Path, *arguments: str, **slower: int) -> "subprocess.CompletedProcess[str]":
    """Run the benchmarks as the session does; `slower` says how many times as long a part of them takes."""
    command = [sys.executable, SCRIPT, "--benchmarks", folder / "benchmarks", "--results", folder / "results", *arguments]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment = {**alone, **{name: str(factor) for name, factor in slower.items()}}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)


def stored(folder: Path, name: str = "baseline.json") -> Path:
    (found,) = (folder / "results" / "perf").glob(f"*/{name}")
    return found


def names(path: Path) -> list[str]:
    return [each["name"] for each in json.loads(path.read_text())["benchmarks"]]


def test_a_baseline_is_made_kept_and_compared_with(folder: Path) -> None:
    first = perf(folder, "-k", "not another")
    assert first.returncode == 0, first.stdout + first.stderr
    assert names(stored(folder)) == ["test_a_hot_path[some]"]
    made = stored(folder).read_bytes()
    assert b"a parameter" not in made
    assert b'"data"' not in made

    slow = perf(folder, "-k", "not another", HOT=2, RATIO=2)
    assert slow.returncode == 1
    hot = r"^perf: slower: benchmarks/test_tiny\.py::test_a_hot_path\[some\]: [\d.]+ ms -> [\d.]+ ms \(\+\d+%\)$"
    assert re.search(hot, slow.stderr, re.MULTILINE)
    assert "perf: slower, so measured once more: benchmarks/test_tiny.py::test_a_hot_path[some]" in slow.stderr
    assert "Performance has regressed" in slow.stdout + slow.stderr
    assert "test_a_ratio" not in slow.stderr
    assert stored(folder).read_bytes() == made
    assert names(stored(folder, "latest.json")) == ["test_a_hot_path[some]", "test_a_ratio"]

    same = perf(folder)
    assert same.returncode == 0, same.stdout + same.stderr
    assert "1 compared with" in same.stderr
    assert "baseline.json: added to: benchmarks/test_tiny.py::test_another" in same.stderr
    assert names(stored(folder)) == ["test_a_hot_path[some]", "test_another"]

    other = json.loads(stored(folder).read_text())
    other["environment"]["python"] = "3.9.1"
    del other["benchmarks"][1]
    stored(folder).write_text(json.dumps(other))
    told = perf(folder, "-k", "not ratio")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "baseline.json is of another environment: Python 3.9.1 -> 3." in told.stderr
    assert "1 compared with" in told.stderr
    assert json.loads(stored(folder).read_text()) == other


def test_what_is_slow_once_is_measured_again_and_passes(folder: Path) -> None:
    """As if a neighbour had used the processor meanwhile: the first process of the second call takes twice as long."""
    assert perf(folder, "-k", "hot").returncode == 0
    tiny, once = folder / "benchmarks" / "test_tiny.py", folder / "once"
    busy = (
        f"import os, pathlib\nonce = pathlib.Path({str(once)!r})\n"
        "if not once.exists():\n    os.environ['HOT'] = '2'\n    once.touch()\n"
    )
    tiny.write_text(busy + tiny.read_text())
    done = perf(folder, "-k", "hot")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "perf: slower, so measured once more: benchmarks/test_tiny.py::test_a_hot_path[some]" in done.stderr
    assert "1 compared with" in done.stderr
    (measured,) = json.loads(stored(folder, "latest.json").read_text())["benchmarks"]
    assert measured["stats"]["median"] < 0.03


def test_a_corrupt_baseline_is_an_error_before_anything_is_measured(folder: Path) -> None:
    machine = baseline.this_machine()
    path = folder / "results" / "perf" / f"{machine.name}-{machine.machine_id}" / "baseline.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"benchmarks": [')
    done = perf(folder)
    assert (done.returncode, done.stdout) == (2, "")
    (told,) = done.stderr.splitlines()
    assert told.startswith(f"perf: {path}: not a baseline that can be compared with (JSONDecodeError")
    assert told.endswith("remove the file, and the next run makes it anew")
    assert path.read_text() == '{"benchmarks": ['


def test_benchmarks_that_fail_make_no_baseline(folder: Path) -> None:
    tiny = folder / "benchmarks" / "test_tiny.py"
    tiny.write_text(tiny.read_text() + "    assert False\n")
    done = perf(folder)
    assert done.returncode == 1
    assert "perf: not passed; what was measured stands in" in done.stderr
    assert not list((folder / "results" / "perf").glob("*/baseline.json"))


STATS = {
    **{"min": 1.0, "max": 2.0, "mean": 1.5, "median": 1.5, "iqr": 0.1, "stddev": 0.1, "ops": 0.7, "rounds": 5, "iterations": 1},
    "outliers": "0;0",
}


def benchmark(name: str = "a", group: str | None = None, **stats: Any) -> dict[str, Any]:
    return {"fullname": name, "group": group, "params": {"x": "y" * 999}, "param": "y", "stats": {**STATS, **stats}}


def document(*benchmarks: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {"machine_info": {}, "datetime": "2026-11-30", "benchmarks": list(benchmarks), **values}


def whole(*benchmarks: dict[str, Any]) -> dict[str, Any]:
    return baseline.lean(document(*benchmarks))


def test_what_was_written_can_be_loaded_and_a_missing_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    assert baseline.load(path) is None
    path.write_text(json.dumps(whole(benchmark())))
    assert baseline.load(path) == whole(benchmark())


BAD = {
    "cut short": b'{"benchmarks": [{"fulln',
    "no text": b"\xff\xfe\x00",
    "another kind": b"[]",
    "nested beyond measure": b"[" * 100_000,
    "nothing in it": json.dumps(document(environment={"packages": {}})).encode(),
    "no environment": json.dumps(document(benchmark())).encode(),
    "a median that is no number": json.dumps(whole(benchmark(median="1.5"))).encode(),
    "a median of nothing": json.dumps(whole(benchmark(median=0))).encode(),
    "a median that is infinite": json.dumps(whole(benchmark(median=float("inf")))).encode(),
    "a figure that is not there": json.dumps(whole({**benchmark(), "stats": {"median": 1.0}})).encode(),
    "one twice": json.dumps(whole(benchmark(), benchmark())).encode(),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_what_pytest_benchmark_would_pass_by_is_corrupt(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(baseline.Corrupt, match=r"baseline\.json: not a baseline .*remove the file"):
        baseline.load(path)


def test_a_folder_in_its_place_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(baseline.Corrupt, match="IsADirectoryError"):
        baseline.load(tmp_path)


def test_parameters_and_single_timings_are_left_out() -> None:
    (kept,) = whole(benchmark(data=[1.0] * 1000))["benchmarks"]
    assert len(json.dumps(kept)) < 500
    assert kept["stats"] == STATS


def test_another_python_and_other_packages_are_told() -> None:
    made = whole(benchmark())
    assert baseline.outdated(made) == []
    made["environment"]["python"] = "3.9.1"
    made["environment"]["packages"] |= {"click": "1.0", "gone": "2.0"}
    del made["environment"]["packages"]["pytest"]
    python, click, gone, tool = baseline.outdated(made)
    assert python.startswith("Python 3.9.1 -> 3.")
    assert click.startswith("click 1.0 -> ")
    assert gone == "gone 2.0 -> absent"
    assert tool.startswith("pytest absent -> ")
    made["environment"]["packages"] |= {f"package-{number}": "1" for number in range(20)}
    assert (len(baseline.outdated(made)), baseline.outdated(made)[-1]) == (13, "and 12 more")


def test_a_baseline_keeps_what_it_has_and_takes_in_what_it_lacks() -> None:
    old, new = whole(benchmark("a", median=1.0)), whole(benchmark("a"), benchmark("b"), benchmark("c", group="ratio"))
    grown, added = baseline.grown(old, new)
    assert added == ["b"]
    assert [(each["fullname"], each["stats"]["median"]) for each in grown["benchmarks"]] == [("a", 1.0), ("b", 1.5)]
    assert baseline.medians(grown, new) == [("a", 1.0, 1.5), ("b", 1.5, 1.5)]
    assert baseline.slower(grown, new) == [("a", 1.0, 1.5)]
    assert baseline.slower(whole(benchmark("a", median=1.26)), new) == []
