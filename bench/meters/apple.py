"""Energy of Apple's system on a chip, from IOReport's energy model through zeus-apple-silicon, without privileges.

In: the rails' counters, in millijoules since an arbitrary start. Out: `energy` in joules: CPU + GPU + GPU SRAM + DRAM + Neural
Engine, as far as this chip gives them (`settings` names them). Cores, clusters and core managers are parts of the CPU's total and
are not added again. Nothing else is in it: fabric, media engines, display, storage, fans and the power supply's loss are missing,
so this is less than a wall meter shows and must not be divided by a graphics card's board power without a label.

Traps, and what is done about them:

- The counters are published in batches, each chip in its own time: about every 2.1 s, in parts 10 to 30 ms apart, on an M5 Max
  and an M1 Ultra under macOS 27 (measured in the issues 410 and 415 of github.com/lablup/all-smi); only the GPU's is up to date
  whenever it is asked. Between two publications the sum is a stale one at a fresh time, up to 2.2 s off. So a reading is given
  only once CPU and DRAM have moved: then sum and time belong together, and interpolation between readings is right. `open` waits
  for the first publication, so that what a run begins with is a reading too.
- They stall: macOS 27 stopped the CPU's and the DRAM's on some chips after sleep, while the GPU's went on
  (github.com/vladkens/macmon, issue 76). CPU and DRAM of a running computer never rest, so a sum without their moving is not
  the chip's: no reading is given, and `missing` says which rail stood still.
- On an Ultra, zeus-apple-silicon 1.1.0 keeps only the last of channels that share a meaning (`DIE_0_CPU Energy`,
  `DIE_1_CPU Energy`; `DRAM0_0`, `DRAM0_1`): CPU and DRAM of one die go uncounted. That cannot be repaired from outside; it
  shows in the same release not knowing the cores of an Ultra by name either, and `settings` then says `apple_power_undercount`.
- Apple says nowhere whether `GPU Energy` includes the GPU's SRAM. It is added here; in the readings found it is near zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bench.meters.interface import Availability, Quantity, Scope, Unavailable, Value, Watched
from bench.meters.mac import Mac, this_mac
from bench.spec import Device

RAILS = ("cpu_total", "gpu", "gpu_sram", "dram", "ane")
"""What is summed; `<rail>_mj` of zeus_apple_silicon.AppleEnergyMetrics, None where the chip has no such channel."""
NEVER_AT_REST = ("cpu_total", "dram")
STALLED_AFTER_S = 10.0
"""Longer than any time between two publications that was seen (2.23 s), by more than four times."""
FIRST_WITHIN_S = 3.0
"""How long `open` waits for a publication; without one it goes on, and `missing` will say so."""
FIRST_EVERY_S = 0.05
JOULES_PER_MILLIJOULE = 1e-3
REMEDY_ELSEWHERE = "use nvml or rapl there, or a wall meter's readings (--wall-meter)"


@dataclass(frozen=True, slots=True)
class ApplePower:
    """The meter. `mac`, `clock` and `sleep` are replayed in tests.

    Read twice a second: a sample of some 320 channels takes about 3.5 ms (M1 Ultra, all-smi's issue 415), so ten a second would
    take 3.5% of a core where the whole harness may take 2%, and the counters themselves move every 2 s or so. A publication is
    thus known to half a second, which over the shortest window, 10 s, is 5% at worst.
    """

    mac: Mac = field(default_factory=this_mac)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    name: str = "apple-power"
    scope: Scope = "soc"
    devices: tuple[Device, ...] = ("metal", "mps", "cpu")
    interval_s: float = 0.5
    min_window_s: float = 10.0

    def availability(self) -> Availability:
        found = self._try()
        return found if isinstance(found, Availability) else Availability(True)

    def open(self, watched: Watched) -> ApplePowerGauge:
        """Start, within 3 s. The whole chip is covered, whatever is watched. Raises Unavailable."""
        found = self._try()
        if isinstance(found, Availability):
            raise Unavailable(found.reason)
        gauge = ApplePowerGauge(found, self.mac.sysctl("machdep.cpu.brand_string") or "", self.clock)
        gauge.wait(self.sleep)
        return gauge

    def _try(self) -> Any:
        """A monitor that gives what is needed, or why there is none."""
        if not self.mac.is_apple_silicon():
            return Availability(False, "not a Mac with Apple silicon", REMEDY_ELSEWHERE)
        if self.mac.sysctl("kern.hv_vmm_present") == "1":  # the library would read through a null pointer there
            return Availability(False, "a virtual machine has no energy counters", "measure on the Mac itself")
        try:
            library = import_module("zeus_apple_silicon")
        except ImportError as error:
            return Availability(
                False, f"zeus-apple-silicon cannot be imported: {error}", "install the extra: uv sync --extra mac"
            )
        try:
            monitor = library.AppleEnergyMonitor()
            given = rails(monitor.get_cumulative_energy())
        except (RuntimeError, ValueError) as error:  # C++'s runtime_error and invalid_argument
            return Availability(False, f"IOReport gives no energy: {error}", "update macOS and zeus-apple-silicon")
        if not any(rail in given for rail in NEVER_AT_REST):
            return Availability(False, "IOReport gives neither the CPU's energy nor the DRAM's", "update zeus-apple-silicon")
        return monitor


def rails(metrics: Any) -> dict[str, int]:
    """The rails that this chip gives, in mJ; one that is None is left out, never zero."""
    read = {rail: getattr(metrics, f"{rail}_mj") for rail in RAILS}
    return {rail: energy_mj for rail, energy_mj in read.items() if energy_mj is not None}


class ApplePowerGauge:
    """An open monitor of the chip's energy."""

    def __init__(self, monitor: Any, chip: str, clock: Callable[[], float]) -> None:
        self._monitor, self._chip, self._clock = monitor, chip, clock
        metrics = monitor.get_cumulative_energy()
        self._given = self._published = rails(metrics)
        self._published_s = clock()
        self._heard = False
        self._knows_cores = metrics.efficiency_cores_mj is not None or metrics.performance_cores_mj is not None
        self._fault: str | None = None

    def wait(self, sleep: Callable[[float], None]) -> None:
        """Wait for a publication, which the next `read` gives; at most `FIRST_WITHIN_S`."""
        while self._resting() and self._fault is None and self._clock() - self._published_s < FIRST_WITHIN_S:
            sleep(FIRST_EVERY_S)
            self._sample()

    def read(self) -> list[Value]:
        """The chip's energy where the counters were published since the last reading; otherwise nothing."""
        self._sample()
        if self._fault is not None or self._resting():
            return []
        self._published, self._published_s, self._heard = self._given, self._clock(), True
        return [Value("energy", sum(self._given.values()) * JOULES_PER_MILLIJOULE)]

    def missing(self) -> Mapping[Quantity, str]:
        """Where `energy` is named, the readings before are not the whole run's either."""
        if self._fault is not None:
            return {"energy": self._fault}
        silent_s = self._clock() - self._published_s
        if self._resting() and (silent_s > STALLED_AFTER_S or not self._heard):
            return {"energy": f"the counter of {' and '.join(self._resting())} stood still for {silent_s:.1f} s"}
        return {}

    def settings(self) -> Mapping[str, str]:
        """The rails that are summed, and what is known to be left out."""
        told = {"apple_power_rails": "+".join(self._published)}
        if "Ultra" in self._chip and not self._knows_cores:
            told["apple_power_undercount"] = f"{self._chip}: CPU and DRAM of one die only, by zeus-apple-silicon"
        return told

    def close(self) -> None:
        self._monitor = None  # its destructor ends the subscription

    def _sample(self) -> None:
        """Take what the counters show now; nothing more once they no longer continue."""
        if self._fault is not None:
            return
        try:
            given = rails(self._monitor.get_cumulative_energy())
        except (RuntimeError, ValueError) as error:
            self._fault = f"IOReport stopped: {error}"
            return
        self._fault = _broken(self._given, given)
        self._given = given

    def _resting(self) -> list[str]:
        """The rails that never rest and yet have not moved since the last publication."""
        always = (rail for rail in NEVER_AT_REST if rail in self._published)
        return [rail for rail in always if self._given.get(rail) == self._published[rail]]


def _broken(before: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """Why a sum no longer continues the one before: a rail that came or went, or a counter that was set back."""
    if changed := sorted(before.keys() ^ now.keys()):
        return f"the rail {changed[0]} came or went during the run"
    if fell := [rail for rail in now if now[rail] < before[rail]]:
        return f"the counter of {fell[0]} went back during the run"
    return None
