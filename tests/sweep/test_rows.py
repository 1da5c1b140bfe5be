"""Rows: medians over measured steps alone, None for what was not measured, the failed run's share kept."""

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from bench.catalog import catalogue
from bench.epochs import Conditions
from bench.events import Counters, Finished, Loaded, Started, Warm
from bench.limits import Limit
from bench.predict.prediction import Prediction, Speed
from bench.predict.rules import uncalibrated
from bench.provenance import Provenance
from bench.record import Gpu, Machine, Reading, Run, Step
from bench.spec import WORKLOAD_FIELDS, Cell, Measure, workload
from bench.sweep.evidence import Trace
from bench.sweep.rows import Context, finite, run_row
from bench.sweep.sampling import Recording
from bench.sweep.seen import Seen
from bench.trust.assessed import Assessed
from bench.trust.energy import Idle
from bench.trust.flags import FLAGS

WHEN = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def context(machine: Machine) -> Context:
    return Context("smoke", "Does it?", machine, Provenance("abc", "feed", {"python": "3.11"}))


def step(number: int, duration_s: float, phase: str = "measured", peak: int | None = 7) -> Step:
    return Step(
        step=number, phase=phase, start_s=0, duration_s=duration_s, tokens=16, loss_tokens=14, loss=5.0 - number,
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
    return run_row(context, cell, "r1", WHEN, outcome, reason, Seen(trace) if trace else None)  # type: ignore[arg-type]


def test_a_whole_run(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    trace.take(Finished(counters=Counters(framework_peak_bytes=9, cache_peak_bytes=0), host_peak_bytes=11))
    run = make(context, fake_cell(), trace)
    assert run.step_s_median == 2.0
    assert run.tokens_per_s == 8.0
    assert run.loss_tokens_per_s == 7.0
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
    assert run.tokens_per_s == 8.0
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


def test_the_flags_of_warm_up_and_its_rule_are_stored(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    trace.take(Warm(warmup_steps=1, troubles=("unsteady", "memory-growing")))
    trace.take(Finished(counters=Counters(), host_peak_bytes=None))
    run = run_row(context, fake_cell(), "r1", WHEN, "ok", None, Seen(trace), measure=Measure())
    assert run.flags == ("memory-growing", "unsteady")
    assert run.warmup_rule is not None
    assert run.warmup_rule.startswith("first of 2 to 30 steps")
    assert run.outcome == "ok"


def test_what_cannot_be_true_is_invalid_with_cause_and_remedy(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    trace.steps = [replace(each, loss=float("nan")) for each in trace.steps]
    run = make(context, fake_cell(), trace)
    assert run.outcome == "invalid"
    assert run.reason is not None
    assert run.reason.startswith("loss-not-finite: ")
    assert run.tokens_per_s == 8.0  # what it had measured is kept, as of any run that failed
    crashed = make(context, fake_cell(), trace, "crashed", "its own reason")
    assert (crashed.outcome, crashed.reason) == ("crashed", "its own reason")


def test_an_empty_column_says_why(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    trace.take(Finished(counters=Counters(), host_peak_bytes=11))
    seen = Seen(trace, Recording(missing={"rapl": "virtual machines have no counter"}))
    run = run_row(context, fake_cell(), "r1", WHEN, "ok", None, seen)
    assert (run.power_w, run.energy_j, run.framework_peak_bytes, run.device_peak_bytes) == (None,) * 4
    assert "virtual machines have no counter" in run.not_measured["power_w"]
    assert {"framework_peak_bytes", "device_peak_bytes", "compile_s", "energy_j", "j_per_token"} <= run.not_measured.keys()
    assert "swapped" in run.not_measured  # a flag that nothing could judge is no clean bill
    assert not any(getattr(run, column) for column in run.not_measured.keys() - FLAGS.keys())


def readings(watts: float, joules_per_s: float) -> list[Reading]:
    """A board at ten readings a second, from 5 s before training to 60 s after its start, on the parent's clock (origin 100)."""
    times = [95 + tick / 10 for tick in range(650)]
    power = [("power", "W", watts) for _ in times]
    made = [
        Reading(t_s=t_s, meter="nvml", scope="gpu-board", quantity=quantity, unit=unit, value=value + (tick % 3) * 1e-3)
        for tick, (t_s, (quantity, unit, value)) in enumerate(zip(times, power, strict=True))
    ]
    return made + [
        Reading(t_s=t_s, meter="nvml", scope="gpu-board", quantity="energy", unit="J", value=1e6 + joules_per_s * t_s)
        for t_s in times
    ]


def test_power_and_energy_come_from_the_readings_of_the_measured_steps(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = Trace()
    for number in range(1, 42):
        trace.take(replace(step(number, 1.0, "warmup"), start_s=number - 1.0), 100.0 + number)
    trace.take(Warm(warmup_steps=1))
    idle = Idle({"gpu-board": 25.0}, {"power_limit_w": "450"})
    recording = Recording(readings(400.0, 404.0), {}, {"power_limit_w": "450"}, {"power_limit_w": "450"})
    seen = Seen(trace, recording, idle=idle, parent_cpu_share=0.001)
    run = run_row(context, replace(fake_cell(), device="cuda"), "r1", WHEN, "ok", None, seen)
    assert run.power_scope == "gpu-board"
    assert run.energy_window_s == pytest.approx(40.0)
    assert run.energy_counter_j == pytest.approx(404 * 40, rel=1e-3)
    assert run.energy_integral_j == pytest.approx(400 * 40, rel=1e-3)
    assert run.power_w == pytest.approx(404, rel=1e-3)
    assert run.j_per_token == pytest.approx(404 / 16, rel=1e-3)
    assert run.energy_above_idle_j == pytest.approx((404 - 25) * 40, rel=1e-3)
    assert run.device_settings == {"power_limit_w": "450"}
    assert not set(run.flags) & {"energy-disagreement", "short-energy-window", "idle-drift", "settings-changed"}
    drifted = run_row(context, replace(fake_cell(), device="cuda"), "r1", WHEN, "ok", None, replace(seen, came_back=False))
    assert "idle-drift" in drifted.flags


def test_the_energy_of_serving_is_divided_by_every_generated_token(context: Context, fake_cell: Callable[..., Cell]) -> None:
    """Batches of two, 128 tokens each: 40 measured ones at 404 W, each of a second; the prompts' 1,024 don't count."""
    trace = Trace()
    for number in range(1, 42):
        prefill = replace(step(number, 0.25), phase="prefill", start_s=number - 1.0, tokens=1024, loss=None)
        trace.take(prefill, 100.25 + number - 1)
        trace.take(replace(prefill, phase="decode", start_s=number - 0.75, duration_s=0.75, tokens=254), 100.0 + number)
    trace.take(Warm(warmup_steps=1))
    seen = Seen(trace, Recording(readings(400.0, 404.0)), idle=Idle({"gpu-board": 25.0}, {}))
    run = run_row(context, replace(fake_cell(method="serve"), device="cuda"), "r1", WHEN, "ok", None, seen)
    assert run.outcome == "ok", run.reason
    assert run.energy_window_s == pytest.approx(40.0)
    assert run.j_per_token == pytest.approx(404 / 256, rel=1e-3)
    assert run.j_per_token_above_idle == pytest.approx(379 / 256, rel=1e-3)
    assert (run.time_to_first_token_s, run.prefill_tokens_per_s) == (0.25, 4096.0)
    assert run.tokens_per_s == pytest.approx(254 / 0.75)
    assert run.loss_tokens_per_s is None


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_figure_that_is_no_finite_number_is_not_measured(value: float) -> None:
    found = finite(Assessed({"power_w": value, "steps": 3, "loss_last": value, "energy_j": 1.0}, ("slept",), {"x": "y"}))
    assert found.columns.keys() == {"steps", "loss_last", "energy_j"}
    assert found.not_measured == {"x": "y", "power_w": "not a finite number"}
    assert found.flags == ("slept",)


def test_a_run_says_what_memory_it_could_have_had(context: Context, machine: Machine, fake_cell: Callable[..., Cell]) -> None:
    cell, trace = fake_cell(), full_trace()
    run = make(context, cell, trace)
    assert (run.capacity_bytes, run.memory_limit, run.tier, run.failed_at) == (16 * 2**30, None, "measured", None)
    assert "limited" not in run.flags
    card = replace(context, machine=replace(machine, gpus=(Gpu("card", 24),)))
    assert make(card, replace(cell, device="cuda"), trace).capacity_bytes == 24
    assert make(context, replace(cell, device="cuda"), trace).capacity_bytes is None


def test_a_limited_run_is_marked_and_one_made_like_a_machine_is_a_stand_in(
    context: Context, fake_cell: Callable[..., Cell]
) -> None:
    trace = full_trace()
    trace.take(Started(import_s=3.0, versions={}, memory_limit="rlimit-data"))
    run = make(replace(context, limit=Limit(10**9)), fake_cell(), trace, "oom_host", "no room")
    assert (run.capacity_bytes, run.memory_limit, run.tier, run.failed_at) == (10**9, "rlimit-data", "measured", "later step")
    assert "limited" in run.flags
    like = replace(context, limit=Limit(7, "pc-rtx-4090"))
    stand_in = make(like, fake_cell(), trace)
    assert (stand_in.capacity_bytes, stand_in.tier) == (7, "stand-in")
    assert stand_in.device_settings["memory_like"] == "pc-rtx-4090"
    hole = make(like, fake_cell(), None, "skipped", "no such device")
    assert (hole.capacity_bytes, hole.tier, hole.memory_limit, hole.flags) == (7, "stand-in", None, ("limited",))


def test_how_far_memory_let_a_run_come(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = Trace()
    assert make(context, fake_cell(), trace, "oom_device", "no room").failed_at == "load"
    trace.take(Loaded(load_s=1.0, parameters=1234, trainable_parameters=56, implementation={}))
    assert make(context, fake_cell(), trace, "over_limit", "no room").failed_at == "first step"
    assert make(context, fake_cell(), trace, "crashed", "why").failed_at is None


def test_the_flags_of_the_edge_are_stored(context: Context, fake_cell: Callable[..., Cell]) -> None:
    trace = full_trace()
    assert "growing" not in make(context, fake_cell(), trace).flags
    trace.take(step(5, 1.0, peak=10**9))
    assert "growing" in make(context, fake_cell(), trace).flags
    single = Trace()
    single.take(step(1, 1.0))
    assert "growing" in make(context, fake_cell(), single).not_measured


def test_a_run_on_the_newest_weights_says_which_they_were(context: Context, fake_cell: Callable[..., Cell]) -> None:
    asked = fake_cell()
    asked = replace(asked, workload=replace(asked.workload, weights="hub"))
    trace = Trace()
    trace.take(Started(import_s=3.0, versions={}, revision="a" * 40))
    run, hole = make(context, asked, trace, "unsupported", "gated"), make(context, asked, None, "skipped", "excluded")
    assert (run.workload["revision"], hole.workload["revision"]) == ("a" * 40, None)
    assert run.workload_digest == replace(asked.workload, revision="a" * 40).digest != hole.workload_digest
    assert run.cell_key == hole.cell_key == asked.key


def test_every_row_keeps_what_was_predicted_of_its_cell(context: Context, fake_cell: Callable[..., Cell]) -> None:
    cell = fake_cell()
    memory = uncalibrated(Cell(workload(model=catalogue().models["tiny-llama-xs"], method="lora"), "hf", "cpu"))
    found = Prediction(memory=memory, speed=Speed(tokens_per_s=12.5), capacity_bytes=None, fit_probability=None)
    run = make(replace(context, foretell=lambda _: found), cell, None, "skipped", "needs more")
    assert (run.predicted_peak_bytes, run.predicted_tokens_per_s) == (memory.peak_bytes, 12.5)
    assert run.predicted_held_bytes == memory.held_bytes > memory.peak_bytes
    nothing = make(context, cell, None, "skipped", "needs more")
    assert (nothing.predicted_peak_bytes, nothing.predicted_tokens_per_s) == (None, None)


SET = {"power_limit_w": "450", "cpu_governor": "performance"}


def test_a_row_bears_its_night_and_its_epoch(context: Context, fake_cell: Callable[..., Cell]) -> None:
    """The epoch's digest is that of the row's own columns, so that anybody can make it again."""
    context = replace(context, night="2026-11-30", provenance=replace(context.provenance, versions={"driver": "580.1"}))
    run = run_row(context, fake_cell(), "r1", WHEN, "ok", None, Seen(full_trace(), Recording(settings_after=SET)))
    assert run.night == "2026-11-30"
    assert run.epoch_digest == Conditions.of(asdict(run)).epoch_digest
    assert len(run.epoch_digest or "") == 16
    for other in (Recording(settings_after={**SET, "power_limit_w": "300"}), Recording()):
        again = run_row(context, fake_cell(), "r1", WHEN, "ok", None, Seen(full_trace(), other))
        assert again.epoch_digest not in (run.epoch_digest, None)


def test_a_run_that_failed_is_of_the_same_epoch_as_the_one_before_it(context: Context, fake_cell: Callable[..., Cell]) -> None:
    whole, early = (Seen(trace, Recording(settings_before=SET)) for trace in (full_trace(), Trace()))
    done = run_row(context, fake_cell(), "r1", WHEN, "ok", None, whole)
    crashed = run_row(context, fake_cell(), "r2", WHEN, "crashed", "signal 11", early)
    assert done.epoch_digest == crashed.epoch_digest is not None


def test_of_what_was_not_started_no_epoch_is_known(context: Context, fake_cell: Callable[..., Cell]) -> None:
    hole = make(replace(context, night="2026-11-30"), fake_cell(), None, "skipped", "excluded")
    assert (hole.night, hole.epoch_digest) == ("2026-11-30", None)
    assert make(context, fake_cell(), full_trace()).night is None
