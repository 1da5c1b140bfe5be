"""The worker's side, in this process: order of events, versions, memory, and how a failure is put into words."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.backends.fake import Fake, FakeFault
from bench.backends.interface import Session, UnsupportedError
from bench.data import Batches
from bench.record import Counters, Event, Failed, Finished, Loaded, Progress, Started, Step, Warm
from bench.session import WrongTokens
from bench.spec import Cell, Measure
from bench.worker import work


@pytest.fixture
def worked(measure: Measure) -> Callable[[Cell], list[Event]]:
    def run(cell: Cell) -> list[Event]:
        events: list[Event] = []
        work(cell, measure, events.append)
        return events

    return run


def test_a_run_tells_versions_load_steps_and_peaks(worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]) -> None:
    events = worked(fake_cell())
    assert isinstance(events[0], Started)
    assert set(events[0].versions) == {"numpy"}
    assert [type(event) for event in events[1:]] == [Progress, Loaded, Step, Warm, Step, Step, Finished]
    steps = [event for event in events if isinstance(event, Step)]
    assert [(step.step, step.phase) for step in steps] == [(1, "warmup"), (2, "measured"), (3, "measured")]
    assert all(step.tokens == 16 and step.loss_tokens == 14 for step in steps)


def test_the_end_tells_the_memory_before_building_and_the_peak_of_training(
    worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]
) -> None:
    last = worked(fake_cell(peak_bytes=[5, 7]))[-1]
    assert isinstance(last, Finished)
    assert last.counters == Counters(framework_peak_bytes=7, compile_s=0.0)
    assert last.host_base_bytes is not None
    assert last.host_peak_bytes is not None
    assert 1_000_000 < last.host_base_bytes < 2 * last.host_peak_bytes


def test_a_failure_is_one_line_of_bounded_length(worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]) -> None:
    last = worked(fake_cell(fail="oom_host\nwith  a\ttail " + "x" * 9999, fail_at_step=1))[-1]
    assert isinstance(last, Failed)
    assert last.outcome == "crashed"
    assert "\n" not in last.reason
    assert len(last.reason) == 500


def test_accumulated_micro_batches_are_checked_together(
    worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]
) -> None:
    cell = fake_cell()
    accumulating = replace(cell, workload=replace(cell.workload, gradient_accumulation=3))
    steps = [event for event in worked(accumulating) if isinstance(event, Step)]
    assert [step.tokens for step in steps] == [48, 48, 48]
    expected = Batches(512, 2, 8, 0).digest(3, 3)
    assert steps[1].tokens_digest == expected


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnsupportedError("no such kernel"), "unsupported"),
        (WrongTokens("step 1 was given tokens no"), "invalid"),
        (MemoryError("no room"), "oom_host"),
        (ValueError("oom_host: by chance"), "crashed"),
        (FakeFault("device_lost: gone"), "device_lost"),
    ],
    ids=str,
)
def test_the_class_of_a_failure(
    worked: Callable[[Cell], list[Event]],
    fake_cell: Callable[..., Cell],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    outcome: str,
) -> None:
    def fails(self: Fake, cell: Cell, batches: Batches, session: Session) -> Counters:
        raise error

    monkeypatch.setattr(Fake, "run", fails)
    last = worked(fake_cell())[-1]
    assert last == Failed(outcome=outcome, reason=f"{type(error).__name__}: {error}")  # type: ignore[arg-type]
