"""Rows: medians over measured steps alone, None for what was not measured, the failed run's share kept."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bench.provenance import Provenance
from bench.record import Finished, Gpu, Loaded, Machine, Peaks, Run, Started, Step
from bench.spec import WORKLOAD_FIELDS, Cell
from bench.sweep.evidence import Trace
from bench.sweep.rows import Context, run_row

WHEN = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def context(machine: Machine) -> Context:
    return Context("smoke", "Does it?", machine, Provenance("abc", "feed", {"python": "3.11"}))


def step(number: int, duration_s: float, phase: str = "measured", peak: int | None = 7) -> Step:
    return Step(
        step=number, phase=phase, start_s=0, duration_s=duration_s, tokens=100, loss_tokens=98, loss=5.0 - number,
        framework_peak_bytes=peak, tokens_digest=f"d{number}",
    )  # type: ignore[arg-type]  # fmt: skip


def full_trace() -> Trace:
    trace = Trace()
    trace.take(Started(import_s=3.0, versions={"torch": "2.13.0"}))
    trace.take(Loaded(load_s=1.0, parameters=1234, trainable_parameters=56, implementation={"attention": "sdpa"}))
    for each in (step(1, 50.0, "warmup"), step(2, 1.0), step(3, 2.0), step(4, 30.0)):
        trace.take(each)
    return trace


def make(context: Context, cell: Cell, trace: Trace | None, outcome: str = "ok", reason: str | None = None) -> Run:
    return run_row(context, cell, "r1", WHEN, outcome, reason, trace)  # type: ignore[arg-type]


def test_a_whole_run(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    trace.take(Finished(peaks=Peaks(framework_peak_bytes=9, cache_peak_bytes=0), host_peak_bytes=11))
    run = make(context, fake_cell(), trace)
    assert run.step_s_median == 2.0
    assert run.tokens_per_s == 50.0
    assert run.loss_tokens_per_s == 49.0
    assert (run.framework_peak_bytes, run.cache_peak_bytes, run.reserved_peak_bytes) == (9, 0, None)
    assert (run.host_peak_bytes, run.import_s, run.load_s, run.first_step_s, run.steps) == (11, 3.0, 1.0, 50.0, 4)
    assert (run.warmup_steps, run.steps) == (1, 4)
    assert (run.loss_first, run.loss_last, run.tokens_digest) == (4.0, 1.0, "d1")
    assert run.trainable_parameters == 56
    assert run.workload["parameters"] == 1234
    assert run.versions == {"python": "3.11", "torch": "2.13.0"}
    assert (run.accelerator, run.chip) == (None, "Test Chip")


def test_a_run_that_ran_out_of_memory_keeps_what_it_had(context: Context, fake_cell: Callable[..., Cell]) -> None:
    run = make(context, fake_cell(), full_trace(), "oom_device", "tried to allocate 2 GiB")
    assert (run.outcome, run.reason) == ("oom_device", "tried to allocate 2 GiB")
    assert run.tokens_per_s == 50.0
    assert run.framework_peak_bytes == 7
    assert run.host_peak_bytes is None


def test_warm_up_alone_gives_no_rate(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = Trace()
    trace.take(step(1, 50.0, "warmup", peak=None))
    run = make(context, fake_cell(), trace, "crashed", "why")
    assert (run.tokens_per_s, run.step_s_median, run.framework_peak_bytes) == (None, None, None)
    assert run.first_step_s == 50.0


def test_a_hole_has_its_identity_and_nothing_measured(context: Context, fake_cell: Callable[..., Cell]) -> None:
    cell = fake_cell()
    run = make(context, cell, None, "skipped", "no such device here")
    assert (run.cell, run.cell_key, run.workload_digest) == (cell.id, cell.key, cell.workload.digest)
    assert (run.warmup_steps, run.steps, run.tokens_per_s, run.loss_first, run.load_s) == (None,) * 5
    empty = make(context, cell, Trace(), "crashed", "why")
    assert (empty.warmup_steps, empty.steps) == (0, 0)
    assert set(WORKLOAD_FIELDS) - {"model"} <= set(run.workload)


def test_the_accelerator_is_what_computes(context: Context, machine: Machine, fake_cell: Callable[..., Cell]) -> None:
    card = replace(machine, gpus=(Gpu("NVIDIA GeForce RTX 4090", 1),))
    cell = fake_cell()
    assert make(replace(context, machine=card), replace(cell, device="cuda"), None).accelerator == "NVIDIA GeForce RTX 4090"
    assert make(replace(context, machine=card), cell, None).accelerator is None
    assert make(context, replace(cell, device="metal"), None).accelerator == "Test Chip"
