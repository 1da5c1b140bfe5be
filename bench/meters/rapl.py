"""Energy of the processors' packages, by the counters that Linux shows under /sys/class/powercap (Intel RAPL; AMD since 5.8).

In: `energy_uj` of each package's zone, in microjoules, which wraps around at `max_energy_range_uj`. Out: `energy` in joules since
the gauge was opened, over all packages, wrap-around undone. Cores and the graphics unit on the chip are parts of the package;
memory is not in it, nor is anything else of the computer. `psys`, the platform with the package in it, is left out, and so is
`intel-rapl-mmio`, which shows the packages of `intel-rapl` a second time.

How often a counter wrapped between two readings cannot be seen. So a reading is refused, and with it all later ones, where the
packages could have drawn a whole range since the reading before, and where the counter moved by more than they could have drawn,
as after a reset in sleep.

Sources: Documentation/power/powercap/powercap.rst and Documentation/ABI/testing/sysfs-class-powercap of the Linux kernel; the
zones' names in its drivers/powercap/intel_rapl_common.c.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.meters.interface import Availability, Quantity, Scope, Unavailable, Value, Watched
from bench.spec import DEVICES, Device

POWERCAP = Path("/sys/class/powercap")
CPUINFO = Path("/proc/cpuinfo")
MICRO = 1e-6
PACKAGE = re.compile(r"package-\d+(-die-\d+)?")
MOST_W = 2000.0
"""More than any package draws: the largest servers' are made for 500 W."""
SLACK_S = 0.1
"""Two readings may lie so close that the counter's own steps of about a millisecond show."""
NO_LIMIT_W = 1000.0
"""Mainboards lift the limit by setting it to what no package reaches, such as 4095 W."""
CONSTRAINTS = ("long_term", "short_term")
REMEDY_WALL = "measure with a wall meter (--wall-meter)"


@dataclass(frozen=True, slots=True)
class Zone:
    """One package: where its counter is, and the joules at which that wraps."""

    name: str
    folder: Path
    range_j: float

    def energy_j(self) -> float:
        """What the counter shows. Raises OSError or ValueError."""
        return int((self.folder / "energy_uj").read_text()) * MICRO


@dataclass(frozen=True, slots=True)
class Rapl:
    """The meter. `powercap` and `cpuinfo` are stood in for, and `clock` is played, in tests.

    Of runs on any device it tells what the host's processors drew meanwhile. Half a second between readings, because a reading
    asks another processor, and that interrupts it.
    """

    powercap: Path = POWERCAP
    cpuinfo: Path = CPUINFO
    clock: Callable[[], float] = time.monotonic
    system: str = sys.platform
    name: str = "rapl"
    scope: Scope = "package"
    devices: tuple[Device, ...] = DEVICES
    interval_s: float = 0.5
    min_window_s: float = 10.0

    def availability(self) -> Availability:
        found = self._try()
        return found if isinstance(found, Availability) else Availability(True)

    def open(self, watched: Watched) -> RaplGauge:
        """Start counting. All packages are covered, whatever is watched. Raises Unavailable."""
        found = self._try()
        if isinstance(found, Availability):
            raise Unavailable(found.reason)
        return RaplGauge(found, self.clock)

    def _try(self) -> list[Zone] | Availability:
        """The packages, each read once, or why there are none."""
        if self.system != "linux":
            return Availability(False, "RAPL is read through Linux's powercap", "use apple-power on a Mac with Apple silicon")
        zones = packages(self.powercap)
        if not zones:
            return self._none()
        try:
            for zone in zones:
                zone.energy_j()
        except PermissionError:
            remedy = f"sudo chmod a+r {self.powercap}/intel-rapl:*/energy_uj (until the next start)"
            return Availability(False, "only root may read energy_uj (since Linux 5.10, for CVE-2020-8694)", remedy)
        except (OSError, ValueError) as error:
            return Availability(False, f"energy_uj cannot be read: {error}", REMEDY_WALL)
        return zones

    def _none(self) -> Availability:
        if _hypervisor(self.cpuinfo):
            return Availability(
                False, "a virtual machine has no RAPL counters", "measure on the host, or with a wall meter (--wall-meter)"
            )
        remedy = f"sudo modprobe intel_rapl_msr; leave the container, whose engine hides the counters; or {REMEDY_WALL}"
        return Availability(False, f"no package under {self.powercap}", remedy)


