"""Runs under way leave a marker until their row is stored."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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


def test_a_marker_comes_back_whole_until_it_is_ended(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    made = marker(fake_cell())
    inflight.begin(tmp_path, made)
    (found,) = inflight.left_behind(tmp_path, "m1")
    assert replace(found, cell={}) == replace(made, cell={})
    assert Cell.from_json(found.cell) == fake_cell()
    inflight.end(tmp_path, "r1")
    assert list(inflight.left_behind(tmp_path, "m1")) == []
    inflight.end(tmp_path, "r1")


def test_another_machines_runs_are_left_alone(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    inflight.begin(tmp_path, marker(fake_cell(), "theirs", "m2"))
    assert list(inflight.left_behind(tmp_path, "m1")) == []
    assert len(list(inflight.left_behind(tmp_path, "m2"))) == 1


def test_markers_come_oldest_first_and_unreadable_ones_are_removed(tmp_path: Path, fake_cell: Callable[..., Cell]) -> None:
    for run_id in ("b", "a"):
        inflight.begin(tmp_path, marker(fake_cell(), run_id))
    broken = tmp_path / inflight.FOLDER / "c.json"
    broken.write_text('{"run_id": "c"')
    assert [each.run_id for each in inflight.left_behind(tmp_path, "m1")] == ["a", "b"]
    assert not broken.exists()


def test_the_boot_is_named() -> None:
    assert inflight.boot_id() == inflight.boot_id() != ""
