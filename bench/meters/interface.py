"""The door to every meter.

In: nothing, or what is to be watched. Out: whether a meter works here and, if not, why and what would make it work; and, opened,
a gauge that the idle parent reads while a child measures. A gauge is read every `interval_s` seconds from the parent's own
loop, so a reading has to be quick: no process is started for it, nothing is waited for.

To add a meter: one file with a class that satisfies `Meter`, and one row in `METERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, NamedTuple, Protocol, get_args

from bench.spec import Device

Scope = Literal["process", "gpu-board", "soc", "package", "wall", "machine"]
"""What values cover: one process, the whole board of a GPU, the rails of a system on a chip, the packages of the processors,
everything behind a plug, or the whole computer."""

Quantity = Literal[
    "energy",
    "power",
    "power_average",
    "memory_used",
    "memory_of_process",
    "clock",
    "temperature",
    "throttle_reasons",
    "thermal_pressure",
    "foreign_processes",
    "foreign_utilization",
    "cpu_busy",
    "cpu_of_run",
    "swap_used",
    "swap_traffic",
    "asleep",
    "on_battery",
    "disk_free",
    "part_bytes",
]
UNITS: Mapping[Quantity, str] = {
    "energy": "J",  # counts up from an arbitrary start, wrap-around already undone
    "power": "W",  # at this moment
    "power_average": "W",  # the driver's own trailing average
    "memory_used": "bytes",  # of the device, by everybody
    "memory_of_process": "bytes",  # of the device, by the worker and its children
    "clock": "Hz",
    "temperature": "Celsius",
    "throttle_reasons": "bits",  # NVML's clocks event reasons
    "thermal_pressure": "level",  # 0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping (macOS)
    "foreign_processes": "count",  # that compute on the device and are not of this run
    "foreign_utilization": "share",  # of the device's time, by processes that are not of this run
    "cpu_busy": "s",  # processor seconds of everybody, counting up; time stolen by a hypervisor included
    "cpu_of_run": "s",  # processor seconds of the worker, its children and this harness, counting up
    "swap_used": "bytes",
    "swap_traffic": "bytes",  # paged in and out, counting up
    "asleep": "s",  # that the computer slept, counting up
    "on_battery": "bool",
    "disk_free": "bytes",
    "part_bytes": "bytes",  # of the framework's memory at its peak, by part: told by the worker, the part's name as scope
}
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a meter works here. `reason` and `remedy` are None where it does."""

    available: bool
    reason: str | None = None
    remedy: str | None = None


class Unavailable(RuntimeError):
    """A meter cannot be opened here; the message is the reason."""


class DeviceLost(RuntimeError):
    """The driver says that the device is gone; the message is the driver's."""


class Value(NamedTuple):
    """One reading before it has a time. `scope` is the meter's own unless said."""

    quantity: Quantity
    value: float
    scope: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What gauges are opened for.

    `pid` is the worker's process (None: the machine at rest); `folder` lies on the disk of the results.
    """

    device: Device
    pid: int | None = None
    folder: str = "."


class Gauge(Protocol):
    """An open meter."""

    def read(self) -> list[Value]:
        """What can be read now. A quantity that this hardware does not give is left out, never zero. Raises DeviceLost."""

    def missing(self) -> Mapping[Quantity, str]:
        """The quantities that `read` leaves out here, and why; known after the first reading."""

    def settings(self) -> Mapping[str, str]:
        """How the device is set now, read back from it: power limit, clocks, locks; unit in the name (`power_limit_w`)."""

    def close(self) -> None:
        """Let go of the driver."""


class Meter(Protocol):
    """One source of readings."""

    @property
    def name(self) -> str:
        """Its name in readings and in `doctor`."""

    @property
    def scope(self) -> Scope:
        """What its values cover."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices whose runs it says something about."""

    @property
    def interval_s(self) -> float:
        """Seconds between two readings; 0 for a meter that the child reads, or that is read after the run."""

    @property
    def min_window_s(self) -> float:
        """The shortest window over which its energy means something; 0 for a meter without energy."""

    def availability(self) -> Availability:
        """Whether it works here, found by trying it."""

    def open(self, watched: Watched) -> Gauge:
        """Start. Raises Unavailable with the reason where it does not work here."""


METERS: Mapping[str, str] = {
    "nvml": "bench.meters.nvml:Nvml",
    "apple-power": "bench.meters.apple:ApplePower",
    "apple-system": "bench.meters.apple_system:AppleSystem",
    "rapl": "bench.meters.rapl:Rapl",
    "host": "bench.meters.host:Host",
    "process-memory": "bench.meters.process:ProcessMemory",
}


def load_meter(name: str) -> Meter:
    """The meter of that name. Raises KeyError for an unknown one."""
    module, _, attribute = METERS[name].partition(":")
    meter: Meter = getattr(import_module(module), attribute)()
    return meter