def packages(powercap: Path) -> list[Zone]:
    """The zones of whole packages (of their dies, where the processor counts by die), in order of their names."""
    found: dict[str, Zone] = {}
    for folder in sorted(powercap.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text().strip()
            range_j = int((folder / "max_energy_range_uj").read_text()) * MICRO
        except (OSError, ValueError):
            continue
        if PACKAGE.fullmatch(name) and range_j > 0:
            found.setdefault(name, Zone(name, folder, range_j))
    return [found[name] for name in sorted(found)]


def _hypervisor(cpuinfo: Path) -> bool:
    """Whether the processor says that a hypervisor runs it: CPUID's own bit, as /proc/cpuinfo lists it among the flags."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("flags") and "hypervisor" in line.split() for line in lines)


class RaplGauge:
    """Open counters of all packages."""

    def __init__(self, zones: list[Zone], clock: Callable[[], float]) -> None:
        self._zones, self._clock = zones, clock
        self._last_j = {zone.name: zone.energy_j() for zone in zones}
        self._last_s = clock()
        self._total_j = 0.0
        self._fault: str | None = None

    def read(self) -> list[Value]:
        """Joules since opening. Nothing any more, once a counter could not be read or followed."""
        if self._fault is None:
            self._fault = self._follow()
        return [] if self._fault is not None else [Value("energy", self._total_j)]

    def missing(self) -> Mapping[Quantity, str]:
        """Where `energy` is named, the readings before end too early for the run."""
        return {} if self._fault is None else {"energy": self._fault}

    def settings(self) -> Mapping[str, str]:
        """The limits in force, over all packages; AMD's driver gives none.

        `package_power_limit_w` is the higher of the two: what the packages may draw over some seconds. It is left out where a
        mainboard has lifted a limit.
        """
        limits_w = {which: _summed_w(self._zones, which) for which in CONSTRAINTS}
        known_w = {which: limit_w for which, limit_w in limits_w.items() if limit_w is not None}
        told = {f"package_power_limit_{which}_w": f"{limit_w:g}" for which, limit_w in known_w.items()}
        highest_w = max(known_w.values(), default=0.0)
        if 0 < highest_w < NO_LIMIT_W * len(self._zones):
            told["package_power_limit_w"] = f"{highest_w:g}"
        return {"packages": "+".join(zone.name for zone in self._zones), **told}

    def close(self) -> None:
        """Nothing is held open."""

    def _follow(self) -> str | None:
        """Add what was counted since the reading before, or say why it is not known."""
        try:
            shown_j = {zone.name: zone.energy_j() for zone in self._zones}
        except (OSError, ValueError) as error:
            return f"energy_uj cannot be read any more: {error}"
        now_s = self._clock()
        most_j = MOST_W * (now_s - self._last_s + SLACK_S)
        for zone in self._zones:
            risen_j = (shown_j[zone.name] - self._last_j[zone.name]) % zone.range_j
            if most_j >= zone.range_j:
                return f"not read for {now_s - self._last_s:.0f} s, in which {zone.name} may have wrapped around unseen"
            if risen_j > most_j:
                return f"the counter of {zone.name} was set back"
            self._total_j += risen_j
        self._last_j, self._last_s = shown_j, now_s
        return None


def _summed_w(zones: list[Zone], which: str) -> float | None:
    """One limit over all packages; None where one of them has none."""
    each_w = [_limit_w(zone, which) for zone in zones]
    known_w = [limit_w for limit_w in each_w if limit_w is not None]
    return sum(known_w) if len(known_w) == len(each_w) else None


def _limit_w(zone: Zone, which: str) -> float | None:
    """A package's limit of that name, from whichever constraint bears it."""
    for name in sorted(zone.folder.glob("constraint_*_name")):
        try:
            if name.read_text().strip() == which:
                return int(name.with_name(name.name.replace("_name", "_power_limit_uw")).read_text()) * MICRO
        except (OSError, ValueError):
            continue
    return None
