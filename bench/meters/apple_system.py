"""What disturbs a run on a Mac: thermal pressure and other users of the GPU; and how the Mac is set.

In: the worker's process. Out: `thermal_pressure` as macOS itself grades it, and `foreign_utilization`: the GPU time of clients
that are not of this run, over the time between two readings.

The GPU time is each client's `accumulatedGPUTime` in the I/O registry, which every user may read: no process is started for it.
(A walk over 142 clients took 2 ms on an M3 Max, in compiled code.) A client that closed between two readings takes its last share
with it, so the figure is a lower bound. WindowServer is a foreign client like any other: on an idle desktop it takes a few per
cent, so a threshold belongs to the mean over a run, not to a single reading. Where no client shows its time, `missing` says so:
other users are then unknown, which is not the same as absent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from bench.meters.interface import Availability, Quantity, Scope, Unavailable, Value, Watched
from bench.meters.mac import GpuClient, Mac, this_mac
from bench.spec import Device

NANOSECONDS = 1e9
UNREAD = "the GPU's clients could not be read twice while the run lasted"
POWER_MODES = {"powermode": {"0": "automatic", "1": "low", "2": "high"}, "lowpowermode": {"0": "automatic", "1": "low"}}
"""Names of the values of `pmset -g`: macOS 15 put `powermode` in place of `lowpowermode`; some releases print either or none."""


@dataclass(frozen=True, slots=True)
class AppleSystem:
    """The meter. `mac` and `clock` are replayed in tests. Read every 2 s, as a walk over the GPU's clients takes milliseconds."""

    mac: Mac = field(default_factory=this_mac)
    clock: Callable[[], float] = time.monotonic
    name: str = "apple-system"
    scope: Scope = "machine"
    devices: tuple[Device, ...] = ("metal", "mps", "cpu")
    interval_s: float = 2.0
    min_window_s: float = 0.0

    def availability(self) -> Availability:
        if not self.mac.is_apple_silicon():
            return Availability(False, "not a Mac with Apple silicon", "use nvml and host there")
        if self.mac.thermal_level() is None and not gpu_times(self.mac.gpu_clients() or ()):
            return Availability(False, "macOS gives neither thermal pressure nor the GPU's clients", "update macOS")
        return Availability(True)

    def open(self, watched: Watched) -> AppleSystemGauge:
        """Start. Raises Unavailable."""
        found = self.availability()
        if not found.available:
            raise Unavailable(found.reason)
        return AppleSystemGauge(self.mac, watched, self.clock)


class AppleSystemGauge:
    """What macOS says while a run lasts."""

    def __init__(self, mac: Mac, watched: Watched, clock: Callable[[], float]) -> None:
        self._mac, self._watched, self._clock = mac, watched, clock
        self._family: set[int] = set()
        self._known: set[int | None] = set()
        self._seen: dict[int, int] | None = None
        self._seen_s = 0.0
        self._missing: dict[Quantity, str] = {"foreign_utilization": UNREAD}

    def read(self) -> list[Value]:
        return [*self._thermal(), *self._foreign()]

    def missing(self) -> Mapping[Quantity, str]:
        return self._missing

    def settings(self) -> Mapping[str, str]:
        """Energy mode, the limit of what the GPU may wire (MiB, 0: the system's own), and macOS's version; absent if not told."""
        told = {
            "mac_power_mode": power_mode(self._mac.pmset() or ""),
            "iogpu_wired_limit_mb": self._mac.sysctl("iogpu.wired_limit_mb"),
            "macos_version": self._mac.version() or None,
        }
        return {name: value for name, value in told.items() if value is not None}

    def close(self) -> None:
        """Nothing to let go: what macOS lends lives as long as the process."""

    def _thermal(self) -> Iterator[Value]:
        level = self._mac.thermal_level()
        if level is None:
            self._missing["thermal_pressure"] = "macOS does not give the thermal pressure"
        else:
            yield Value("thermal_pressure", float(level))

    def _foreign(self) -> Iterator[Value]:
        """The share since the reading before; the first reading only starts the count."""
        if self._watched.device == "cpu":
            self._missing["foreign_utilization"] = "the run is on the processor, whose other users `host` counts"
            return
        clients, now_s = self._mac.gpu_clients(), self._clock()
        if clients is None:  # the registry changed under the walk: the next reading covers this stretch too
            return
        times = gpu_times(clients)
        if not times:
            self._missing["foreign_utilization"] = "no client of the GPU shows its time"
            return
        before, elapsed_s = self._seen, now_s - self._seen_s
        self._seen, self._seen_s = {**(before or {}), **times}, now_s
        if before is not None and elapsed_s > 0:
            self._missing.pop("foreign_utilization", None)
            busy_s = foreign_s(before, clients, self._own(clients))
            yield Value("foreign_utilization", min(busy_s / elapsed_s, 1.0))

    def _own(self, clients: Iterable[GpuClient]) -> Set[int]:
        """Every process of this run so far, the ended ones too: their clients may still be listed.

        Looked up only where a new process has come to the GPU, as it takes a look at every process of the system.
        """
        makers = {_creator(client) for client in clients}
        if self._watched.pid is not None and not makers <= self._known:
            self._family |= self._mac.family(self._watched.pid)
            self._known |= makers
        return self._family


def power_mode(pmset: str) -> str | None:
    """The energy mode in use: automatic, low or high; None where `pmset -g` names none."""
    for key, names in POWER_MODES.items():
        if found := re.search(rf"^\s*{key}\s+(\d+)\s*$", pmset, re.MULTILINE):
            return names.get(found[1], found[1])
    return None


def gpu_times(clients: Iterable[GpuClient]) -> dict[int, int]:
    """Nanoseconds on the GPU since each client was made, by its number; a client that shows none is left out."""
    times = ((client.entry_id, _time_ns(client.usage)) for client in clients)
    return {number: time_ns for number, time_ns in times if time_ns is not None}


def foreign_s(before: Mapping[int, int], clients: Iterable[GpuClient], own: Set[int]) -> float:
    """Seconds on the GPU since `before`, by clients whose maker is not of this run or is not named.

    A client that was not there before has used all of its time since.
    """
    foreign = [client for client in clients if _creator(client) not in own]
    now = gpu_times(foreign)
    return sum(max(0, time_ns - before.get(number, 0)) for number, time_ns in now.items()) / NANOSECONDS


def _time_ns(usage: Any) -> int | None:
    """The sum over programming interfaces (Metal, OpenGL); None where the property is absent or of another make."""
    entries = usage if isinstance(usage, list) else []
    times = [entry.get("accumulatedGPUTime") for entry in entries if isinstance(entry, dict)]
    known = [time_ns for time_ns in times if isinstance(time_ns, int)]
    return sum(known) if known else None


def _creator(client: GpuClient) -> int | None:
    """The process that made a client: `"pid 533, WindowServer"` -> 533."""
    found = re.match(r"pid (\d+)", client.creator) if isinstance(client.creator, str) else None
    return int(found[1]) if found else None
