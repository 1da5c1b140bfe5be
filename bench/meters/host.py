"""What else goes on in the computer while a run lasts: the processors' time, swap, sleep, battery, disk; and how it is set.

In: the worker's process, the folder of the results. Out: counters and levels of the whole machine, each left out with its reason
where this system does not give it (a sandbox such as gVisor shows processor times of zero, a container may hide /proc/vmstat).

- `cpu_busy` is everybody's processor time, with what a hypervisor stole and without idle time and waiting for disks. Linux adds
  guests' time to user time itself (proc_stat(5)), so it is not added again.
- `cpu_of_run` is the part of the worker, its descendants and this harness. Of descendants that have ended, what is known is what
  they had when last seen and, where their parent waited for them, what the system added to the parent's account. Neither exceeds
  the truth, so the greater is given.
- `asleep` is a clock that goes on in sleep less one that does not, by clock_gettime(2) of Linux and clock_gettime(3) of macOS.
- `swap_traffic` on macOS counts `swapins` and `swapouts` of `vm_statistics64`; psutil gives page-ins there, which mapped files
  cause as well.
- `on_battery` on Linux is read from /sys/class/power_supply, leaving out batteries of `scope` Device: psutil takes a wireless
  mouse's battery for the computer's. A computer without a battery is not on battery.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.meters.interface import Availability, Quantity, Scope, Unavailable, Value, Watched
from bench.spec import DEVICES, Device

NOT_BUSY = frozenset({"idle", "iowait", "guest", "guest_nice"})
LOOK_SHARE = 0.002
"""How much of a core the search for the worker's descendants may take: it looks at every process of the system, which took 1.7 ms
with 80 of them and takes more with more, so it is made the more seldom."""
HOST_VM_INFO64, VM_WORDS, SWAPINS, SWAPOUTS = 4, 19, 14, 15
"""`vm_statistics64` of the SDK's mach/vm_statistics.h: 19 words of 64 bits; words 14 and 15 are the two counters, in pages."""


class NotGiven(Exception):
    """The system does not give a quantity; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Host:
    """The meter. `sys_root` stands in for /sys, `system` for the platform, `swapped` for macOS's counters, in tests."""

    sys_root: Path = Path("/sys")
    system: str = sys.platform
    swapped: Callable[[], tuple[int, int]] | None = None
    name: str = "host"
    scope: Scope = "machine"
    devices: tuple[Device, ...] = DEVICES
    interval_s: float = 1.0
    min_window_s: float = 0.0

    def availability(self) -> Availability:
        """Whether anything can be read; `missing` of an open gauge says what cannot."""
        remedy = "install psutil, and run where /proc is mounted (Linux) or on macOS"
        try:
            gauge = self.open(Watched(device="cpu"))
        except Unavailable as error:
            return Availability(False, str(error), remedy)
        if any(value.quantity == "cpu_busy" for value in gauge.read()):
            return Availability(True)
        return Availability(False, gauge.missing()["cpu_busy"], remedy)

    def open(self, watched: Watched) -> HostGauge:
        """Start. Raises Unavailable where psutil is not there."""
        try:
            import psutil  # noqa: F401  # whether it is there is all that is asked
        except ImportError as error:
            raise Unavailable(f"psutil cannot be imported: {error}") from error
        return HostGauge(self, watched)


class Source(NamedTuple):
    """One quantity, read at every `every`-th reading."""

    quantity: Quantity
    read: Callable[[], float]
    every: int = 1


