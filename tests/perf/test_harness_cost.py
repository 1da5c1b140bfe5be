"""What the harness costs what it measures: against a bare script, with meters and without, in one interleaved session.

The bare script runs the same framework loop on the same model and looks only at the clock. Rates are ratios of medians of
steps of 200 ms and more; each run is a fresh process; the order of the arms changes from round to round, so that drift falls on
all alike. On a virtual machine with noisy neighbours whole runs spread by ten per cent and more, and their ratio is known no
better than that: then more rounds are needed (WINGSPAN_PERF_ROUNDS). The stopwatch in `own_time.py` is finer.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.catalog import resolve_model
from bench.intervals import ratio_interval
from bench.machine import this_machine
from bench.provenance import provenance
from bench.record import Run
from bench.spec import BackendName, Cell, Implementation, Measure, workload
from bench.sweep.interrupt import catch_interrupts
from bench.sweep.lock import hold_machine
from bench.sweep.measuring import Measuring
from bench.sweep.rows import Context

ROUNDS = int(os.environ.get("WINGSPAN_PERF_ROUNDS", "12"))
WARMUP_STEPS, STEPS = 3, 20
HERE = Path(__file__).parent
SHAPES: dict[BackendName, tuple[str, int, int]] = {"hf": ("tiny-qwen3-s", 16, 256), "mlx": ("tiny-qwen3-s", 2, 128)}
"""Model, batch size and sequence length: steps of some 300 ms on two cores of 2026."""


def cell_of(backend: BackendName) -> Cell:
    model, batch_size, sequence_length = SHAPES[backend]
    work = workload(
        model=resolve_model(model, HERE),
        method="lora",
        batch_size=batch_size,
        sequence_length=sequence_length,
        weights_dtype="float32",
        rank=8,
        gradient_checkpointing=False,
    )
    return Cell(work, backend, "cpu", Implementation(compile=False))


def bare_rate(cell: Cell) -> float:
    job = {"cell": cell.to_json(), "warmup_steps": WARMUP_STEPS, "steps": STEPS}
    script = HERE / f"bare_{cell.backend}.py"
    done = subprocess.run([sys.executable, script], input=json.dumps(job), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return cell.workload.tokens_per_step / float(done.stdout.split()[-1])


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Callable[[Cell, bool], Run]]:
    """Measure a cell once through the whole harness, with meters or without."""
    machine = this_machine("perf")
    measure = Measure(warmup_steps=WARMUP_STEPS, warmup_max_steps=WARMUP_STEPS, steps=STEPS, event_timeout_s=300)
    context = Context("perf", "What does the harness cost?", machine, provenance(machine))
    with hold_machine(tmp_path / "lock", {"pid": os.getpid()}) as lock, catch_interrupts() as interrupt:

        def run(cell: Cell, meters: bool) -> Run:
            made = Measuring(
                context, tmp_path / "results", measure, interrupt, lock, lambda _: None, lambda _: None, meters=meters
            ).run(cell)
            assert made.outcome == "ok", made.reason
            return made

        yield run


def told(above: list[float], below: list[float]) -> tuple[tuple[float, float], str]:
    """A ratio of rates with the upper end of its 95% interval, and all three in words."""
    found = ratio_interval(above, below)
    assert found is not None
    ratio, low, high = found
    return (ratio, high), f"{ratio:.3f} ({low:.3f} to {high:.3f}, n = {len(above)})"


@pytest.mark.parametrize("backend", SHAPES)
def test_a_cell_through_the_harness_against_a_bare_script(
    backend: BackendName,
    benchmark: BenchmarkFixture,
    harness: Callable[[Cell, bool], Run],
    cost: list[tuple[str, str]],
    tmp_path: Path,
) -> None:
    cell = cell_of(backend)
    rates: dict[str, list[float]] = defaultdict(list)
    runs: list[Run] = []

    def metered() -> float:
        runs.append(harness(cell, True))
        return runs[-1].tokens_per_s or 0.0

    arms = {"bare": lambda: bare_rate(cell), "metered": metered, "unmetered": lambda: harness(cell, False).tokens_per_s or 0.0}
    for number in range(ROUNDS):
        order = list(arms)
        random.Random(number).shuffle(order)
        for arm in order:
            rates[arm].append(arms[arm]())
    benchmark.pedantic(lambda: harness(cell, True), rounds=1)
    step_s = cell.workload.tokens_per_step / statistics.median(rates["bare"])
    against_bare, words = told(rates["metered"], rates["bare"])
    on_off, on_off_words = told(rates["metered"], rates["unmetered"])
    shares = [run.parent_cpu_share or 0.0 for run in runs]
    cost.append((f"{backend}: rate through the harness ÷ bare script, steps of {step_s * 1000:.0f} ms", words))
    cost.append((f"{backend}: rate with meters ÷ without", on_off_words))
    cost.append((f"{backend}: parent's share of one core while the child measures", f"{max(shares):.2%} at most"))
    cost.append((f"{backend}: bytes stored per step", f"{stored_bytes(tmp_path) / ((WARMUP_STEPS + STEPS) * len(runs)):.0f}"))
    assert step_s >= 0.2
    assert against_bare[0] >= 0.99
    assert on_off[0] >= 0.99
    assert max(shares) < 0.02


@pytest.mark.parametrize("backend", SHAPES)
def test_the_harnesss_own_time_within_a_step(
    backend: BackendName, benchmark: BenchmarkFixture, cost: list[tuple[str, str]]
) -> None:
    """By a stopwatch around it: exact where rates of whole runs spread by more than it costs."""
    measure = {"warmup_steps": WARMUP_STEPS, "warmup_max_steps": WARMUP_STEPS, "steps": STEPS}
    job = json.dumps({"cell": cell_of(backend).to_json(), "measure": measure})

    def watched() -> dict[str, float]:
        done = subprocess.run([sys.executable, HERE / "own_time.py"], input=job, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    found = [benchmark.pedantic(watched, rounds=1), *(watched() for _ in range(2))]
    own_s, step_s = (statistics.median(each[name] for each in found) for name in ("own_s", "step_s"))
    cost.append((f"{backend}: the harness's own time within a step", f"{own_s * 1000:.2f} ms, {own_s / step_s:.2%} of the step"))
    assert own_s / step_s < 0.01


def stored_bytes(folder: Path) -> float:
    """All that the metered runs left in steps and readings (unmetered ones leave no readings, and half the steps)."""
    steps = sum(path.stat().st_size for path in (folder / "results" / "steps").rglob("*.parquet"))
    readings = sum(path.stat().st_size for path in (folder / "results" / "readings").rglob("*.parquet"))
    return steps / 2 + readings
