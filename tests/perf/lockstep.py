"""Two ways of doing the same steps, taking turns on one machine, so that its moods fall on both alike.

In: a cell, the command of a bare script, and a way to run the cell through the harness that tells each step as it ends. Out: the
durations of clean steps by arm and round. Both processes live at once; whoever is not on turn is stopped (SIGSTOP). The first
step of each turn holds the stop itself and the refilling of caches, so it is left out; the others were never interrupted. Between
the same process with its meters read and unread the turn changes likewise.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ARMS = ("bare", "metered", "unmetered")
TURN_STEPS = 3
"""Steps of one turn; all but its first count."""


class Bare:
    """The bare script's process: prints a step's duration as it ends, and stands still unless it is on turn."""

    def __init__(self, script: Path, job: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdin is not None
        self._process.stdin.write(job)
        self._process.stdin.close()

    def steps(self, number: int) -> list[float]:
        """Let it go on for so many steps; their durations in seconds."""
        self._process.send_signal(signal.SIGCONT)
        durations_s = [self._next() for _ in range(number)]
        self._process.send_signal(signal.SIGSTOP)
        return durations_s

    def _next(self) -> float:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("step "):
                return float(line.split()[1])
        raise AssertionError("the bare script ended early")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def bare(script: Path, job: str) -> Iterator[Bare]:
    """A bare script's process, for the block."""
    process = Bare(script, job)
    try:
        yield process
    finally:
        process.end()


@dataclass
class Turns:
    """Whose turn it is. `stepped` is called at the end of each of the harness's steps, and returns when it may go on.

    `durations_s[arm]` holds a list per round. `metered` says whether the parent is to read its meters now.
    """

    bare: Bare
    rounds: int
    warmup_steps: int
    worker: Callable[[], int]
    metered: bool = True
    durations_s: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    _seen: int = 0
    _turn: list[float] = field(default_factory=list)
    _order: Iterator[str] = field(default_factory=lambda: iter(()))
    _arm: str | None = None

    def __post_init__(self) -> None:
        self._order = (arm for number in range(self.rounds) for arm in random.Random(number).sample(ARMS, len(ARMS)))

    @property
    def harness_steps(self) -> int:
        """Measured steps that the harness has to make."""
        return 2 * self.rounds * TURN_STEPS

    def stepped(self, duration_s: float) -> None:
        self._seen += 1
        if self._seen < self.warmup_steps:
            return
        if self._arm is not None:
            self._turn.append(duration_s)
            if len(self._turn) < TURN_STEPS:
                return
            self.durations_s[self._arm].append(self._turn[1:])
            self._turn = []
        with _stopped(self.worker()):
            self._arm = self._next_of_the_harness()
            self.metered = self._arm != "unmetered"

    def _next_of_the_harness(self) -> str | None:
        for arm in self._order:
            if arm != "bare":
                return arm
            self.durations_s["bare"].append(self.bare.steps(TURN_STEPS)[1:])
        return None

    def ratio(self, above: str, below: str) -> float:
        """Rate of one arm ÷ rate of the other: the median over rounds of the ratio of their medians."""
        sides = zip(self.durations_s[above], self.durations_s[below], strict=True)
        return statistics.median(statistics.median(other) / statistics.median(one) for one, other in sides)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