class HostGauge:
    """What the system says while a run lasts."""

    def __init__(self, host: Host, watched: Watched) -> None:
        self._host = host
        self._missing: dict[Quantity, str] = {}
        self._readings = 0
        self._sources = (
            Source("cpu_busy", busy_s),
            Source("cpu_of_run", RunTime(watched.pid).seconds),
            Source("swap_used", swap_used_bytes),
            Source("swap_traffic", self._swap_traffic_bytes),
            Source("asleep", lambda: asleep_s(host.system)),
            Source("on_battery", self._on_battery, 10),  # firmware may take milliseconds to answer
            Source("disk_free", lambda: float(shutil.disk_usage(watched.folder).free)),
        )

    def read(self) -> list[Value]:
        """What the system gives now."""
        count, self._readings = self._readings, self._readings + 1
        return list(self._values([source for source in self._sources if count % source.every == 0]))

    def _values(self, sources: list[Source]) -> Iterator[Value]:
        for source in sources:
            try:
                value = source.read()
            except (NotGiven, OSError) as why:
                self._missing[source.quantity] = str(why)
            else:
                self._missing.pop(source.quantity, None)
                yield Value(source.quantity, value)

    def missing(self) -> Mapping[Quantity, str]:
        """What the last reading left out."""
        return self._missing

    def settings(self) -> Mapping[str, str]:
        """Logical processors, and on Linux how their clocks are governed; what this machine does not have is left out."""
        return {"cpu_cores": str(os.cpu_count()), **cpu_settings(self._host.sys_root)}

    def close(self) -> None:
        """Nothing to let go."""

    def _swap_traffic_bytes(self) -> float:
        if self._host.system != "darwin":
            return linux_swap_traffic_bytes()
        pages = (self._host.swapped or macos_swapped_pages)()
        return float(sum(pages) * os.sysconf("SC_PAGE_SIZE"))

    def _on_battery(self) -> float:
        return on_battery(self._host.sys_root) if self._host.system == "linux" else battery_by_psutil()


def busy_s() -> float:
    """Processor seconds of everybody since the start of the system. Raises NotGiven where all counters are zero."""
    import psutil

    try:
        times = psutil.cpu_times()._asdict()
    except (TypeError, ValueError) as error:  # an empty or foreign /proc/stat
        raise NotGiven(f"the processors' times cannot be read: {error}") from error
    if not any(times.values()):
        raise NotGiven("the system shows processor times of zero, as a sandbox does")
    return float(sum(seconds for name, seconds in times.items() if name not in NOT_BUSY))


