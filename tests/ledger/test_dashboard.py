"""asv itself reads the ledger: its page shows a slower cell, and history outlives a change of the benchmarks' source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nightly_rows import CELLS, MakeRun, fill, git

from bench.ledger import asked, dashboard, place, repository
from bench.ledger.record import BENCHMARKS, record
from bench.provenance import ROOT
from bench.spec import BadInput

TRACKED = "track_ms_per_1000_tokens"


def graph(html: Path, machine: str = "box", name: str = TRACKED) -> list[list]:
    """The series that the page draws: revision, and a value per cell."""
    return json.loads((html / "graphs" / "branch-nights" / f"machine-{machine}" / f"{name}.json").read_text())


def asv(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The real asv in a folder, as a user calls it, with a home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(home), **variables}
    command = [sys.executable, "-m", "asv", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_page_shows_the_cell_and_the_night_of_a_slowdown(tmp_path: Path, make_run: MakeRun) -> None:
    def slow(number: int, cell: str) -> float:
        return 1.1 if number >= 7 and cell == CELLS[1] else 1.0

    fill(tmp_path, make_run, range(12), repeats=2, slow=slow)
    fill(tmp_path, make_run, [10, 11], CELLS[:1], repeats=1, machine="mac", machine_id="4567")
    record(tmp_path)
    index = dashboard.publish(tmp_path, tmp_path / "page")
    assert index.is_file()
    ((told, *_, steps),) = json.loads((tmp_path / "page" / "regressions.json").read_text())["regressions"]
    assert told == f"{TRACKED}('{CELLS[1]}')"
    ((before, at, level_before, level_after),) = steps
    assert (before, at) == (None, 7) or (before, at) == (6, 7), "nights count from 0: the eighth"
    assert level_after / level_before == pytest.approx(1.1, rel=0.01)
    values = graph(tmp_path / "page")
    assert [revision for revision, _ in values] == [*range(11), 12], "those of both machines count"
    assert values[7][1] == [pytest.approx(1000.5), pytest.approx(1100.55)]
    assert graph(tmp_path / "page", "mac") == [[revision, [1000.0, None]] for revision in (11, 13)], "a series of its own"
    listed = json.loads((tmp_path / "page" / "index.json").read_text())
    assert listed["params"] == {"machine": ["box", "mac"], "branch": ["nights"]}
    assert listed["benchmarks"][TRACKED]["unit"] == "ms"


def test_asv_works_in_the_root_as_it_is(tmp_path: Path, make_run: MakeRun) -> None:
    shutil.copy(ROOT / "asv.conf.json", tmp_path)
    shutil.copytree(BENCHMARKS, tmp_path / "bench" / "asv_bench", ignore=shutil.ignore_patterns("__pycache__"))
    fill(tmp_path / "results", make_run, range(2), repeats=1)
    record(tmp_path / "results")
    told = asv(tmp_path, "show")
    assert told.returncode == 0, told.stderr + told.stdout
    for commit in repository.commits(tmp_path / "results" / "asv" / "ledger"):
        assert commit[:8] in told.stdout
    night = asv(tmp_path, "show", "nights", "--bench", TRACKED)
    assert CELLS[0] in night.stdout
    published = asv(tmp_path, "publish")
    assert published.returncode == 0, published.stderr + published.stdout
    assert len(graph(tmp_path / "reports" / "asv")) == 2
    assert list((tmp_path / "home").iterdir()) == [], "no machine file was asked for or written"


REFACTORED = (("def setup", '"""As told."""\n\n    def setup'), ("class Cells", "class Renamed"), ("[figure]", "[str(figure)]"))


@pytest.mark.parametrize("pinned", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_history_survives_a_refactor_of_the_benchmark_file(tmp_path: Path, make_run: MakeRun, pinned: bool) -> None:
    benchmarks = tmp_path / "changed" / "asv_bench"
    shutil.copytree(BENCHMARKS, benchmarks, ignore=shutil.ignore_patterns("__pycache__"))
    source = (benchmarks / "cells.py").read_text()
    fill(tmp_path, make_run, range(2), repeats=1)
    record(tmp_path, benchmarks)
    old = {path: path.read_bytes() for path in (tmp_path / "asv" / "recorded").rglob("*-stored-runs.json")}
    for before, after in REFACTORED if pinned else (("version=VERSION", "version='2'"),):
        assert before in source
        source = source.replace(before, after)
    (benchmarks / "cells.py").unlink()
    (benchmarks / "moved.py").write_text(source)
    fill(tmp_path, make_run, [2], repeats=1)
    record(tmp_path, benchmarks)
    for path, content in old.items():  # as asv would have it, had it measured: what is recorded stays as it was
        path.write_bytes(content)
    dashboard.publish(tmp_path, tmp_path / "page")
    assert [revision for revision, _ in graph(tmp_path / "page")] == ([0, 1, 2] if pinned else [2])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without asv: its mark alone, written in as many steps as give others the time to come between."""

    def page(results: Path, lock: int, *arguments: str) -> None:
        folder = Path(arguments[-1])
        (folder / "graphs").mkdir(parents=True)
        for number in range(20):
            (folder / "graphs" / f"{number}.json").write_text(str(results))
            time.sleep(0.001)
        (folder / dashboard.MARK).touch()

    monkeypatch.setattr(dashboard, "_asv", page)


