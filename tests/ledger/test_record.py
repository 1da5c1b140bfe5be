"""Recording is idempotent, incremental, told, and survives a kill at any moment."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from nightly_rows import CELLS, NEW, MakeRun, contents, fill, git, label, stored_run
from stored_rows import file_of

from bench import store
from bench.ledger import place
from bench.ledger.record import Recorded, record
from bench.spec import BadInput

KILLS = 20
RECORDS = (
    "import sys\nfrom pathlib import Path\nfrom bench.ledger.record import record\nprint(record(Path(sys.argv[1])).describe())"
)


def results_of(folder: Path, night: int) -> dict:
    """asv's file of a night."""
    commit = git(folder / "ledger", "log", "--reverse", "--format=%H", "nights").split()[night]
    (path,) = (folder / "recorded").glob(f"*/{commit[:8]}-stored-runs.json")
    return json.loads(path.read_text())


def test_a_night_as_asv_keeps_it(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, range(2))
    done = record(tmp_path)
    assert done == Recorded(nights=2, added=2, rewritten_from=None)
    assert done.describe() == "2 nights in the ledger, 2 new"
    night = results_of(tmp_path / "asv", 1)
    columns = night["result_columns"]
    values = dict(zip(columns, night["results"]["track_ms_per_1000_tokens"], strict=False))
    assert values["params"] == [[f"'{cell}'" for cell in CELLS]]
    assert values["samples"] == [[pytest.approx(rate) for rate in (1000.0, 1001.0, 1002.0)]] * 2
    assert values["result"] == [pytest.approx(1001.0)] * 2
    assert values["version"] == "1"
    identity = {name: night[name] for name in ("params", "python", "env_name", "requirements", "env_vars")}
    assert identity == {
        "params": {"machine": "box"},
        "python": "stored-runs",
        "env_name": "stored-runs",
        "requirements": {},
        "env_vars": {},
    }
    machine = json.loads((tmp_path / "asv" / "recorded" / "box" / "machine.json").read_text())
    assert (machine["machine"], machine["cpu"], machine["ram"], machine["os"]) == ("box", "Test Chip", "16.0 GiB", "")


