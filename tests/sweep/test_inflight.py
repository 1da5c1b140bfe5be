"""Runs under way leave a marker until their row is stored."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.spec import Cell
from bench.sweep import inflight


def marker(cell: Cell, run_id: str = "r1", machine_id: str = "m1") -> inflight.Marker:
    return inflight.Marker(
        run_id=run_id,
        started_at="2026-11-30T02:00:00+00:00",
        machine_id=machine_id,
        suite="smoke",
        boot=inflight.boot_id(),
        cell=cell.to_json(),
    )


def leave_behind(results: Path, made: inflight.Marker) -> None:
    """As a failing append leaves it."""
    with pytest.raises(OSError, match="disk full"), inflight.under_way(results, made):
        raise OSError("disk full")


def test_a_marker_comes_back_whole_until_it_is_ended(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    made = marker(fake_cell())
    leave_behind(tmp_path, made)
    (found,) = inflight.left_behind(tmp_path, "m1")
    assert replace(found, cell={}) == replace(made, cell={})
    assert Cell.from_json(found.cell) == fake_cell()
    inflight.forget(tmp_path, "r1")
    assert list(inflight.left_behind(tmp_path, "m1")) == []
    inflight.forget(tmp_path, "r1")


def test_a_run_that_is_being_measured_is_nobodys_to_take(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    with inflight.under_way(tmp_path, marker(fake_cell())):
        assert list(inflight.left_behind(tmp_path, "m1")) == []
        assert [path.name for path in (tmp_path / inflight.FOLDER).iterdir()] == ["r1.json"]
    assert list((tmp_path / inflight.FOLDER).iterdir()) == []


def test_a_marker_outlives_an_error(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell()))
    (found,) = inflight.left_behind(tmp_path, "m1")
    assert found.run_id == "r1"


def test_a_marker_that_one_sweep_deals_with_is_hidden_from_the_next(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell()))
    for _ in inflight.left_behind(tmp_path, "m1"):
        assert list(inflight.left_behind(tmp_path, "m1")) == []


def test_another_machines_runs_are_left_alone(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    leave_behind(tmp_path, marker(fake_cell(), "theirs", "m2"))
    assert list(inflight.left_behind(tmp_path, "m1")) == []
    assert len(list(inflight.left_behind(tmp_path, "m2"))) == 1


def test_markers_come_oldest_first_and_unreadable_ones_are_removed(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    for run_id in ("b", "a"):
        leave_behind(tmp_path, marker(fake_cell(), run_id))
    broken = tmp_path / inflight.FOLDER / "c.json"
    broken.write_text('{"run_id": "c"')
    assert [each.run_id for each in inflight.left_behind(tmp_path, "m1")] == ["a", "b"]
    assert not broken.exists()


def test_the_boot_is_named() -> None:
    assert inflight.boot_id() == inflight.boot_id() != ""
