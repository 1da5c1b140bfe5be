"""One run through a real worker of the fake backend: its readings, its wall meter, its idle state, all in the stored row."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_meters import PlayedMeter

from bench import store
from bench.meters.interface import Value
from bench.provenance import Provenance
from bench.record import Machine, Run
from bench.spec import Cell, Measure
from bench.sweep import idle, measuring, sampling
from bench.sweep.interrupt import catch_interrupts
from bench.sweep.lock import hold_machine
from bench.sweep.measuring import Measuring
from bench.sweep.rows import Context

Make = Callable[..., Measuring]


@pytest.fixture
def make(machine: Machine, tmp_path: Path) -> Iterator[Make]:
    """A `Measuring` whose results lie in tmp_path; its notes in `notes`."""
    context = Context("probe", "Does it?", machine, Provenance("abc", "feed", {}))
    measure = Measure(warmup_steps=1, warmup_max_steps=1, steps=4, event_timeout_s=30)
    with hold_machine(tmp_path / "lock", {"pid": os.getpid()}) as lock, catch_interrupts() as interrupt:
        yield partial(Measuring, context, tmp_path / "results", measure, interrupt, lock, lambda _: None)


def readings(results: Path) -> list[dict[str, Any]]:
    return list(store.read(results, "readings").rows.to_pylist())


def log(path: Path, first: datetime, seconds: int) -> Path:
    rows = [f"{(first + timedelta(seconds=second)).isoformat()},{80 + second % 3}" for second in range(seconds)]
    path.write_text("\n".join(["time,power_w", *rows]) + "\n")
    return path


def test_meters_leave_readings_and_without_them_there_are_none(
    make: Make, fake_cell: Callable[..., Cell], tmp_path: Path
) -> None:
    notes: list[str] = []
    metered = make(notes.append).run(fake_cell(step_s=0.05))
    assert metered.outcome == "ok"
    assert {row["meter"] for row in readings(tmp_path / "results")} == {"host"}
    assert metered.others_cpu_share is not None or "others_cpu_share" in metered.not_measured
    bare = make(notes.append, meters=False).run(fake_cell(step_s=0.05))
    assert {row["run_id"] for row in readings(tmp_path / "results")} == {metered.run_id}
    assert bare.others_cpu_share is None


def test_a_wall_meters_log_is_aligned_by_time(make: Make, fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    wall = log(tmp_path / "plug.csv", datetime.now(UTC) - timedelta(seconds=30), 120)
    notes: list[str] = []
    run = make(notes.append, wall_meter=wall).run(fake_cell(step_s=0.3))
    found = [row for row in readings(tmp_path / "results") if row["scope"] == "wall"]
    assert 3 <= len(found) <= 15  # the seconds of the run, and one on either side
    assert min(row["t_s"] for row in found) < 0 < max(row["t_s"] for row in found)
    assert {row["value"] for row in found} <= {80.0, 81.0, 82.0}
    assert run.wall_power_w is None
    assert "60 s" in run.not_measured["wall_power_w"]  # the measured steps lasted a second
    assert notes == []


def test_a_log_that_has_stopped_is_told_at_once(make: Make, fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    wall = log(tmp_path / "plug.csv", datetime.now(UTC) - timedelta(hours=1), 60)
    notes: list[str] = []
    run = make(notes.append, wall_meter=wall).run(fake_cell())
    assert run.outcome == "ok"
    (note,) = notes
    assert note.startswith("nothing from the wall meter: ")
    assert "logger" in run.not_measured["wall_power_w"]


def test_the_idle_state_before_is_taken_off_and_its_return_waited_for(
    make: Make, fake_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    watts = {"now": 20.0}
    meter = PlayedMeter(
        measuring.time.monotonic,
        lambda since_s: [Value("power", watts["now"] + since_s % 0.01)],
        "rapl",
        "package",
        interval_s=0.02,
    )
    monkeypatch.setattr(sampling, "_meters", lambda: iter([meter]))
    made: Measuring = make(print)
    monkeypatch.setattr(idle.baseline, "__defaults__", (0.5,))
    monkeypatch.setattr(idle.came_back, "__defaults__", (4.0,))
    made.rest({"cpu"})
    watts["now"] = 100.0
    drifted = run_with(made, fake_cell(step_s=0.2))
    assert drifted.idle_power_w == pytest.approx(20.0, abs=0.1)
    assert drifted.power_w == pytest.approx(100.0, abs=0.1)
    assert drifted.energy_above_idle_j == pytest.approx(80 * (drifted.energy_window_s or 0), rel=0.01)
    assert "idle-drift" in drifted.flags
    watts["now"] = 20.5
    assert "idle-drift" not in run_with(made, fake_cell(step_s=0.2)).flags


def run_with(made: Measuring, cell: Cell) -> Run:
    run = made.run(cell)
    assert run.outcome == "ok", run.reason
    return run
