"""Meters for tests: played values on a clock that only moves when told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.meters.interface import Availability, DeviceLost, Quantity, Scope, Unavailable, Value, Watched
from bench.spec import Device


@dataclass
class Clock:
    """A monotonic clock by hand."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class PlayedMeter:
    """Satisfies `Meter`; `play` gives the values for a number of seconds since opening, or raises."""

    clock: Callable[[], float]
    play: Callable[[float], list[Value]]
    name: str = "played"
    scope: Scope = "gpu-board"
    devices: tuple[Device, ...] = ("cpu", "cuda")
    interval_s: float = 0.1
    min_window_s: float = 10.0
    refuses: str | None = None
    settings: Mapping[str, str] = field(default_factory=lambda: {"power_limit_w": "450"})
    missing: Mapping[Quantity, str] = field(default_factory=dict)
    opened: list[Watched] = field(default_factory=list)
    closed: int = 0
    reads: int = 0

    def availability(self) -> Availability:
        return Availability(self.refuses is None, self.refuses)

    def open(self, watched: Watched) -> PlayedGauge:
        if self.refuses is not None:
            raise Unavailable(self.refuses)
        self.opened.append(watched)
        return PlayedGauge(self, self.clock())


@dataclass
class PlayedGauge:
    """Satisfies `Gauge`."""

    meter: PlayedMeter
    since_s: float

    def read(self) -> list[Value]:
        self.meter.reads += 1
        return self.meter.play(self.meter.clock() - self.since_s)

    def missing(self) -> Mapping[Quantity, str]:
        return self.meter.missing

    def settings(self) -> Mapping[str, str]:
        return self.meter.settings

    def close(self) -> None:
        self.meter.closed += 1


def lost_after(seconds: float, value: Value) -> Callable[[float], list[Value]]:
    """A play whose driver loses the device."""

    def play(since_s: float) -> list[Value]:
        if since_s >= seconds:
            raise DeviceLost("GPU is lost")
        return [value]

    return play
