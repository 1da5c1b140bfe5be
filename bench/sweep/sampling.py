"""Every meter that says something of a device, read from the parent's own loop.

In: what is watched, and the time. Out: a `Recording`: readings on the monotonic clock, what could not be read and why, how the
device was set before and after, and whether the driver lost it. Between two readings the parent sleeps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from bench.meters.interface import METERS, UNITS, DeviceLost, Gauge, Meter, Unavailable, Value, Watched, load_meter
from bench.reading.strict import printable
from bench.record import Reading


@dataclass
class Recording:
    """What the meters saw of one worker, or of the machine at rest. `t_s` of readings is the parent's monotonic clock.

    `missing` maps a meter's name, or `<meter> <quantity>`, to the reason why it has no readings. `settings_before` and
    `settings_after` are the device's own; `lost` is the driver's word that the device is gone.
    """

    readings: list[Reading] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    settings_before: dict[str, str] = field(default_factory=dict)
    settings_after: dict[str, str] = field(default_factory=dict)
    lost: str | None = None


@dataclass
class _Channel:
    """One open gauge and when it is to be read next."""

    meter: Meter
    gauge: Gauge
    due_s: float


class Sampler:
    """The open gauges of one recording. `due_in_s` says how long to sleep, `sample` reads what is due."""

    def __init__(self, recording: Recording, channels: list[_Channel], clock: Callable[[], float]) -> None:
        self.recording = recording
        self._channels = list(channels)
        self._clock = clock

    def due_in_s(self) -> float:
        """Seconds until a gauge is due; infinite without gauges."""
        now_s = self._clock()
        return max(0.0, min((channel.due_s for channel in self._channels), default=float("inf")) - now_s)

    def sample(self) -> None:
        """Read every gauge that is due. A device that its driver has lost is not asked again."""
        for channel in list(self._channels):
            now_s = self._clock()
            if channel.due_s > now_s:
                continue
            channel.due_s = _next(channel.due_s, channel.meter.interval_s, now_s)
            values = self._read(channel)
            at_s = (now_s + self._clock()) / 2
            self.recording.readings += [
                Reading(
                    t_s=at_s,
                    meter=channel.meter.name,
                    scope=value.scope or channel.meter.scope,
                    quantity=value.quantity,
                    unit=UNITS[value.quantity],
                    value=value.value,
                )
                for value in values
                if math.isfinite(value.value)
            ]

    def _read(self, channel: _Channel) -> list[Value]:
        """One gauge's values; one that has lost its device, or fails in a way of its own, is not asked again."""
        try:
            return channel.gauge.read()
        except DeviceLost as error:
            self.recording.lost = str(error)
            self._give_up(channel, str(error))
        except Exception as error:  # a driver may answer anything: a broken meter costs its readings, never the run
            self._give_up(channel, broken(error))
        return []

    def _give_up(self, channel: _Channel, reason: str) -> None:
        self.recording.missing[channel.meter.name] = reason
        self._channels.remove(channel)

    def read_settings(self) -> dict[str, str]:
        """How the devices are set now."""
        found: dict[str, str] = {}
        for channel in list(self._channels):
            try:
                found |= channel.gauge.settings()
            except Exception as error:  # as in `_read`
                self._give_up(channel, broken(error))
        return found

    def finish(self) -> None:
        """Two last readings, so that windows that end with the worker are covered; then what was missing.

        Two, because a gauge whose readings are dear may give its quantities in turns.
        """
        for _ in range(2):
            for channel in self._channels:
                channel.due_s = float("-inf")
            self.sample()
        self.recording.settings_after = self.read_settings()
        for channel in list(self._channels):
            try:
                reasons = channel.gauge.missing()
            except Exception as error:  # as in `_read`
                self._give_up(channel, broken(error))
                continue
            self.recording.missing |= {f"{channel.meter.name} {name}": why for name, why in reasons.items()}


def broken(error: Exception) -> str:
    """A fault that its meter did not foresee, as a reason on one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"the meter failed: {printable(text)[:200]}"


def _next(due_s: float, interval_s: float, now_s: float) -> float:
    """When to read again: in step with the interval, or an interval from now where the parent came late."""
    return due_s + interval_s if due_s + interval_s > now_s else now_s + interval_s


@contextmanager
def sampling(watched: Watched, clock: Callable[[], float] = time.monotonic) -> Iterator[Sampler]:
    """Open every meter for the block and read each at once; `finish` reads them a last time. What does not work is noted."""
    recording = Recording()
    channels = list(_open(watched, recording, clock))
    sampler = Sampler(recording, channels, clock)
    try:
        recording.settings_before = sampler.read_settings()
        sampler.sample()
        yield sampler
    finally:
        for channel in channels:
            with suppress(Exception):  # a driver that cannot be closed is left to the end of this process
                channel.gauge.close()


def _open(watched: Watched, recording: Recording, clock: Callable[[], float]) -> Iterator[_Channel]:
    for meter in _meters():
        if watched.device not in meter.devices or not meter.interval_s:
            continue
        try:
            gauge = meter.open(watched)
        except Unavailable as error:
            recording.missing[meter.name] = str(error)
            continue
        except Exception as error:  # as in `Sampler._read`
            recording.missing[meter.name] = broken(error)
            continue
        yield _Channel(meter, gauge, clock())


def _meters(table: Mapping[str, str] = METERS) -> Iterator[Meter]:
    for name in table:
        yield load_meter(name)
