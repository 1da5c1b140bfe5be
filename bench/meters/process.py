"""Peak memory of a process as the operating system counts it.

In: the calling process. Out: its peak resident bytes since the last reset. On Linux this is VmHWM of `/proc/self/status`,
which the kernel sets back to the present size when `5` is written to `/proc/self/clear_refs` (proc(5)). On macOS it is
`ru_maxrss` of getrusage(2), in bytes there, which covers the whole life of the process and cannot be reset.
"""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.meters.interface import Availability

PROC = Path("/proc/self")
KIB = 1024


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The calling process's own peak. `proc` stands in for `/proc/self` in tests."""

    proc: Path = PROC
    system: str = sys.platform
    name: str = "process-memory"
    scope: str = "process"

    def availability(self) -> Availability:
        if self.peak_bytes() is not None:
            return Availability(True)
        return Availability(False, "neither /proc nor getrusage gives a peak here", "use Linux with /proc mounted, or macOS")

    def reset(self) -> bool:
        """Start counting the peak from the present size. False where the system cannot: the peak then covers the whole life."""
        try:
            (self.proc / "clear_refs").write_text("5")
        except OSError:
            return False
        return True

    def peak_bytes(self) -> int | None:
        """Peak resident bytes since the last reset; None where the system has no such counter."""
        if self.system == "darwin":
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            status = (self.proc / "status").read_text()
        except OSError:
            return None
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
        return None
