"""Runs under way leave a marker until their row is stored."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.spec import Cell
from bench.sweep import inflight


def marker(cell: Cell, run_id: str = "r1", machine_id: str = "m1", night: str | None = None) -> inflight.Marker:
    return inflight.Marker(
        run_id=run_id,
        started_at=datetime(2026, 11, 30, 2, tzinfo=UTC),
        machine="box",
        machine_id=machine_id,
        suite="smoke",
        question="Does it?",
        boot=inflight.boot_id(),
        cell=cell,
        night=night,
    )


def found_in(results: Path, machine_id: str = "m1") -> list[inflight.Marker]:
    return list(inflight.left_behind(results, machine_id, NOTES.append))


NOTES: list[str] = []


def leave_behind(results: Path, made: inflight.Marker) -> None:
    """As a failing append leaves it."""
    with pytest.raises(OSError, match="disk full"), inflight.under_way(results, made):
        raise OSError("disk full")


def test_a_marker_comes_back_whole_until_it_is_ended(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    made = marker(fake_cell())
    leave_behind(tmp_path, made)
    (found,) = inflight.left_behind(tmp_path, "m1", NOTES.append)
    assert found == made
    inflight.forget(tmp_path, "r1")
    assert found_in(tmp_path, "m1") == []
    inflight.forget(tmp_path, "r1")


def test_a_marker_keeps_its_night_and_an_older_one_has_none(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell(), night="2026-11-30"))
    (found,) = found_in(tmp_path)
    assert found.night == "2026-11-30"
    path = tmp_path / inflight.FOLDER / "r1.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "night"}))
    (older,) = found_in(tmp_path)
    assert older == marker(fake_cell())


def test_a_run_that_is_being_measured_is_nobodys_to_take(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    with inflight.under_way(tmp_path, marker(fake_cell())):
        assert found_in(tmp_path, "m1") == []
        assert [path.name for path in (tmp_path / inflight.FOLDER).iterdir()] == ["r1.json"]
    assert list((tmp_path / inflight.FOLDER).iterdir()) == []


def test_a_marker_outlives_an_error(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell()))
    (found,) = inflight.left_behind(tmp_path, "m1", NOTES.append)
    assert found.run_id == "r1"


def test_a_marker_that_one_sweep_deals_with_is_hidden_from_the_next(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell()))
    for _ in inflight.left_behind(tmp_path, "m1", NOTES.append):
        assert found_in(tmp_path, "m1") == []


def test_another_machines_runs_are_left_alone(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell(), "theirs", "m2"))
    assert found_in(tmp_path, "m1") == []
    assert len(found_in(tmp_path, "m2")) == 1


def test_markers_come_oldest_first(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    for run_id in ("b", "a"):
        leave_behind(tmp_path, marker(fake_cell(), run_id))
    assert [each.run_id for each in found_in(tmp_path)] == ["a", "b"]


FAULTY: dict[str, Callable[[dict[str, Any]], Any]] = {
    "cut off": lambda content: json.dumps(content)[:50],
    "another run's": lambda content: {**content, "run_id": "../../../etc/x"},
    "no run": lambda content: {**content, "run_id": 7},
    "a time without a zone": lambda content: {**content, "started_at": "2026-11-30T02:00:00"},
    "no time": lambda content: {**content, "started_at": None},
    "no cell": lambda content: {**content, "cell": []},
    "a field of a newer version": lambda content: {
        **content,
        "cell": {**content["cell"], "workload": {**content["cell"]["workload"], "novel": 1}},
    },
    "a key missing": lambda content: {key: content[key] for key in content if key != "suite"},
    "no night": lambda content: {**content, "night": "tonight"},
    "a number of a night": lambda content: {**content, "night": 7},
    "deep": lambda content: "[" * 100_000,
}


@pytest.mark.parametrize("fault", FAULTY.values(), ids=FAULTY.keys())
def test_an_unreadable_marker_is_set_aside_and_said(
    tmp_path: Path, fake_cell: Callable[..., Cell], fault: Callable[[dict[str, Any]], Any]
) -> None:
    leave_behind(tmp_path, marker(fake_cell()))
    path = tmp_path / inflight.FOLDER / "r1.json"
    content = fault(json.loads(path.read_text()))
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    NOTES.clear()
    assert found_in(tmp_path) == []
    assert not path.exists()
    assert len(list((tmp_path / "quarantine").iterdir())) == 1
    assert len(NOTES) == 1
    assert str(path) in NOTES[0]
    assert found_in(tmp_path) == []


def test_the_boot_is_named() -> None:
    assert inflight.boot_id() == inflight.boot_id() != ""
