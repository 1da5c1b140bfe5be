"""Readings as real meters give them, of a power that is known exactly.

A run: the device rests at `rest_w`, works at `load_w` from `from_s` to `to_s`, and rests again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from bench.record import Reading

UNITS = {"energy": "J", "power": "W", "power_average": "W"}


@dataclass(frozen=True)
class Play:
    """A device's power over time, and its sensors. Sampled power jitters by a few milliwatts, as real sensors do."""

    load_w: float = 300.0
    rest_w: float = 20.0
    from_s: float = -5.0
    to_s: float = 60.0
    scope: str = "gpu-board"
    meter: str = "nvml"

    def energy_j(self, t_s: float) -> float:
        """Joules from far before the run until then."""
        worked_s = min(max(t_s, self.from_s), self.to_s) - self.from_s
        return self.rest_w * (t_s + 100) + (self.load_w - self.rest_w) * worked_s

    def counter(self, every_s: float = 0.2, step_s: float = 0.1, scale: float = 1.0, resolution_j: float = 1e-3) -> list[Reading]:
        """A counter that is brought up to date every `step_s`, and read every `every_s`."""
        return self._read("energy", every_s, lambda t_s: scale * self._counted_j(t_s, step_s, resolution_j))

    def _counted_j(self, t_s: float, step_s: float, resolution_j: float) -> float:
        return math.floor(self.energy_j(math.floor(t_s / step_s + 1e-9) * step_s) / resolution_j) * resolution_j

    def power(self, every_s: float = 0.1, scale: float = 1.0) -> list[Reading]:
        """Samples of this moment's power."""
        return self._read("power", every_s, lambda t_s: scale * (self._at(t_s) + 0.003 * math.sin(50 * t_s)))

    def average(self, every_s: float = 0.1) -> list[Reading]:
        """The mean of the second before."""
        jitter = 0.003
        return self._read(
            "power_average", every_s, lambda t_s: self.energy_j(t_s) - self.energy_j(t_s - 1) + jitter * math.sin(50 * t_s)
        )

    def _at(self, t_s: float) -> float:
        return self.load_w if self.from_s <= t_s < self.to_s else self.rest_w

    def _read(self, quantity: str, every_s: float, value: Callable[[float], float]) -> list[Reading]:
        return [
            Reading(t_s=t_s, meter=self.meter, scope=self.scope, quantity=quantity, unit=UNITS[quantity], value=value(t_s))
            for t_s in _times(-10.0, self.to_s + 5.0, every_s)
        ]


def _times(from_s: float, to_s: float, every_s: float) -> Iterator[float]:
    """Reading times that do not fall together with a counter's steps."""
    for number in range(int((to_s - from_s) / every_s)):
        yield from_s + 0.037 + number * every_s


def stalled_after(readings: list[Reading], t_s: float) -> list[Reading]:
    """The same sensor, which shows its last value from `t_s` on."""
    last = [reading for reading in readings if reading.t_s <= t_s][-1].value
    return [reading if reading.t_s <= t_s else replace(reading, value=last) for reading in readings]


def without(readings: list[Reading], from_s: float, to_s: float) -> list[Reading]:
    """The same with nothing read from `from_s` to `to_s`."""
    return [reading for reading in readings if not from_s <= reading.t_s < to_s]
