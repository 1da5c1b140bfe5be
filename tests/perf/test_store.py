"""Storing one run, and reading many."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import store
from bench.provenance import Provenance
from bench.record import Machine, Run, Step
from bench.spec import Cell
from bench.sweep.rows import Context, run_row

RUNS = 500
STEPS = [
    Step(step=number, phase="measured", start_s=number, duration_s=1.0, tokens=2048, loss_tokens=2047, loss=2.0)
    for number in range(1, 14)
]


@pytest.fixture
def make_run(machine: Machine, fake_cell: Callable[..., Cell]) -> Callable[[], Run]:
    numbers = count()
    context = Context("perf", "How fast?", machine, Provenance("abc", "feed", {"python": "3.11"}))
    template = run_row(context, fake_cell(), "r", datetime(2026, 11, 30, tzinfo=UTC), "ok", None)
    return lambda: replace(template, run_id=f"r{next(numbers):06d}")


def test_appending_a_run(benchmark: BenchmarkFixture, make_run: Callable[[], Run], tmp_path: Path) -> None:
    benchmark(lambda: store.append(tmp_path, make_run(), STEPS))


def test_reading_500_runs(benchmark: BenchmarkFixture, make_run: Callable[[], Run], tmp_path: Path) -> None:
    for _ in range(RUNS):
        store.append(tmp_path, make_run(), STEPS)
    rows = benchmark.pedantic(lambda: store.read(tmp_path, "runs").rows, rounds=3)
    assert rows.num_rows == RUNS
