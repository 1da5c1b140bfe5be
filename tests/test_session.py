"""What a backend tells, made into events: the token check, phases around the end of warm-up, the process's time and memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from bench.backends.interface import SeenRequest, SeenStep
from bench.data import Batches
from bench.events import Event, Loaded, Progress, Warm
from bench.meters.process import ProcessMemory
from bench.record import Step
from bench.session import TrainingSession, WrongTokens, process_cpu_s
from bench.spec import Cell, Measure

LOADED = Loaded(load_s=1, parameters=1, trainable_parameters=1, implementation={})
MIB = 2**20


@dataclass
class Told:
    """A session and the events that came out of it."""

    cell: Cell
    measure: Measure
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.batches = Batches(512, 2, 8, 0)
        self.session = TrainingSession(self.cell, self.measure, self.batches, self.events.append)

    def seen(self, step: int, duration_s: float = 1.0, peak_bytes: int | None = None) -> SeenStep:
        micro_batches = self.cell.workload.gradient_accumulation
        return SeenStep(
            step=step,
            start_s=step - 1.0,
            duration_s=duration_s,
            tokens=16,
            loss_tokens=14,
            loss=1.0,
            framework_peak_bytes=peak_bytes,
            tokens_digest=self.batches.digest((step - 1) * micro_batches, micro_batches),
        )

    def train(self, durations_s: Sequence[float], peaks_bytes: Sequence[int | None] | None = None) -> int:
        """Take steps until the session has enough, or there are no more: how many were taken."""
        self.session.loaded(LOADED)
        peaks = peaks_bytes or [None] * len(durations_s)
        for step, (duration_s, peak_bytes) in enumerate(zip(durations_s, peaks, strict=True), start=1):
            if not self.session.step(self.seen(step, duration_s, peak_bytes)):
                return step
        return len(durations_s)

    @property
    def story(self) -> str:
        """One letter an event: Loaded, w and m for steps by phase, Warm."""
        return "".join(event.phase[0] if isinstance(event, Step) else type(event).__name__[0] for event in self.events)

    @property
    def warm(self) -> list[Warm]:
        return [event for event in self.events if isinstance(event, Warm)]

    def asked(self, number: int, prefill_s: float = 0.25, decode_s: float = 0.75, peak_bytes: int | None = None) -> SeenRequest:
        return SeenRequest(
            number=number,
            start_s=number - 1.0,
            prefill_s=prefill_s,
            decode_s=decode_s,
            prompt_tokens=16,
            generated_tokens=20,
            framework_peak_bytes=peak_bytes,
            tokens_digest=self.batches.digest(number - 1, 1),
        )

    def serve(self, durations_s: Sequence[float]) -> int:
        """Take batches of requests, a quarter of each its prefill, until the session has enough: how many were taken."""
        self.session.loaded(LOADED)
        for number, duration_s in enumerate(durations_s, start=1):
            if not self.session.request(self.asked(number, duration_s / 4, 3 * duration_s / 4)):
                return number
        return len(durations_s)


@pytest.fixture
def told(fake_cell: Callable[..., Cell]) -> Callable[..., Told]:
    return lambda **measure: Told(fake_cell(), Measure(**measure))


@pytest.fixture
def serving(fake_cell: Callable[..., Cell]) -> Callable[..., Told]:
    return lambda **measure: Told(fake_cell(method="serve"), Measure(**measure))


@pytest.mark.parametrize(("length", "story"), [(0, "LWmmmmm"), (1, "LwWmmmmm"), (3, "LwwwWmmmmm")])
def test_a_fixed_warmup_ends_right_after_its_last_step(told: Callable[..., Told], length: int, story: str) -> None:
    run = told(warmup_steps=length, warmup_max_steps=length, steps=5)
    assert run.session.max_steps == length + 5
    assert run.train([1.0] * 10) == length + 5
    assert run.story == story
    assert run.warm == [Warm(warmup_steps=length)]


def test_the_steps_that_showed_the_end_of_warmup_count_as_measured(told: Callable[..., Told]) -> None:
    """A warm-up of three is seen at step ten, seven steps later, and those are all that were wanted."""
    run = told(steps=7, steady_spread=0.1)
    run.train([9.0, 5.0, 3.0, *[1.0] * 50])
    assert run.story == "L" + "w" * 10 + "W"
    assert run.warm == [Warm(warmup_steps=3)]


def test_measured_steps_follow_until_there_are_enough(told: Callable[..., Told]) -> None:
    run = told(steps=14)
    assert run.train([9.0, 5.0, 3.0, *[1.0] * 50]) == 17
    assert run.story == "L" + "w" * 13 + "W" + "m" * 4


def test_never_steady_is_told_at_the_ceiling_and_the_run_is_finished(told: Callable[..., Told]) -> None:
    run = told(warmup_max_steps=6, steps=12)
    assert run.session.max_steps == 18
    assert run.train([1.1**step for step in range(50)]) == 18
    assert run.story == "L" + "w" * 16 + "W" + "m" * 2
    assert run.warm == [Warm(warmup_steps=6, troubles=("unsteady",))]


def test_memory_is_the_frameworks_where_it_keeps_account(told: Callable[..., Told]) -> None:
    growing = [step * 100 * MIB for step in range(1, 51)]
    run = told(warmup_max_steps=6, steps=5)
    run.train([1.0] * 50, growing)
    assert run.warm == [Warm(warmup_steps=6, troubles=("memory-growing",))]


def test_memory_is_else_the_processs_own(told: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter(range(100 * MIB, 10_000 * MIB, 100 * MIB))
    monkeypatch.setattr(ProcessMemory, "peak_bytes", lambda self: next(peaks))
    run = told(warmup_max_steps=6, steps=5)
    run.train([1.0] * 50)
    assert run.warm == [Warm(warmup_steps=6, troubles=("memory-growing",))]
    assert [event.host_peak_bytes for event in run.events if isinstance(event, Step)][:2] == [100 * MIB, 200 * MIB]


def test_a_training_that_stops_early_has_told_of_no_end_of_warmup(told: Callable[..., Told]) -> None:
    run = told()
    assert run.train([1.0] * 11) == 11
    assert run.story == "L" + "w" * 11


def test_a_step_tells_the_processor_time_since_the_one_before(told: Callable[..., Told]) -> None:
    run = told()
    run.session.loaded(LOADED)
    before_s = process_cpu_s()
    while process_cpu_s() - before_s < 0.05:
        sum(range(1000))
    run.session.step(run.seen(1))
    run.session.step(run.seen(2))
    busy, idle = [event.cpu_s for event in run.events if isinstance(event, Step)]
    assert busy is not None
    assert idle is not None
    assert busy >= 0.05
    assert 0 <= idle < busy


def test_a_request_is_told_in_its_two_parts(serving: Callable[..., Told], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessMemory, "peak_bytes", lambda self: 11)
    run = serving(warmup_steps=0, warmup_max_steps=0, steps=2)
    run.session.loaded(LOADED)
    assert run.session.request(run.asked(1, peak_bytes=7))
    assert not run.session.request(run.asked(2, peak_bytes=8))
    prefill, decode = [event for event in run.events if isinstance(event, Step)][2:]
    assert (prefill.step, prefill.phase, prefill.start_s, prefill.duration_s, prefill.tokens) == (2, "prefill", 1.0, 0.25, 16)
    assert (decode.step, decode.phase, decode.start_s, decode.duration_s, decode.tokens) == (2, "decode", 1.25, 0.75, 18)
    assert (prefill.tokens_digest, decode.tokens_digest) == (run.batches.digest(1, 1), None)
    assert {(part.framework_peak_bytes, part.host_peak_bytes, part.loss, part.loss_tokens) for part in (prefill, decode)} == {
        (8, 11, None, 0)
    }
    assert prefill.cpu_s is None
    assert decode.cpu_s is not None


def test_warm_up_of_requests_ends_by_the_same_rule_over_the_whole_of_each(serving: Callable[..., Told]) -> None:
    run = serving(steps=7, steady_spread=0.1)
    assert run.serve([9.0, 5.0, 3.0, *[1.0] * 50]) == 10
    assert run.story == "L" + "pd" * 10 + "W"
    assert run.warm == [Warm(warmup_steps=3)]


def test_a_decode_that_slows_under_equal_prefills_is_unsteady(serving: Callable[..., Told]) -> None:
    run = serving(warmup_max_steps=6, steps=10)
    run.session.loaded(LOADED)
    for number in range(1, 17):
        run.session.request(run.asked(number, 0.25, 0.5 * 1.1**number))
    assert run.warm == [Warm(warmup_steps=6, troubles=("unsteady",))]


def test_prompts_not_made_by_the_harness_stop_the_run(serving: Callable[..., Told]) -> None:
    run = serving()
    with pytest.raises(WrongTokens, match="request 1 was given tokens no"):
        run.session.request(replace(run.asked(1), tokens_digest="no"))


def test_tokens_not_made_by_the_harness_stop_the_run(told: Callable[..., Told]) -> None:
    run = told()
    with pytest.raises(WrongTokens, match="step 1 was given tokens no"):
        run.session.step(replace(run.seen(1), tokens_digest="no"))


def test_signs_of_life_are_thinned_out(told: Callable[..., Told]) -> None:
    run = told()
    for block in range(1000):
        run.session.progress(f"block {block}")
    assert 1 <= len(run.events) < 20
    assert run.events[0] == Progress(what="block 0")