def test_skipped_is_not_failed(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    fill(tmp_path, make_run, [1], CELLS[:1], outcome="oom_device", reason="no memory", tokens_per_s=None, repeats=1)
    record(tmp_path)
    text = (tmp_path / "asv" / "recorded").glob("box/*-stored-runs.json")
    told = {
        night["date"]: night["results"]["track_ms_per_1000_tokens"][0]
        for night in map(json.loads, (path.read_text() for path in text))
    }
    failed, skipped = told[max(told)]
    assert failed is None
    assert math.isnan(skipped)


def test_again_changes_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, range(2), repeats=1)
    record(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert record(tmp_path) == Recorded(nights=2, added=0, rewritten_from=None)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before


def test_night_by_night_is_as_all_at_once(tmp_path: Path, make_run: MakeRun) -> None:
    for number in range(3):
        fill(tmp_path / "grown", make_run, [number], repeats=1)
        done = record(tmp_path / "grown")
        assert (done.nights, done.added, done.rewritten_from) == (number + 1, 1, None)
    fill(tmp_path / "whole", make_run, range(3), repeats=1)
    record(tmp_path / "whole")
    assert contents(tmp_path / "grown" / "asv") == contents(tmp_path / "whole" / "asv")


def test_a_late_night_of_another_machine_takes_its_place_and_is_told(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, range(3), repeats=1)
    record(tmp_path)
    fill(tmp_path, make_run, [1, 2], machine="mac", machine_id="4567", repeats=1)
    done = record(tmp_path)
    assert (done.nights, done.added, done.rewritten_from) == (5, 3, label(1))
    assert done.describe() == "5 nights in the ledger, 3 new; history rewritten from the night of 2026-11-02 on"
    names = git(tmp_path / "asv" / "ledger", "log", "--reverse", "--format=%s", "nights").splitlines()
    assert [name.split(",")[0] for name in names] == ["box", "box", "mac", "box", "mac"]
    assert len(list((tmp_path / "asv" / "recorded").glob("*/*-stored-runs.json"))) == 5, "none of the old ones stays"


def test_the_environment_of_each_night_is_in_its_commit(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    fill(tmp_path, make_run, [1], environment_digest=NEW.digest, repeats=1)
    record(tmp_path)
    changed = git(tmp_path / "asv" / "ledger", "show", "--format=", "nights")
    assert [line for line in changed.splitlines() if line[:1] in "+-" and "==" in line] == ["-alpha==1.0", "+alpha==1.1"]


def test_results_that_asv_itself_recorded_stay(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    own = tmp_path / "asv" / "recorded" / "box" / "12345678-existing-py_usr_bin_python3.json"
    own.write_text("{}")
    record(tmp_path)
    assert own.read_text() == "{}"


def test_a_machine_that_is_no_more_leaves_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, [0], machine="old-name", repeats=1)
    record(tmp_path)
    fill(tmp_path, make_run, [1], machine="new-name", repeats=1)
    record(tmp_path)
    assert [path.name for path in (tmp_path / "asv" / "recorded").iterdir() if path.is_dir()] == ["new-name"]


def test_no_night_is_said(tmp_path: Path, make_run: MakeRun) -> None:
    store.append(tmp_path, replace(stored_run(make_run, label(0), CELLS[0]), night=None))
    assert record(tmp_path).describe().startswith("no run belongs to a night yet")
    assert not (tmp_path / "asv").exists()
    assert record(tmp_path / "nowhere").nights == 0


def test_a_damaged_file_is_named_and_left_where_it_is(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, range(2), repeats=1)
    harmed = file_of(tmp_path, f"box-{label(1)}-tiny-lora-hf-cpu-0")
    harmed.write_bytes(harmed.read_bytes()[:-9])
    done = record(tmp_path)
    assert [each.path for each in done.damaged] == [harmed]
    assert harmed.exists()


def test_one_night_is_one() -> None:
    assert Recorded(nights=1, added=1, rewritten_from=None).describe() == "1 night in the ledger, 1 new"


def forget(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if neither the package nor what imports it here had been imported yet."""
    for name in [each for each in sys.modules if each == "bench.ledger.recording" or each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("package", ["asv", "asv_runner"])
def test_without_asv_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    forget(monkeypatch, package)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=r"asv, .*, (is not installed|cannot be .*asv_runner.*): pip install -e '\.\[nightly\]'"):
        record(tmp_path)


def test_an_asv_that_cannot_be_imported_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch, "asv")
    (tmp_path / "stub" / "asv").mkdir(parents=True)
    (tmp_path / "stub" / "asv" / "__init__.py").write_text("raise ImportError('libfoo.so.1: no such file')\n")
    monkeypatch.syspath_prepend(tmp_path / "stub")
    with pytest.raises(BadInput, match=r"asv, .*, cannot be imported \(libfoo\.so\.1: no such file\): pip install -e"):
        record(tmp_path)


def test_without_git_one_clear_message(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="git is not installed: install it"):
        record(tmp_path)


@pytest.mark.parametrize("place_of", ["asv", "asv/ledger", "asv/recorded", "asv/recorded/box"])
def test_a_file_in_a_folders_place_is_named(tmp_path: Path, make_run: MakeRun, place_of: str) -> None:
    fill(tmp_path, make_run, [0], repeats=1)
    path = tmp_path / place_of
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    with pytest.raises(BadInput, match=f"{re.escape(str(path))}: is no folder, and one is needed there"):
        record(tmp_path)
    assert path.read_text() == "mine"


def test_what_is_recorded_was_read_in_turn(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night that is stored while another records is in what is recorded next, even by one that had begun to wait before."""
    held, late = place.held, iter((1, 2))

    @contextmanager
    def waits(results: Path) -> Iterator[int]:
        fill(results, make_run, [next(late)], repeats=1)
        with held(results) as lock:
            yield lock

    fill(tmp_path, make_run, [0], repeats=1)
    monkeypatch.setattr(place, "held", waits)
    assert [record(tmp_path).nights for _ in range(2)] == [2, 3]


def test_no_git_that_the_folder_lies_in_sees_it(tmp_path: Path, make_run: MakeRun) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    fill(tmp_path / "results", make_run, [0], repeats=1)
    record(tmp_path / "results")
    told = subprocess.run(["git", "-C", tmp_path, "status", "--porcelain", "-uall"], capture_output=True, text=True, check=True)
    assert "results/runs" in told.stdout
    assert "asv" not in told.stdout


def test_the_users_own_machine_file_is_left_alone(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    fill(tmp_path, make_run, [0], repeats=1)
    record(tmp_path)
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.slow
def test_two_at_once_take_turns(tmp_path: Path, make_run: MakeRun) -> None:
    results = tmp_path / "results"
    fill(results, make_run, range(3), repeats=1)
    both = [subprocess.Popen([sys.executable, "-c", RECORDS, results], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [child.communicate()[0] for child in both]
    assert [child.returncode for child in both] == [0, 0]
    assert sorted(told) == [
        "3 nights in the ledger, 0 new\n",
        "3 nights in the ledger, 3 new\n",
    ]
    once = contents(results / "asv")
    shutil.rmtree(results / "asv")
    record(results)
    assert contents(results / "asv") == once


@pytest.mark.slow
def test_a_kill_at_any_moment_is_made_good_by_the_next_call(tmp_path: Path, make_run: MakeRun) -> None:
    results = tmp_path / "results"
    fill(results, make_run, range(12))
    record(results)
    wanted = contents(results / "asv")
    command = [sys.executable, "-c", RECORDS, results]
    shutil.rmtree(results / "asv")
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(results / "asv")
    begun = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole_s = time.monotonic() - begun
    chance, seen = random.Random(7), set()
    for kill in range(KILLS):
        if kill % 4 == 0:  # else upon what the kill before left
            shutil.rmtree(results / "asv", ignore_errors=True)
        child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        time.sleep(whole_s * chance.uniform(0.3, 1.0))
        os.killpg(child.pid, signal.SIGKILL)
        seen.add(child.wait())
    subprocess.run(command, check=True, capture_output=True)
    assert contents(results / "asv") == wanted
    assert not list((results / "asv").rglob("._*")), "what a kill left is swept up"
    assert -signal.SIGKILL in seen
