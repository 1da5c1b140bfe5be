"""One run on one clock: readings in training time, the window of the measured steps, why something is missing."""

from dataclasses import replace

import pytest

from bench.events import Parts, Warm
from bench.record import Reading, Step
from bench.sweep.evidence import Trace
from bench.sweep.sampling import Recording
from bench.sweep.seen import Seen


def step(number: int, start_s: float, duration_s: float = 1.0) -> Step:
    return Step(step=number, phase="warmup", start_s=start_s, duration_s=duration_s, tokens=8, loss_tokens=7, loss=1.0)


def reading(t_s: float, meter: str = "nvml", scope: str = "gpu-board") -> Reading:
    return Reading(t_s=t_s, meter=meter, scope=scope, quantity="power", unit="W", value=100.0)


@pytest.fixture
def trace() -> Trace:
    """Training began at 500 s of the clock; the first of three steps was warm-up."""
    made = Trace()
    for number in (1, 2, 3):
        made.take(step(number, number - 1.0), 500.0 + number)
    made.take(Warm(warmup_steps=1))
    return made


def test_the_window_spans_the_measured_steps(trace: Trace) -> None:
    seen = Seen(trace)
    assert [each.step for each in seen.measured] == [2, 3]
    assert seen.window == (1.0, 3.0)
    assert Seen(Trace()).window is None


def test_the_window_of_requests_spans_from_the_first_prefill_to_the_last_decode() -> None:
    made = Trace()
    for number in (1, 2, 3):
        prefill = replace(step(number, number - 1.0, 0.25), phase="prefill")
        made.take(prefill)
        made.take(replace(prefill, phase="decode", start_s=number - 0.75, duration_s=0.5))
    assert Seen(made).measured == []
    made.take(Warm(warmup_steps=1))
    assert [each.phase for each in Seen(made).measured] == ["prefill", "decode"] * 2
    assert Seen(made).window == (1.0, 2.75)


def test_readings_count_from_the_start_of_training_in_order_with_the_wall_meters_among_them(trace: Trace) -> None:
    recording = Recording(readings=[reading(499.0), reading(501.5)])
    seen = Seen(trace, recording, wall=(reading(500.5, "wall-meter", "wall"),))
    assert [(each.t_s, each.meter) for each in seen.readings] == [(-1.0, "nvml"), (0.5, "wall-meter"), (1.5, "nvml")]


def test_without_training_readings_count_from_the_first() -> None:
    seen = Seen(Trace(), Recording(readings=[reading(499.0), reading(501.5)]))
    assert [each.t_s for each in seen.readings] == [0.0, 2.5]
    assert Seen(Trace()).readings == []


def test_what_is_missing_is_told_with_the_wall_meters_reason() -> None:
    recording = Recording(missing={"rapl": "needs root"}, settings_before={"a": "1"}, settings_after={"a": "2"})
    seen = Seen(Trace(), recording, wall_missing="meter.csv: no rows")
    assert seen.missing == {"rapl": "needs root", "wall-meter": "meter.csv: no rows"}
    assert seen.settings == {"a": "2"}
    assert Seen(Trace(), Recording(settings_before={"a": "1"})).settings == {"a": "1"}


def test_an_outlying_step_is_marked_and_kept() -> None:
    trace = Trace()
    durations_s = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 5.0, 1.01]
    for number, duration_s in enumerate(durations_s, 1):
        trace.take(step(number, float(number), duration_s))
    trace.take(Warm(warmup_steps=0))
    assert [each.step for each in Seen(trace).steps if each.outlier] == [7]
    assert len(Seen(trace).steps) == len(durations_s)


def test_parts_of_memory_are_readings_of_the_moment_they_were_told(trace: Trace) -> None:
    trace.take(Parts(parts={"weights": 600, "gradients": 0}, how="played"), 505.0)
    made = [reading for reading in Seen(trace).readings if reading.meter == "parts"]
    assert [(reading.t_s, reading.scope, reading.quantity, reading.unit, reading.value) for reading in made] == [
        (5.0, "weights", "part_bytes", "bytes", 600.0),
        (5.0, "gradients", "part_bytes", "bytes", 0.0),
    ]
