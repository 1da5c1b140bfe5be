"""What a training tells while it runs, made into events.

In: a cell, how it is measured, its batches, and what the backend tells. Out: events, each step checked against the tokens that
it should have been given, until warm-up is over by its rule and the measured steps are there. Runs in the child.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.backends.interface import SeenStep
from bench.data import Batches
from bench.meters.process import ProcessMemory
from bench.record import Event, Loaded, Progress, Step, Warm
from bench.spec import Cell, Measure
from bench.trust.warmup import judge, rule_of

PROGRESS_EVERY_S = 1.0

Emit = Callable[[Event], None]


class WrongTokens(RuntimeError):
    """The framework was given other ids, or another mask, than `bench.data` made."""


@dataclass
class TrainingSession:
    """The worker's side of one training; satisfies `bench.backends.interface.Session`.

    A step is told as one of warm-up until the rule says where warm-up ended. Then `Warm` is told: right after the last step of
    a warm-up of fixed length, a window of steps later where the rule had to judge.
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
        self._check_tokens(seen)
        host_peak_bytes = self.memory.peak_bytes()
        before_s, self._cpu_s = self._cpu_s, process_cpu_s()
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
                cpu_s=self._cpu_s - before_s,
            )
        )
        self._durations_s.append(seen.duration_s)
        self._peaks_bytes.append(host_peak_bytes if seen.framework_peak_bytes is None else seen.framework_peak_bytes)
        self._judge()
        return self._warm is None or seen.step - self._warm.warmup_steps < self.measure.steps

    def _check_tokens(self, seen: SeenStep) -> None:
        micro_batches = self.cell.workload.gradient_accumulation
        expected = self.batches.digest((seen.step - 1) * micro_batches, micro_batches)
        if seen.tokens_digest != expected:
            raise WrongTokens(f"step {seen.step} was given tokens {seen.tokens_digest}, made were {expected}")

    def _judge(self) -> None:
        """Tell where warm-up ended, once."""
        if self._warm is None:
            self._warm = judge(self._durations_s, self._peaks_bytes, rule_of(self.measure))
            if self._warm is not None:
                self.emit(self._warm)


def process_cpu_s() -> float:
    """Processor seconds that this process has taken so far, in user and system mode, over all its threads; getrusage(2)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
