"""The worker's side, in this process: order of events, versions, memory, and how a failure is put into words."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_models import LLAMA

from bench.backends.fake import Fake, FakeFault
from bench.backends.interface import Held, OverLimit, Session, UnsupportedError
from bench.data import Batches
from bench.events import Counters, Event, Failed, Finished, Loaded, Parts, Progress, Started, Warm
from bench.reading.architecture import model_of
from bench.record import Step
from bench.session import NO_PARTS, WrongTokens
from bench.spec import Cell, Measure, workload
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


def test_a_serving_tells_both_parts_of_each_request(
    worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]
) -> None:
    events = worked(fake_cell(method="serve"))
    assert [type(event) for event in events[1:]] == [Progress, Loaded, *[Step] * 2, Warm, *[Step] * 4, Finished]
    steps = [event for event in events if isinstance(event, Step)]
    assert [(step.step, step.phase, step.tokens) for step in steps[:2]] == [(1, "prefill", 2 * 512), (1, "decode", 2 * 127)]
    assert [step.tokens_digest for step in steps[::2]] == [Batches(512, 2, 512, 0).digest(index, 1) for index in range(3)]


def test_prompts_of_other_tokens_are_no_result(worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell]) -> None:
    last = worked(fake_cell(method="serve", fail="tokens", fail_at_step=2))[-1]
    assert isinstance(last, Failed)
    assert (last.outcome, last.reason.split(" was")[0]) == ("invalid", "WrongTokens: request 2")


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
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "oom_host"),
        (OSError(errno.ENOSPC, "No space left on device"), "crashed"),
        (OverLimit("a peak of 2 bytes, 1 allowed"), "over_limit"),
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


def test_a_limit_kept_by_accounting_ends_the_run_with_what_went_over(measure: Measure, fake_cell: Callable[..., Cell]) -> None:
    events: list[Event] = []
    work(fake_cell(peak_bytes=[5, 2001]), measure, events.append, 2000)
    assert isinstance(events[0], Started)
    assert events[0].memory_limit == "accounting"
    assert events[-1] == Failed(outcome="over_limit", reason="OverLimit: a peak of 2,001 bytes in step 2, 2,000 allowed")
    assert [event.step for event in events if isinstance(event, Step)] == [1]


def test_a_limit_kept_by_force_is_not_counted_as_well(
    measure: Measure, fake_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def hold(self: Fake, device: str, capacity_bytes: int) -> Held:
        asked.append((device, capacity_bytes))
        return Held("torch-cuda-allocator")

    monkeypatch.setattr(Fake, "limit_memory", hold)
    events: list[Event] = []
    work(fake_cell(peak_bytes=2001), measure, events.append, 2000)
    assert isinstance(events[-1], Finished)
    assert asked == [("cpu", 2000)]
    work(fake_cell(peak_bytes=2001), measure, events.append)
    assert asked == [("cpu", 2000)]


def test_what_is_no_want_of_memory_comes_with_its_remedy(
    worked: Callable[[Cell], list[Event]], fake_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "[metal::malloc] Resource limit (499000) exceeded." + " and so on" * 100

    def fails(self: Fake, cell: Cell, batches: Batches, session: Session) -> Counters:
        raise RuntimeError(message)

    monkeypatch.setattr(Fake, "run", fails)
    last = worked(fake_cell())[-1]
    assert isinstance(last, Failed)
    assert last.outcome == "crashed"
    assert last.reason.startswith("RuntimeError: [metal::malloc] Resource limit (499000) exceeded.")
    assert last.reason.endswith("generated_tokens or the number of adapted layers")
    assert len(last.reason) == 500


def test_weights_that_were_damaged_since_the_suite_was_read_are_a_row(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x80" + bytes(7) + b"{}")
    model = replace(model_of("tiny", LLAMA, "config.json"), origin=str(tmp_path))
    cell = Cell(workload(model=model, method="full", sequence_length=8, weights="folder"), "mlx", "cpu")
    events: list[Event] = []
    work(cell, Measure(), events.append)
    assert isinstance(events[-1], Failed)
    assert events[-1].outcome == "unsupported"
    assert "model.safetensors: is truncated: 10 of 136 bytes are there; fetch it again" in events[-1].reason


def test_parts_of_memory_are_told_before_the_end_where_they_are_asked_for(
    measure: Measure, fake_cell: Callable[..., Cell]
) -> None:
    """Held to a limit by counting, too; a backend that tells none of this cell gives a reason."""

    def told(cell: Cell, capacity_bytes: int | None, *, parts: bool) -> list[Event]:
        events: list[Event] = []
        work(cell, measure, events.append, capacity_bytes, parts=parts)
        return [event for event in events if isinstance(event, Parts | Finished | Failed)]

    plays = {"parts": {"weights": 7, "rest": 3}, "peak_bytes": 10}
    for capacity_bytes in (None, 100):
        parts, last = told(fake_cell(**plays), capacity_bytes, parts=True)
        assert parts == Parts(parts={"weights": 7, "rest": 3}, how="played")
        assert isinstance(last, Finished)
    assert [type(event) for event in told(fake_cell(**plays), None, parts=False)] == [Finished]
    assert told(fake_cell(), None, parts=True)[0] == Parts(parts={}, how="", why=NO_PARTS)
    assert [type(event) for event in told(fake_cell(fail="oom_device", **plays), None, parts=True)] == [Failed]
