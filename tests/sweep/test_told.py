"""What the worker told, as columns: medians over measured steps, processor time, why something is empty."""

from dataclasses import replace

import pytest

from bench.events import Counters, Finished, Loaded, Parts, Started, Warm
from bench.record import Step
from bench.sweep.evidence import Trace
from bench.sweep.seen import Seen
from bench.sweep.told import NO_COMPILE_CLOCK, NO_PEAK, told


def trace(*, cpu_s: float | None = 1.5, finished: Counters | None = None) -> Trace:
    """Five steps of 3, 1, 1, 2 and 1 s, the first of them warm-up, each with a growing resident peak."""
    made = Trace()
    made.take(Started(import_s=4.0, versions={}))
    made.take(Loaded(load_s=2.0, build_s=1.25, parameters=10, trainable_parameters=5, implementation={}))
    for number, duration_s in enumerate((3.0, 1.0, 1.0, 2.0, 1.0), 1):
        made.take(
            Step(
                step=number,
                phase="warmup",
                start_s=0,
                duration_s=duration_s,
                tokens=100,
                loss_tokens=99,
                loss=2.0,
                host_peak_bytes=1000 + number,
                cpu_s=cpu_s,
            )
        )
    made.take(Warm(warmup_steps=1))
    if finished is not None:
        made.take(Finished(counters=finished, host_peak_bytes=2000, host_base_bytes=500))
    return made


def test_rates_are_those_of_the_median_measured_step() -> None:
    columns = told(Seen(trace())).columns
    assert (columns["step_s_median"], columns["tokens_per_s"], columns["loss_tokens_per_s"]) == (1.0, 100.0, 99.0)
    assert (columns["warmup_steps"], columns["steps"]) == (1, 5)


def served(warm: int | None = 1) -> Trace:
    """Four batches of two requests; their prefills take 8, 1, 3 and 2 s, their decodes 9, 4, 4 and 5 s."""
    made = Trace()
    for number, (prefill_s, decode_s) in enumerate(((8.0, 9.0), (1.0, 4.0), (3.0, 4.0), (2.0, 5.0)), 1):
        part = Step(
            step=number, phase="prefill", start_s=0, duration_s=prefill_s, tokens=100, loss_tokens=0, loss=None,
            tokens_digest=f"d{number}", host_peak_bytes=1000 + number,
        )  # fmt: skip
        made.take(part)
        made.take(replace(part, phase="decode", duration_s=decode_s, tokens=20, tokens_digest=None, cpu_s=3.5))
    if warm is not None:
        made.take(Warm(warmup_steps=warm))
    return made


def test_of_serving_both_parts_have_their_rate_and_a_step_is_a_batch_of_requests() -> None:
    columns = told(Seen(served())).columns
    assert (columns["time_to_first_token_s"], columns["prefill_tokens_per_s"], columns["tokens_per_s"]) == (2.0, 50.0, 5.0)
    assert "loss_tokens_per_s" not in columns
    assert (columns["step_s_median"], columns["first_step_s"]) == (7.0, 17.0)
    assert (columns["warmup_steps"], columns["steps"]) == (1, 4)
    assert columns["host_cpu_share"] == pytest.approx(3 * 3.5 / (6 + 13))
    assert (columns["tokens_digest"], columns["loss_first"], columns["loss_last"]) == ("d1", None, None)


def test_of_serving_a_request_counts_once_however_many_of_its_parts_stand_apart() -> None:
    made = Trace()
    for number in range(1, 10):
        slow = 5.0 if number == 4 else 1.0
        part = replace(served().steps[0], step=number, phase="prefill", duration_s=slow + number / 100)
        made.take(part)
        made.take(replace(part, phase="decode", cpu_s=1.0))
    made.take(Warm(warmup_steps=0))
    assert told(Seen(made)).columns["outlier_steps"] == 1


def test_requests_before_the_end_of_warm_up_give_no_rate() -> None:
    columns = told(Seen(served(warm=None))).columns
    assert not {"tokens_per_s", "prefill_tokens_per_s", "time_to_first_token_s"} & columns.keys()
    assert (columns["warmup_steps"], columns["steps"], columns["first_step_s"], columns["host_peak_bytes"]) == (4, 4, 17.0, 1004)


def test_import_build_load_compile_and_first_step_stand_apart() -> None:
    columns = told(Seen(trace(finished=Counters(compile_s=0.75)))).columns
    assert [columns[name] for name in ("import_s", "build_s", "load_s", "compile_s", "first_step_s")] == [
        4.0,
        1.25,
        2.0,
        0.75,
        3.0,
    ]


def test_the_processor_share_counts_cores_over_the_measured_steps() -> None:
    assert told(Seen(trace(cpu_s=1.5))).columns["host_cpu_share"] == pytest.approx(6.0 / 5.0)
    assert told(Seen(trace(cpu_s=0.0))).columns["host_cpu_share"] == 0.0
    assert told(Seen(trace(cpu_s=None))).columns["host_cpu_share"] is None


def test_a_run_that_ended_early_keeps_the_peak_of_its_last_step() -> None:
    assert told(Seen(trace())).columns["host_peak_bytes"] == 1005
    assert told(Seen(trace(finished=Counters()))).columns["host_peak_bytes"] == 2000
    assert told(Seen(trace(finished=Counters()))).columns["host_base_bytes"] == 500


def test_a_counter_that_the_framework_lacks_is_told_with_the_reason() -> None:
    assert told(Seen(trace(finished=Counters()))).not_measured == {"framework_peak_bytes": NO_PEAK, "compile_s": NO_COMPILE_CLOCK}
    whole = Counters(framework_peak_bytes=0, compile_s=0.0)
    assert told(Seen(trace(finished=whole))).not_measured == {}


def test_what_never_settled_is_flagged() -> None:
    made = trace()
    made.take(Warm(warmup_steps=1, troubles=("unsteady",)))
    assert told(Seen(made)).flags == ("unsteady",)
    assert told(Seen(Trace())).flags == ()


def test_parts_stand_in_for_a_counter_that_the_framework_lacks() -> None:
    """Where it has one, its own figure stays."""
    parts = Parts(parts={"weights": 600, "activations": 400}, how="played")
    without, own = (trace(finished=Counters(framework_peak_bytes=peak)) for peak in (None, 900))
    for made in (without, own):
        made.take(parts, 7.0)
    assert told(Seen(without)).columns["framework_peak_bytes"] == 1000
    assert "framework_peak_bytes" not in told(Seen(without)).not_measured
    assert told(Seen(own)).columns["framework_peak_bytes"] == 900


def test_why_there_are_no_parts_is_told() -> None:
    made = trace(finished=Counters())
    made.take(Parts(parts={}, how="", why="compiled"))
    found = told(Seen(made))
    assert (found.columns["framework_peak_bytes"], found.not_measured["parts"]) == (None, "compiled")
    assert found.not_measured["framework_peak_bytes"] == NO_PEAK
