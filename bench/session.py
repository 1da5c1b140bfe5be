"""What a training, or a serving, tells while it runs, made into events.

In: a cell, how it is measured, its batches, and what the backend tells. Out: events, each step or batch of requests checked
against the tokens that it should have been given, until warm-up is over by its rule and the measured ones are there. Runs in the
child.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bench.backends.interface import SeenRequest, SeenStep, Session
from bench.data import Batches
from bench.events import Event, Loaded, Parts, Progress, Warm
from bench.meters.process import ProcessMemory
from bench.record import Step
from bench.spec import Cell, Measure
from bench.trust.warmup import judge, rule_of

PROGRESS_EVERY_S = 1.0

Emit = Callable[[Event], None]


class WrongTokens(RuntimeError):
    """The framework was given other ids, or another mask, than `bench.data` made."""


@dataclass
class TrainingSession:
    """The worker's side of one run; satisfies `bench.backends.interface.Session`.

    A step is told as one of warm-up until the rule says where warm-up ended. Then `Warm` is told: right after the last step of
    a warm-up of fixed length, a window of steps later where the rule had to judge. For a batch of requests the same rule looks at
    the time from its beginning to its last token; its two parts are told as `prefill` and `decode` throughout, since whoever
    stores them knows from `Warm` which belong to warm-up.
    """

    cell: Cell
    measure: Measure
    batches: Batches
    emit: Emit
    memory: ProcessMemory = field(default_factory=ProcessMemory)
    _last_progress_s: float = float("-inf")
    _cpu_s: float = 0.0
    _warm: Warm | None = None
    _durations_s: list[float] = field(default_factory=list)
    _peaks_bytes: list[int | None] = field(default_factory=list)

    @property
    def max_steps(self) -> int:
        return self.measure.warmup_max_steps + self.measure.steps

    def progress(self, what: str) -> None:
        now_s = time.monotonic()
        if now_s - self._last_progress_s >= PROGRESS_EVERY_S:
            self._last_progress_s = now_s
            self.emit(Progress(what=what))

    def loaded(self, loaded: Loaded) -> None:
        self.emit(loaded)
        self._judge()
        self.memory.reset()
        self._cpu_s = process_cpu_s()

    def step(self, seen: SeenStep) -> bool:
        micro_batches = self.cell.workload.gradient_accumulation
        self._check_tokens("step", seen.step, seen.tokens_digest, micro_batches)
        host_peak_bytes = self.memory.peak_bytes()
        self.emit(
            Step(
                step=seen.step,
                phase="warmup" if self._warm is None else "measured",
                start_s=seen.start_s,
                duration_s=seen.duration_s,
                tokens=seen.tokens,
                loss_tokens=seen.loss_tokens,
                loss=seen.loss,
                framework_peak_bytes=seen.framework_peak_bytes,
                tokens_digest=seen.tokens_digest,
                host_peak_bytes=host_peak_bytes,
                cpu_s=self._cpu_since_s(),
            )
        )
        return self._goes_on(seen.step, seen.duration_s, seen.framework_peak_bytes, host_peak_bytes)

    def request(self, seen: SeenRequest) -> bool:
        self._check_tokens("request", seen.number, seen.tokens_digest, 1)
        host_peak_bytes = self.memory.peak_bytes()
        prefill = Step(
            step=seen.number,
            phase="prefill",
            start_s=seen.start_s,
            duration_s=seen.prefill_s,
            tokens=seen.prompt_tokens,
            loss_tokens=0,
            loss=None,
            framework_peak_bytes=seen.framework_peak_bytes,
            tokens_digest=seen.tokens_digest,
            host_peak_bytes=host_peak_bytes,
        )
        decode = replace(
            prefill,
            phase="decode",
            start_s=seen.start_s + seen.prefill_s,
            duration_s=seen.decode_s,
            tokens=seen.generated_tokens - self.cell.workload.batch_size,
            tokens_digest=None,
            cpu_s=self._cpu_since_s(),
        )
        self.emit(prefill)
        self.emit(decode)
        return self._goes_on(seen.number, seen.prefill_s + seen.decode_s, seen.framework_peak_bytes, host_peak_bytes)

    def _check_tokens(self, what: str, number: int, digest: str, micro_batches: int) -> None:
        expected = self.batches.digest((number - 1) * micro_batches, micro_batches)
        if digest != expected:
            raise WrongTokens(f"{what} {number} was given tokens {digest}, made were {expected}")

    def _cpu_since_s(self) -> float:
        """Processor time since it was last asked for."""
        before_s, self._cpu_s = self._cpu_s, process_cpu_s()
        return self._cpu_s - before_s

    def _goes_on(self, number: int, duration_s: float, framework_peak_bytes: int | None, host_peak_bytes: int | None) -> bool:
        """Take a step, or a batch of requests, into the judgement of warm-up: whether another one is wanted."""
        self._durations_s.append(duration_s)
        self._peaks_bytes.append(host_peak_bytes if framework_peak_bytes is None else framework_peak_bytes)
        self._judge()
        return self._warm is None or number - self._warm.warmup_steps < self.measure.steps

    def _judge(self) -> None:
        """Tell where warm-up ended, once."""
        if self._warm is None:
            self._warm = judge(self._durations_s, self._peaks_bytes, rule_of(self.measure))
            if self._warm is not None:
                self.emit(self._warm)


NO_PARTS = "the backend does not tell the parts of this cell's memory"


@dataclass
class Asking:
    """A session that wants the parts of memory as well; satisfies `bench.backends.interface.PartsSession`."""

    session: Session
    emit: Emit
    _told: bool = False

    @property
    def max_steps(self) -> int:
        return self.session.max_steps

    def progress(self, what: str) -> None:
        self.session.progress(what)

    def loaded(self, loaded: Loaded) -> None:
        self.session.loaded(loaded)

    def step(self, seen: SeenStep) -> bool:
        return self.session.step(seen)

    def request(self, seen: SeenRequest) -> bool:
        return self.session.request(seen)

    def parts(self, parts: Parts) -> None:
        self._told = True
        self.emit(parts)

    def finish(self) -> None:
        """Say that there are none, if the backend told none."""
        if not self._told:
            self.emit(Parts(parts={}, how="", why=NO_PARTS))


def process_cpu_s() -> float:
    """Processor seconds that this process has taken so far, in user and system mode, over all its threads; getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
