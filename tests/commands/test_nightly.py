"""A night by command: its exit codes, its document, and what it is held to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commanded import wingspan
from night_rows import night

from bench import nightly, store
from bench.machine import this_machine
from bench.sweep.lock import hold_machine, lock_path


def folders(tmp_path: Path) -> tuple[str, ...]:
    return ("--results", str(tmp_path / "results"), "--out", str(tmp_path / "reports"), "--machine-name", "box")


def test_a_night_is_one_document_and_its_words_go_to_standard_error(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    done = wingspan("nightly", write_suite({"a": {}}), "--night", "2020-11-30", "--no-publish", "--json", *folders(tmp_path))
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert (document["night"], document["suite"], document["machine"]) == ("2020-11-30", "probe", "box")
    assert [run["outcome"] for run in document["measured"]["runs"]] == ["ok"]
    assert document["verdict"]["red"] is False
    assert document["published"] == []
    assert "night of 2020-11-30: measuring probe on box" in done.stderr


def test_without_a_date_a_night_is_todays_in_utc(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    before = nightly.tonight()
    done = wingspan("nightly", write_suite({"a": {}}), "--no-judge", "--no-publish", "--json", *folders(tmp_path))
    assert json.loads(done.stdout)["night"] in (before, nightly.tonight())
    assert json.loads(done.stdout)["verdict"] is None


def test_a_regression_exits_with_1(write_suite: Callable[..., Path], make_run, tmp_path: Path) -> None:
    own = this_machine("box")
    for at, level in enumerate([100.0] * 9 + [70.0] * 2):
        started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=at)
        values = {"night": night(at), "started_at": started, "tokens_per_s": level, "machine_id": own.machine_id}
        store.append(tmp_path / "results", make_run(f"run-{at:02}", **values))
    arguments = ("nightly", write_suite({"a": {}}), "--night", night(10), "--no-measure", "--no-publish")
    here = ("--results", tmp_path / "results", "--machine-name", "box")
    done = wingspan(*arguments, *here)
    assert done.exit_code == 1
    assert "REGRESSION" in done.stderr


def test_pages_that_cannot_be_drawn_exit_with_4(write_suite: Callable[..., Path], make_run, tmp_path: Path) -> None:
    store.append(tmp_path / "results", make_run("r", night=night(0), tokens_per_s=100.0))
    (tmp_path / "reports").write_text("a file where the pages should go")
    arguments = ("nightly", write_suite({"a": {}}), "--night", night(0), "--no-measure", "--no-judge", "--json")
    done = wingspan(*arguments, "--results", tmp_path / "results", "--out", tmp_path / "reports" / "in-a-file")
    assert done.exit_code == 4
    faults = json.loads(done.stdout)["faults"]
    assert [str(tmp_path / "reports") in each for each in faults] == [True, True], "asv's page, and the report"
    assert "Traceback" not in done.stderr


def test_a_failed_cell_exits_with_3(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = write_suite({"a": {"fail": "exit"}, "b": {}})
    assert wingspan("nightly", suite, "--no-publish", *folders(tmp_path)).exit_code == 3


def test_a_held_machine_exits_with_75(write_suite: Callable[..., Path], tmp_path: Path) -> None:
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "other", "since": "now"}):
        done = wingspan("nightly", write_suite({"a": {}}), *folders(tmp_path))
    assert done.exit_code == 75
    assert "suite other" in done.stderr


@pytest.mark.parametrize("label", ["yesterday", "2026-13-01", "20261130", "", "9999-12-31"])
def test_a_night_that_is_no_date_or_to_come_exits_with_2(label: str, write_suite: Callable[..., Path], tmp_path: Path) -> None:
    done = wingspan("nightly", write_suite({"a": {}}), "--night", label, *folders(tmp_path))
    assert done.exit_code == 2
    assert not (tmp_path / "results").exists()


def test_the_suite_of_a_computer_without_a_gpu_is_its_default(tmp_path: Path) -> None:
    done = wingspan("nightly", "--no-measure", "--no-judge", "--no-publish", "--json", *folders(tmp_path))
    assert json.loads(done.stdout)["suite"] == nightly.default_suite(this_machine())