@pytest.mark.usefixtures("quick")
def test_the_page_takes_the_place_of_the_one_before_and_of_nothing_else(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    page = tmp_path / "reports" / "page"
    dashboard.publish(tmp_path, page)
    leave: tuple[Callable[[Path], object], ...] = (
        lambda path: (path / "graphs").mkdir(parents=True),
        lambda path: path.touch(),
        lambda path: path.symlink_to(tmp_path / "nowhere"),
        lambda path: path.symlink_to(tmp_path / "asv"),
    )
    for left_by_a_kill in leave:
        (page / "of before").touch()
        for name in ("._page.new", "._page.old"):
            left_by_a_kill(page.parent / name)
        dashboard.publish(tmp_path, page)
        assert not (page / "of before").exists()
        assert [path.name for path in page.parent.iterdir()] == ["page"]
    assert (tmp_path / "asv" / "ledger").is_dir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(BadInput, match="mine: holds something else than asv's page"):
        dashboard.publish(tmp_path, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()


@pytest.mark.usefixtures("quick")
def test_a_link_to_a_web_root_is_followed_each_time(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path / "results", make_run, [0], repeats=1)
    record(tmp_path / "results")
    (tmp_path / "www" / "nights").mkdir(parents=True)
    (tmp_path / "reports").mkdir()
    page = tmp_path / "reports" / "asv"
    page.symlink_to(tmp_path / "www" / "nights")
    for _ in range(3):
        assert dashboard.publish(tmp_path / "results", page) == page / "index.html"
        assert page.is_symlink()
        assert (tmp_path / "www" / "nights" / dashboard.MARK).is_file()
        (tmp_path / "www" / "nights" / "of before").touch()
    assert [path.name for folder in ("reports", "www") for path in (tmp_path / folder).iterdir()] == ["asv", "nights"]


@pytest.mark.usefixtures("quick")
def test_publishers_take_turns_whatever_their_results(tmp_path: Path, make_run: MakeRun) -> None:
    both = [tmp_path / "some", tmp_path / "others"]
    for results in both:
        fill(results, make_run, [0], repeats=1)
        record(results)
    page = tmp_path / "reports" / "page"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda results: dashboard.publish(results, page), both * 2))
    assert [path.name for path in page.parent.iterdir()] == ["page"]
    told = [path.read_text() for path in (page / "graphs").iterdir()]
    assert len(told) == 20
    assert len(set(told)) == 1


