"""A Mac that is not there: a `zeus_apple_silicon` that plays channels as IOReport lists them, and macOS's raw readers.

The module adds up channels by the rules of zeus-apple-silicon 1.1.0 (apple_energy.hpp), its flaw on Ultra chips included; with
`sums_dies` by those of its successor. Time is `clock.now_s` throughout, and passes only where it is told to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from bench.meters.mac import GpuClient

PER_MILLIJOULE = {"nJ": 1_000_000, "uJ": 1_000, "mJ": 1}
PUBLISHED_EVERY_S = 2.1


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@dataclass
class Channel:
    """One line of IOReport's energy model. Published every `every_s` seconds (0: whenever asked), `late_s` after the batch."""

    name: str
    unit: str
    power_w: float
    every_s: float = PUBLISHED_EVERY_S
    late_s: float = 0.0
    start_j: float = 5000.0
    stalls_at_s: float = float("inf")
    set_back_at_s: float = float("inf")

    def count(self, now_s: float) -> int:
        """What the channel shows, in its own unit, whole numbers only."""
        at_s = now_s if self.every_s == 0 else (now_s - self.late_s) // self.every_s * self.every_s
        set_back = at_s >= self.set_back_at_s
        energy_j = (0 if set_back else self.start_j) + self.power_w * min(at_s, self.stalls_at_s)
        return round(energy_j * 1000 * PER_MILLIJOULE[self.unit]) if self.unit in PER_MILLIJOULE else 0


def chip(**changes: dict[str, Any]) -> list[Channel]:
    """A chip with one die that spends 42 W: units mixed, the GPU's counter always fresh, cores and clusters beside the total.

    `changes` alter channels, named with underscores: `CPU_Energy={"stalls_at_s": 30}`.
    """
    channels = [
        Channel("CPU Energy", "mJ", 8.0),
        Channel("EACC_CPU0", "mJ", 1.0),
        Channel("PACC0_CPU0", "mJ", 6.0),
        Channel("EACC_CPU", "mJ", 1.0),
        Channel("PACC0_CPU", "mJ", 6.5),
        Channel("PACC0_CPM", "mJ", 0.3),
        Channel("GPU0", "mJ", 30.0),
        Channel("GPU Energy", "nJ", 30.0, every_s=0),
        Channel("GPU SRAM0", "mJ", 0.5),
        Channel("DRAM0", "mJ", 3.5, late_s=0.02),
        Channel("DCS0", "mJ", 2.0),
        Channel("ANE0", "mJ", 0.0),
        Channel("PCIe Port 0 Energy", "uJ", 0.1),
    ]
    for channel in channels:
        for name, value in changes.get(channel.name.replace(" ", "_"), {}).items():
            setattr(channel, name, value)
    return channels


def ultra() -> list[Channel]:
    """The channels of an M1 Ultra, shortened: the CPU's and the DRAM's come once a die, the GPU's once."""
    return [
        Channel("DIE_0_CPU Energy", "mJ", 12.0),
        Channel("DIE_0_EACC_CPU0", "mJ", 1.0),
        Channel("DIE_1_CPU Energy", "mJ", 5.0),
        Channel("DIE_1_EACC_CPU0", "mJ", 1.0),
        Channel("GPU Energy", "nJ", 60.0, every_s=0),
        Channel("DRAM0_0", "mJ", 3.0),
        Channel("DRAM0_1", "mJ", 2.0),
    ]


class Metrics:
    """AppleEnergyMetrics: millijoules, None for what no channel gave."""

    def __init__(self) -> None:
        for name in ("cpu_total", "gpu", "gpu_sram", "dram", "ane", "efficiency_cores", "performance_cores"):
            setattr(self, f"{name}_mj", None)


RULES = (
    ("CPU Energy", "cpu_total_mj"),
    ("DRAM", "dram_mj"),
    ("GPU Energy", "gpu_mj"),
    ("GPU SRAM", "gpu_sram_mj"),
    ("ANE", "ane_mj"),
)
CORES = (("E", "efficiency_cores_mj"), ("P", "performance_cores_mj"))


@dataclass
class Zeus:
    """What the fake module plays: channels now, and how it fails."""

    channels: list[Channel] = field(default_factory=chip)
    clock: Clock = field(default_factory=Clock)
    sums_dies: bool = False
    refuses: str | None = None
    breaks: str | None = None

    def module(self) -> ModuleType:
        played = ModuleType("zeus_apple_silicon")
        played.AppleEnergyMonitor = lambda: Monitor(self)  # type: ignore[attr-defined]  # a module made by hand
        return played


class Monitor:
    """AppleEnergyMonitor."""

    def __init__(self, zeus: Zeus) -> None:
        if zeus.refuses is not None:
            raise RuntimeError(zeus.refuses)
        self.zeus = zeus

    def get_cumulative_energy(self) -> Metrics:
        if self.zeus.breaks is not None:
            raise RuntimeError(self.zeus.breaks)
        metrics = Metrics()
        for channel in self.zeus.channels:
            if channel.unit not in PER_MILLIJOULE:
                raise ValueError(f"Unsupported or invalid energy unit provided: {channel.unit}")
            self._add(metrics, channel.name, channel.count(self.zeus.clock.now_s) // PER_MILLIJOULE[channel.unit])
        return metrics

    def _add(self, metrics: Metrics, name: str, energy_mj: int) -> None:
        name = re.sub(r"^DIE_\d+_", "", name) if self.zeus.sums_dies else name
        for part, attribute in RULES:
            if part in name:
                before = (getattr(metrics, attribute) or 0) if self.zeus.sums_dies else 0
                return setattr(metrics, attribute, before + energy_mj)
        for letter, attribute in CORES:
            if name.startswith(letter) and re.search(r"CPU\d+$", name):
                return setattr(metrics, attribute, [*(getattr(metrics, attribute) or ()), energy_mj])
        return None


PMSET = """System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 sleep                0 (sleep prevented by caffeinate)
 powermode            2
 womp                 1"""


@dataclass
class FakeMac:
    """macOS's raw readers. `clients` maps a process's number to its GPU time in seconds; `walks` False: the registry changed."""

    apple_silicon: bool = True
    settings: dict[str, str] = field(
        default_factory=lambda: {
            "kern.hv_vmm_present": "0",
            "machdep.cpu.brand_string": "Apple M4 Max",
            "iogpu.wired_limit_mb": "0",
        }
    )
    power: str | None = PMSET
    level: int | None = 0
    clients: list[GpuClient] = field(default_factory=list)
    walks: bool = True
    children: dict[int, set[int]] = field(default_factory=dict)
    macos: str = "26.1"

    def is_apple_silicon(self) -> bool:
        return self.apple_silicon

    def version(self) -> str:
        return self.macos

    def sysctl(self, name: str) -> str | None:
        return self.settings.get(name)

    def pmset(self) -> str | None:
        return self.power

    def thermal_level(self) -> int | None:
        return self.level

    def gpu_clients(self) -> list[GpuClient] | None:
        return list(self.clients) if self.walks else None

    def family(self, pid: int) -> set[int]:
        return {pid, *self.children.get(pid, ())}


def client(entry_id: int, pid: int, gpu_s: float, name: str = "python3.11") -> GpuClient:
    """A client of the GPU as the registry shows it, its time split over two programming interfaces."""
    gpu_ns = round(gpu_s * 1e9)
    usage = [
        {"API": "Metal", "accumulatedGPUTime": gpu_ns - gpu_ns // 4},
        {"API": "OpenGL", "accumulatedGPUTime": gpu_ns // 4},
    ]
    return GpuClient(entry_id, f"pid {pid}, {name}", usage)
