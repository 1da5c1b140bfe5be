"""A limit on memory that is kept by accounting, where nothing can keep it by force.

In: a session, the limit, and the framework's count of its peak. Out: the same session, in which the run ends with `OverLimit` as
soon as the peak is seen above the limit: while building, when the model stands, after a step or a batch of requests. What went
over is not told as done, for a machine of that capacity would not have done it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.backends.interface import OverLimit, SeenRequest, SeenStep, Session
from bench.events import Loaded


@dataclass(frozen=True)
class Accounted:
    """Satisfies `bench.backends.interface.Session`. `peak_bytes` is asked for the peak so far; None: what steps tell is all."""

    session: Session
    capacity_bytes: int
    peak_bytes: Callable[[], int] | None = None

    @property
    def max_steps(self) -> int:
        return self.session.max_steps

    def progress(self, what: str) -> None:
        self._check(f"at {what}")
        self.session.progress(what)

    def loaded(self, loaded: Loaded) -> None:
        self._check("once the model stood")
        self.session.loaded(loaded)

    def step(self, seen: SeenStep) -> bool:
        self._check(f"in step {seen.step}", seen.framework_peak_bytes)
        return self.session.step(seen)

    def request(self, seen: SeenRequest) -> bool:
        self._check(f"in batch {seen.number} of requests", seen.framework_peak_bytes)
        return self.session.request(seen)

    def _check(self, when: str, told_bytes: int | None = None) -> None:
        peak_bytes = max(told_bytes or 0, self.peak_bytes() if self.peak_bytes else 0)
        if peak_bytes > self.capacity_bytes:
            raise OverLimit(f"a peak of {peak_bytes:,} bytes {when}, {self.capacity_bytes:,} allowed")
