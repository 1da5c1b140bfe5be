"""Storing one run, and reading many: from a file each, and as `compact` leaves them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from perf.clock import processor_s
from perf.many_runs import MACHINES, fill_compacted, many
from pytest_benchmark.fixture import BenchmarkFixture

from bench import store
from bench.provenance import Provenance
from bench.record import Machine, Run, Step
from bench.spec import Cell
from bench.sweep.rows import Context, run_row
from bench.tallies import tallies

pytestmark = pytest.mark.benchmark(group="store", timer=processor_s, max_time=5, disable_gc=True)
RUNS, MANY_RUNS = 500, 10_000
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


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 runs in two files."""
    folder = tmp_path_factory.mktemp("compacted") / "results"
    fill_compacted(folder, many(MANY_RUNS, 100))
    return folder


def test_appending_a_run(benchmark: BenchmarkFixture, make_run: Callable[[], Run], tmp_path: Path) -> None:
    benchmark(lambda: store.append(tmp_path, make_run(), STEPS))


def test_reading_500_runs(benchmark: BenchmarkFixture, make_run: Callable[[], Run], tmp_path: Path) -> None:
    for _ in range(RUNS):
        store.append(tmp_path, make_run(), STEPS)
    rows = benchmark.pedantic(lambda: store.read(tmp_path, "runs").rows, rounds=5, warmup_rounds=1)
    assert rows.num_rows == RUNS


def test_reading_10_000_compacted_runs(benchmark: BenchmarkFixture, compacted: Path) -> None:
    rows = benchmark(lambda: store.read(compacted, "runs").rows)
    assert rows.num_rows == MANY_RUNS


def test_counting_10_000_compacted_runs(benchmark: BenchmarkFixture, compacted: Path) -> None:
    """What `run` and `plan` do first: which cells are done."""
    machine_id = MACHINES[0].encode().hex()[-12:]
    found = benchmark(lambda: tallies(compacted, machine_id, "perf"))
    assert len(found.by_cell) == MANY_RUNS // 50 // 2