def test_asv_holds_the_ledger_for_as_long_as_it_runs(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left behind where its caller is killed: the lock is among what it inherits."""
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "asv.sh", "ls /dev/fd | tr '\\n' ' ' >&2; exit 1")))
    with place.held(tmp_path) as lock, pytest.raises(BadInput) as told:
        dashboard._asv(tmp_path, lock, "publish")
    assert str(lock) in str(told.value).split()


def test_a_ledger_of_another_user_is_published_too(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container, or on a disk of another computer. By a switch of its own tests git takes every owner for another."""
    results = tmp_path / 'it\'s "mine" \\ ré'
    fill(results, make_run, [0], repeats=1)
    (tmp_path / "another disk").mkdir()
    (results / "asv").symlink_to(tmp_path / "another disk")
    record(results)
    real = shutil.which("git")
    script(tmp_path / "bin" / "git", f'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    refused = subprocess.run(["git", "-C", results / "asv" / "ledger", "log"], capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr
    record(results)
    dashboard.publish(results, tmp_path / "page")
    assert len(graph(tmp_path / "page")) == 1


def script(path: Path, line: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_nothing_recorded_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="`wingspan export asv` records"):
        dashboard.publish(tmp_path, tmp_path / "page")


def test_without_git_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="git is not installed: install it"):
        dashboard.publish(tmp_path, tmp_path / "page")


def test_git_of_the_caller_has_no_say(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    dashboard.publish(tmp_path, tmp_path / "page")
    assert len(graph(tmp_path / "page")) == 1


def test_what_asv_says_when_it_fails_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    (tmp_path / "asv" / "recorded" / "benchmarks.json").unlink()
    with pytest.raises(BadInput, match=r"asv publish failed: .*benchmarks\.json missing"):
        dashboard.publish(tmp_path, tmp_path / "page")


def test_of_much_that_asv_says_the_end_is_told(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    line = "echo Detecting steps; printf 'x%.0s' $(seq 3000) >&2; echo ' No space left on device' >&2; exit 1"
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "asv.sh", line)))
    with pytest.raises(BadInput) as told:
        dashboard.publish(tmp_path, tmp_path / "page")
    assert str(told.value).startswith("asv publish failed: … xxx")
    assert str(told.value).endswith("xxx No space left on device")
    assert len(str(told.value)) < 330


@pytest.mark.slow
def test_asv_run_measures_what_is_recorded(tmp_path: Path, make_run: MakeRun) -> None:
    """The benchmarks are asv's own: run by it, in its processes, they give the same results to the digit."""
    fill(tmp_path, make_run, [0], j_per_token=0.5, repeats=1)
    fill(tmp_path, make_run, [1], CELLS[:1], outcome="crashed", tokens_per_s=None, j_per_token=0.5, repeats=1)
    record(tmp_path)
    configuration = dashboard.configure(tmp_path, tmp_path / "page")
    first, second = repository.commits(tmp_path / "asv" / "ledger")
    (tmp_path / "home").mkdir()
    machine = dict.fromkeys(("os", "arch", "cpu", "num_cpu", "ram"), "x") | {"machine": "box"}
    (tmp_path / "home" / ".asv-machine.json").write_text(json.dumps({"box": machine, "version": 1}))
    for commit, night in ((first, "2026-11-01"), (second, "2026-11-02")):
        variables = {asked.RESULTS: str(tmp_path), asked.MACHINE: "box", asked.NIGHT: night, "ASV_PYTHONPATH": str(ROOT)}
        arguments = ("--python=same", "--set-commit-hash", commit, "--machine", "box", "--record-samples")
        done = asv(tmp_path, "run", "--config", str(configuration), *arguments, **variables)
        assert done.returncode == (0 if night == "2026-11-01" else 2), done.stdout + done.stderr
        recorded, measured = (
            json.loads(path.read_text())
            for path in sorted(
                (tmp_path / "asv" / "recorded" / "box").glob(f"{commit[:8]}-*.json"), key=lambda path: "existing" in path.name
            )
        )
        for name, values in recorded["results"].items():
            assert repr(values[:3]) == repr(measured["results"][name][:3])
            assert repr(values[5:]) == repr(measured["results"][name][5:])
    assert git(tmp_path / "asv" / "ledger", "status", "--short", "--branch").startswith("## nights")
