"""Ctrl-C as something to wait for, rather than an exception in the middle of a write.

In: SIGINT and SIGTERM while the block runs. Out: a flag, and a descriptor that becomes readable, so that a wait on a worker
wakes at once while an append to the results is always finished.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Interrupt:
    """How often an end was asked for: once is a wish, twice an order (the worker is then killed without its ten seconds)."""

    descriptor: int
    _count: list[int] = field(default_factory=list)

    @property
    def requested(self) -> bool:
        return bool(self._count)

    @property
    def insisted(self) -> bool:
        return len(self._count) > 1


@contextmanager
def catch_interrupts() -> Iterator[Interrupt]:
    """Catch both signals for the block; the handlers that stood before come back afterwards."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    interrupt = Interrupt(reading)

    def note(number: int, frame: FrameType | None) -> None:
        interrupt._count.append(number)
        os.write(writing, b"!")

    previous = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
