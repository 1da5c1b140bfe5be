"""A watch on the memory of the whole computer, so that a run ends before the system does.

In: the share of physical memory that may be in use, from 0 to 1. Out: the reason why the run has to end, once more is in use at
several looks in a row; and the last share seen, which tells a death for memory from another. Where processor and GPU share one
memory, or the CPU computes, a run that takes all of it takes the system with it, and the results of the sweep.

What is in use is all but what the system could give to a program at once, which a cache of files is not part of (`available` of
psutil, from /proc/meminfo's MemAvailable; on macOS free and inactive pages). A run that lives on swap leaves little available, so
this ends it as well: to see a machine swap, switch the watch off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bench.meters.process import footprint_bytes
from bench.spec import Device

DEFAULT_SHARE = 0.95
DEVICES: tuple[Device, ...] = ("cpu", "metal", "mps")
LOOKS = 3
FAR_S, NEAR_S = 1.0, 0.1
"""Seconds between two looks: far below the limit, and within a tenth of all memory of it. A look takes some 50 µs."""
NEAR_SHARE = 0.10

Look = Callable[[], tuple[int, int]]
"""(bytes in use, bytes in all)."""


def memory_in_use() -> tuple[int, int]:
    """Physical memory that no program could be given now, and all of it."""
    import psutil

    seen = psutil.virtual_memory()
    return int(seen.total - seen.available), int(seen.total)


def resident_bytes(pid: int) -> int:
    """What a process has of physical memory, on macOS Metal's buffers too; zero where it is gone, or kept from us."""
    import psutil

    with suppress(OSError, AttributeError):  # not a Mac: no such function
        return footprint_bytes(pid)
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def means(share: float | None) -> str:
    """The watch by name, for the column `memory_limit` of a run that it ended."""
    return "watchdog off" if share is None else f"watchdog {100 * share:g}%"


@dataclass
class Watchdog:
    """The watch over one run. `share` None: it only looks."""

    share: float | None = DEFAULT_SHARE
    look: Look = memory_in_use
    clock: Callable[[], float] = time.monotonic
    last_share: float = 0.0
    last_bytes: int = 0
    _above: int = 0
    _due_s: float = field(default=float("-inf"))

    def due_in_s(self) -> float:
        """Seconds until the next look is due."""
        return max(0.0, self._due_s - self.clock())

    def bark(self) -> str | None:
        """Look, if it is time to: why the run has to end, or None."""
        now_s = self.clock()
        if now_s < self._due_s:
            return None
        used_bytes, total_bytes = self.look()
        self.last_bytes = used_bytes
        self.last_share = used_bytes / total_bytes if total_bytes else 0.0
        limit = 1.0 if self.share is None else self.share
        self._due_s = now_s + (NEAR_S if self.last_share > limit - NEAR_SHARE else FAR_S)
        if self.share is None:
            return None
        self._above = self._above + 1 if self.last_share > self.share else 0
        if self._above < LOOKS:
            return None
        return (
            f"{used_bytes:,} of {total_bytes:,} bytes of the computer's memory were in use, over {self.share:.0%} (all programs "
            "together): ended before the system would; --memory-watchdog sets the share, or off"
        )
