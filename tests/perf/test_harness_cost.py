"""What the harness costs what it measures: against a bare script, with meters and without, in one interleaved session.

The bare script runs the same framework loop on the same model and looks only at the clock. Steps last 200 ms and more. Runs of
their own, one after the other, spread by ten per cent and more on a virtual machine with noisy neighbours; so both processes
live at once and take turns of a few steps (`lockstep.py`). Each pair of fresh processes gives one ratio of rates; the interval
is over the pairs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from perf.lockstep import TURN_STEPS, Turns, bare
from pytest_benchmark.fixture import BenchmarkFixture

from bench.catalog import resolve_model
from bench.events import Event
from bench.intervals import interval
from bench.machine import this_machine
from bench.provenance import provenance
from bench.record import Run, Step
from bench.spec import BackendName, Cell, Implementation, Measure, workload
from bench.sweep.interrupt import catch_interrupts
from bench.sweep.lock import hold_machine
from bench.sweep.measuring import Measuring
from bench.sweep.rows import Context
from bench.sweep.sampling import Sampler

pytestmark = [pytest.mark.long, pytest.mark.benchmark(group="ratio")]
PAIRS = int(os.environ.get("WINGSPAN_PERF_PAIRS", "24"))
ROUNDS = 8
"""Many pairs of few rounds: two processes of the same bare script differ by 2% for as long as they live, by where their memory
came to lie, which more rounds never average out (bare against bare, 16 rounds: 0.978 to 1.041 in five pairs)."""
WARMUP_STEPS, STEPS = 3, 20
HERE = Path(__file__).parent
SHAPES: dict[BackendName, tuple[str, int, int]] = {"hf": ("tiny-qwen3-s", 24, 256), "mlx": ("tiny-qwen3-s", 3, 128)}
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


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Cell, Turns], Run]]:
    """Measure a cell once through the whole harness, whose worker takes turns and whose meters are read when it is their turn."""
    machine = this_machine("perf")
    context = Context("perf", "What does the harness cost?", machine, provenance(machine))
    due_in_s, sample = Sampler.due_in_s, Sampler.sample
    with hold_machine(tmp_path / "lock", {"pid": os.getpid()}) as lock, catch_interrupts() as interrupt:

        def run(cell: Cell, turns: Turns) -> Run:
            def on_event(event: Event) -> None:
                if isinstance(event, Step):
                    turns.stepped(event.duration_s)

            steps = turns.harness_steps
            measure = Measure(warmup_steps=WARMUP_STEPS, warmup_max_steps=WARMUP_STEPS, steps=steps, event_timeout_s=300)
            monkeypatch.setattr(Sampler, "due_in_s", lambda sampler: due_in_s(sampler) if turns.metered else float("inf"))
            monkeypatch.setattr(Sampler, "sample", lambda sampler: sample(sampler) if turns.metered else None)
            made = Measuring(context, tmp_path / "results", measure, interrupt, lock, on_event, lambda _: None).run(cell)
            assert made.outcome == "ok", made.reason
            return made

        yield run


def told(ratios: list[float]) -> tuple[float, str]:
    """The geometric mean of ratios of rates; and it with its 95% interval, in words."""
    ratio, low, high = interval(ratios)
    return ratio, f"{ratio:.3f} ({low:.3f} to {high:.3f}, n = {len(ratios)})"


def worker() -> int:
    """The process id of the harness's worker, which is the only child that runs `bench.worker`."""
    (found,) = (child.pid for child in psutil.Process().children() if "bench.worker" in child.cmdline())
    return int(found)


@pytest.mark.parametrize("backend", SHAPES)
def test_a_cell_through_the_harness_against_a_bare_script(
    backend: BackendName,
    benchmark: BenchmarkFixture,
    harness: Callable[[Cell, Turns], Run],
    cost: list[tuple[str, str]],
    tmp_path: Path,
) -> None:
    cell = cell_of(backend)
    pairs: list[Turns] = []
    runs: list[Run] = []

    def pair() -> None:
        job = {"cell": cell.to_json(), "steps": 2 * WARMUP_STEPS + ROUNDS * TURN_STEPS}
        with bare(HERE / f"bare_{backend}.py", json.dumps(job)) as script:
            script.steps(WARMUP_STEPS)
            pairs.append(Turns(script, ROUNDS, WARMUP_STEPS, worker))
            runs.append(harness(cell, pairs[-1]))

    benchmark.pedantic(pair, rounds=PAIRS)
    step_s = statistics.median(step for turns in pairs for turn in turns.durations_s["bare"] for step in turn)
    against_bare, words = told([turns.ratio("metered", "bare") for turns in pairs])
    on_off, on_off_words = told([turns.ratio("metered", "unmetered") for turns in pairs])
    shares = [run.parent_cpu_share or 0.0 for run in runs]
    cost.append((f"{backend}: rate through the harness ÷ bare script, steps of {step_s * 1000:.0f} ms", words))
    cost.append((f"{backend}: rate with meters ÷ without", on_off_words))
    cost.append((f"{backend}: parent's share of one core while the child measures", f"{max(shares):.2%} at most"))
    cost.append((f"{backend}: bytes stored per step", f"{stored_bytes(tmp_path, runs):.0f}"))
    assert step_s >= 0.2
    assert against_bare >= 0.99
    assert on_off >= 0.99
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


def stored_bytes(folder: Path, runs: list[Run]) -> float:
    """Steps per step made; readings per step made while meters were read, which is half of the measured ones."""
    steps, readings = (
        sum(path.stat().st_size for path in (folder / "results" / table).rglob("*.parquet")) for table in ("steps", "readings")
    )
    made = len(runs) * 2 * ROUNDS * TURN_STEPS
    return steps / (made + len(runs) * WARMUP_STEPS) + readings / (made / 2)
