"""Memory of a process as the operating system counts it, read by the worker for itself.

In: the calling process. Out: bytes it holds now, and the most it held since the last reset. On Linux these are VmRSS and VmHWM
of `/proc/self/status`; the kernel sets VmHWM back to the present size when `5` is written to `/proc/self/clear_refs` (proc(5)).
On macOS they are the physical footprint and its maximum over the life of the process, from proc_pid_rusage(): what Activity
Monitor calls Memory. The footprint counts Metal's buffers and pages that were compressed or swapped out, which resident memory
leaves out; its lifetime maximum cannot be set back.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from bench.meters.interface import Availability, Scope, Unavailable, Watched
from bench.spec import DEVICES, Device

PROC = Path("/proc/self")
KIB = 1024
RUSAGE_INFO_V4 = 4
"""The flavor of proc_pid_rusage() that first counts the lifetime maximum; sys/resource.h of the macOS SDK."""


class RusageInfoV4(ctypes.Structure):
    """`struct rusage_info_v4` of the macOS SDK's sys/resource.h, field for field: a UUID, then 35 unsigned 64-bit counts."""

    _fields_ = (
        ("ri_uuid", ctypes.c_uint8 * 16),
        ("ri_user_time", ctypes.c_uint64),
        ("ri_system_time", ctypes.c_uint64),
        ("ri_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_interrupt_wkups", ctypes.c_uint64),
        ("ri_pageins", ctypes.c_uint64),
        ("ri_wired_size", ctypes.c_uint64),
        ("ri_resident_size", ctypes.c_uint64),
        ("ri_phys_footprint", ctypes.c_uint64),
        ("ri_proc_start_abstime", ctypes.c_uint64),
        ("ri_proc_exit_abstime", ctypes.c_uint64),
        ("ri_child_user_time", ctypes.c_uint64),
        ("ri_child_system_time", ctypes.c_uint64),
        ("ri_child_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_child_interrupt_wkups", ctypes.c_uint64),
        ("ri_child_pageins", ctypes.c_uint64),
        ("ri_child_elapsed_abstime", ctypes.c_uint64),
        ("ri_diskio_bytesread", ctypes.c_uint64),
        ("ri_diskio_byteswritten", ctypes.c_uint64),
        ("ri_cpu_time_qos_default", ctypes.c_uint64),
        ("ri_cpu_time_qos_maintenance", ctypes.c_uint64),
        ("ri_cpu_time_qos_background", ctypes.c_uint64),
        ("ri_cpu_time_qos_utility", ctypes.c_uint64),
        ("ri_cpu_time_qos_legacy", ctypes.c_uint64),
        ("ri_cpu_time_qos_user_initiated", ctypes.c_uint64),
        ("ri_cpu_time_qos_user_interactive", ctypes.c_uint64),
        ("ri_billed_system_time", ctypes.c_uint64),
        ("ri_serviced_system_time", ctypes.c_uint64),
        ("ri_logical_writes", ctypes.c_uint64),
        ("ri_lifetime_max_phys_footprint", ctypes.c_uint64),
        ("ri_instructions", ctypes.c_uint64),
        ("ri_cycles", ctypes.c_uint64),
        ("ri_billed_energy", ctypes.c_uint64),
        ("ri_serviced_energy", ctypes.c_uint64),
        ("ri_interval_max_phys_footprint", ctypes.c_uint64),
        ("ri_runnable_time", ctypes.c_uint64),
    )


Fill = Callable[[RusageInfoV4], int]
"""Fills the struct in for the calling process; returns 0 where that worked, as proc_pid_rusage() does."""


def footprint_bytes(pid: int) -> int:
    """Another process's physical footprint on macOS; zero where it is gone. Raises as `fill_from_macos` does."""
    info = RusageInfoV4()
    failed = _proc_pid_rusage()(pid, RUSAGE_INFO_V4, ctypes.byref(info))
    return 0 if failed else int(info.ri_phys_footprint)


def fill_from_macos(info: RusageInfoV4) -> int:
    """proc_pid_rusage() of the calling process. Raises OSError or AttributeError where the library or function is absent."""
    return int(_proc_pid_rusage()(os.getpid(), RUSAGE_INFO_V4, ctypes.byref(info)))


@cache
def _proc_pid_rusage() -> Any:
    function = ctypes.CDLL("/usr/lib/libSystem.B.dylib").proc_pid_rusage
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    function.restype = ctypes.c_int
    return function


def give_back_freed() -> None:
    """Return to the system what the C library kept of freed memory (malloc_trim(3)); without glibc, nothing.

    Else what building left behind in its free lists would count as training's, as it would in torch's cache on CUDA, which is
    emptied at the same point.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The calling process's own memory. `proc` stands in for `/proc/self`, and `fill` for macOS, in tests."""

    proc: Path = PROC
    system: str = sys.platform
    fill: Fill = fill_from_macos
    name: str = "process-memory"
    scope: Scope = "process"
    devices: tuple[Device, ...] = DEVICES
    interval_s: float = 0.0
    min_window_s: float = 0.0

    def availability(self) -> Availability:
        if self.peak_bytes() is not None:
            return Availability(True)
        reason = "neither /proc/self/status nor proc_pid_rusage() gives a peak here"
        return Availability(False, reason, "use Linux with /proc mounted, or macOS")

    def open(self, watched: Watched) -> NoReturn:
        """Always raises Unavailable: a process reads its own memory, so the parent has nothing to open."""
        raise Unavailable("read by the child")

    def reset(self) -> bool:
        """Start counting the peak from the present size. False where the system cannot: the peak then covers the whole life."""
        if self.system == "darwin":
            return False
        give_back_freed()
        try:
            (self.proc / "clear_refs").write_text("5")
        except OSError:
            return False
        return True

    def peak_bytes(self) -> int | None:
        """The most since the last reset; None where the system has no such counter."""
        return self._footprint("ri_lifetime_max_phys_footprint") if self.system == "darwin" else self._status(b"VmHWM:")

    def present_bytes(self) -> int | None:
        """What is held now; None where the system has no such counter."""
        return self._footprint("ri_phys_footprint") if self.system == "darwin" else self._status(b"VmRSS:")

    def _status(self, field: bytes) -> int | None:
        """One line of `/proc/self/status`, which is in kibibytes though it says kB (proc(5))."""
        try:
            with open(self.proc / "status", "rb", buffering=0) as status:
                text = status.read()
        except OSError:
            return None
        _, found, rest = text.partition(b"\n" + field)
        return int(rest.split(None, 1)[0]) * KIB if found else None

    def _footprint(self, field: str) -> int | None:
        """One field of macOS's struct; zero stands there for "not kept", as no living process holds nothing."""
        info = RusageInfoV4()
        try:
            if self.fill(info) != 0:
                return None
        except (OSError, AttributeError):
            return None
        return int(getattr(info, field)) or None