class RunTime:
    """Processor seconds of a process and its descendants, and of the calling process; never less than before."""

    def __init__(self, pid: int | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._pid, self._clock = pid, clock
        self._family: list[Any] = []
        self._own_s: dict[Any, float] = {}
        self._most_s = 0.0
        self._look_at_s = float("-inf")

    def seconds(self) -> float:
        """The sum so far. Raises NotGiven where the process is gone."""
        if self._pid is not None:
            self._look(self._pid)
            self._most_s = max(self._most_s, self._with_waited_for_s(), sum(self._own_s.values()))
        return self._most_s + time.process_time()

    def _look(self, pid: int) -> None:
        """Find the descendants, if it is time to."""
        import psutil

        began_s = self._clock()
        try:
            root = self._family[0] if self._family else psutil.Process(pid)
            root.cpu_times()
            if began_s >= self._look_at_s:
                self._family = [root, *root.children(recursive=True)]
                now_s = self._clock()
                self._look_at_s = now_s + (now_s - began_s) / LOOK_SHARE
        except psutil.Error as error:
            raise NotGiven("the worker's process is gone") from error

    def _with_waited_for_s(self) -> float:
        """Of those that live, with the ended children that they waited for (zero on macOS); notes everyone's own time."""
        import psutil

        total_s = 0.0
        for process in self._family:
            try:
                times = process.cpu_times()
            except psutil.Error:  # ended, or not ours to see; what was noted of it stays
                continue
            self._own_s[process] = times.user + times.system
            total_s += self._own_s[process] + times.children_user + times.children_system
        return total_s


def swap_used_bytes() -> float:
    """What lies in swap now; 0 where there is no swap."""
    import psutil

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the traffic, which is not asked for here
        return float(psutil.swap_memory().used)


def linux_swap_traffic_bytes() -> float:
    """Paged in and out of swap since the start of the system: `pswpin` and `pswpout` of /proc/vmstat, in pages."""
    import psutil

    lines = Path(psutil.PROCFS_PATH, "vmstat").read_text().splitlines()
    counts = [int(line.split()[1]) for line in lines if line.startswith(("pswpin ", "pswpout "))]
    if len(counts) != 2:
        raise NotGiven("/proc/vmstat has no pswpin and pswpout")
    return float(sum(counts) * os.sysconf("SC_PAGE_SIZE"))


def macos_swapped_pages() -> tuple[int, int]:
    """Pages brought in from and put out to swap since the start of the system: host_statistics64() of mach/mach_host.h."""
    library, host = _mach()
    words = (ctypes.c_uint64 * VM_WORDS)()
    count = ctypes.c_uint32(2 * VM_WORDS)
    if library.host_statistics64(host, HOST_VM_INFO64, ctypes.byref(words), ctypes.byref(count)):
        raise NotGiven("host_statistics64() refuses")
    return words[SWAPINS], words[SWAPOUTS]


@cache
def _mach() -> tuple[Any, int]:
    """The library and the host's port, which every call would give anew without taking the last one back."""
    library = ctypes.CDLL("/usr/lib/libSystem.B.dylib")
    library.mach_host_self.restype = ctypes.c_uint32
    library.host_statistics64.argtypes = (ctypes.c_uint32, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return library, library.mach_host_self()


def asleep_s(system: str) -> float:
    """How long the computer has slept since its start."""
    names = ("CLOCK_MONOTONIC_RAW", "CLOCK_UPTIME_RAW") if system == "darwin" else ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC")
    if not all(hasattr(time, name) for name in names):
        raise NotGiven(f"this system lacks {' or '.join(names)}")
    counts_sleep, stops_in_sleep = (getattr(time, name) for name in names)
    return max(0.0, time.clock_gettime(counts_sleep) - time.clock_gettime(stops_in_sleep))


def on_battery(sys_root: Path) -> float:
    """1 where a battery of the computer's own is being discharged and no supply is connected; 0 where not, or without one."""
    if not (sys_root / "class").is_dir():
        raise NotGiven("no /sys/class here")
    supplies = sorted((sys_root / "class/power_supply").glob("*"))
    if any(_text(supply / "type") in ("Mains", "USB") and _text(supply / "online") not in ("0", None) for supply in supplies):
        return 0.0
    batteries = [supply for supply in supplies if _text(supply / "type") == "Battery" and _text(supply / "scope") != "Device"]
    states = {_text(battery / "status") for battery in batteries} - {None, "Unknown"}
    if batteries and not states:
        raise NotGiven("the battery does not tell whether it is discharged")
    return float("Discharging" in states)


def battery_by_psutil() -> float:
    """The same from psutil, elsewhere than on Linux."""
    import psutil

    battery = psutil.sensors_battery()
    if battery is None:
        return 0.0
    if battery.power_plugged is None:
        raise NotGiven("the battery does not tell whether a supply is connected")
    return float(not battery.power_plugged)


def cpu_settings(sys_root: Path) -> dict[str, str]:
    """How Linux governs the processors' clocks; values that differ between cores are joined with commas."""
    cpus = sys_root / "devices/system/cpu"
    no_turbo = _text(cpus / "intel_pstate/no_turbo")
    boost = {None: _text(cpus / "cpufreq/boost"), "0": "1"}.get(no_turbo, "0")
    found = {
        "cpu_governor": _each(cpus, "scaling_governor"),
        "cpu_energy_preference": _each(cpus, "energy_performance_preference"),
        "cpu_boost": None if boost is None else ("on" if boost == "1" else "off"),
        "platform_profile": _text(sys_root / "firmware/acpi/platform_profile"),
    }
    return {name: value for name, value in found.items() if value}


def _each(cpus: Path, name: str) -> str:
    values = {_text(path) for path in cpus.glob(f"cpufreq/policy*/{name}")}
    return ",".join(sorted(value for value in values if value))


def _text(path: Path) -> str | None:
    """One file of /sys, stripped; None where it is not there or refuses."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
