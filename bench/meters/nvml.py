"""What an NVIDIA card's driver tells of it: energy, power, memory, clocks, heat, and who else uses it.

In: what is watched. Out: readings of one board through NVML (`nvidia-ml-py`), each quantity left out with its reason where this
card or driver does not give it. Sources: the NVML API reference of each function named below, and what was measured of these
sensors in "Part-time Power Measurements" (arXiv 2312.02741).

Calls cost: the energy counter has been seen to take 2.4 ms a call where power takes microseconds, so that only power is read
every time. The others take turns, and the first reading asks for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.meters.interface import Availability, DeviceLost, Quantity, Scope, Unavailable, Value, Watched
from bench.meters.nvml_card import DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, UNKNOWN, Card, NotGiven, chosen_card
from bench.meters.nvml_processes import ProcessWatch
from bench.meters.nvml_settings import settings_of
from bench.spec import Device

MILLI = 1e-3
MHZ = 1e6
SM_CLOCK = 1
"""NVML_CLOCK_SM."""
GPU_SENSOR = 0
"""NVML_TEMPERATURE_GPU."""
REMEDIES: Mapping[int, str] = {
    DRIVER_NOT_LOADED: "load the driver's kernel module (sudo modprobe nvidia), or reboot after a driver update",
    LIBRARY_NOT_FOUND: "install NVIDIA's driver; in a container, start it with --gpus all",
    4: "run as a user who may open /dev/nvidiactl",
    18: "reboot: the driver's library and its kernel module differ, as after an update",
}


def _power(card: Card) -> float:
    """This moment's draw of the board."""
    return _above_zero(card.power_instant_mw(), "a power of 0 mW") * MILLI


def _power_average(card: Card) -> float:
    """The driver's figure: the mean of the last second on Ampere (but not GA100) and later, this moment's on older cards."""
    return _above_zero(card.ask("nvmlDeviceGetPowerUsage"), "a power of 0 mW") * MILLI


def _energy(card: Card) -> float:
    """Joules since the driver was loaded, on Volta and later; the counter moves in steps of about 100 ms."""
    return _above_zero(card.ask("nvmlDeviceGetTotalEnergyConsumption"), "an energy counter at 0") * MILLI


def _memory_used(card: Card) -> float:
    """The whole card's, by everybody; without what driver and firmware keep back where the driver tells that apart."""
    return float(card.memory_used_bytes())


def _clock(card: Card) -> float:
    return float(card.ask("nvmlDeviceGetClockInfo", arguments=(SM_CLOCK,))) * MHZ


def _temperature(card: Card) -> float:
    return float(card.ask("nvmlDeviceGetTemperature", arguments=(GPU_SENSOR,)))


def _throttle_reasons(card: Card) -> float:
    """Bits as in nvml.h, for example 0x1 idle, 0x4 power cap, 0x8 hardware slowdown, 0x20 and 0x40 heat, 0x80 power brake."""
    return float(card.ask("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"))


def _above_zero(value: int, what: str) -> int:
    """A board that is on draws power: zero is a sensor that does not work."""
    if value <= 0:
        raise NotGiven(f"the driver gives {what}, which no working sensor shows")
    return value


class Source(NamedTuple):
    """One quantity: read at the first reading, and then at every `every`-th, `turn` readings after a multiple of it."""

    quantity: Quantity
    read: Callable[[Card], float]
    every: int = 1
    turn: int = 0


SOURCES: tuple[Source, ...] = (
    Source("power", _power),
    Source("power_average", _power_average),
    Source("energy", _energy, 2, 0),
    Source("memory_used", _memory_used, 2, 1),
    Source("throttle_reasons", _throttle_reasons, 2, 1),
    Source("clock", _clock, 10, 3),
    Source("temperature", _temperature, 10, 5),
)
PROCESSES_EVERY, PROCESSES_TURN = 10, 7


class NvmlGauge:
    """The open library and one card of it."""

    def __init__(self, card: Card, pid: int | None) -> None:
        self._card = card
        self._processes = ProcessWatch(card, pid)
        self._sources = list(SOURCES)
        self._lists_processes = True
        self._missing: dict[Quantity, str] = {}
        self._readings = 0
        self._worked = False

    def read(self) -> list[Value]:
        """What is due now. Raises DeviceLost where the driver says that the card is gone, or knows nothing any more.

        An unknown error in one value is that value's alone; where no value at all is left of a card that gave some, it is gone.
        """
        count, self._readings = self._readings, self._readings + 1
        values: list[Value] = []
        unknown: NotGiven | None = None
        for source in [source for source in self._sources if _due(count, source.every, source.turn)]:
            try:
                values.append(Value(source.quantity, source.read(self._card)))
                self._missing.pop(source.quantity, None)
            except NotGiven as why:
                self._note(source, why)
                unknown = why if why.code == UNKNOWN else unknown
        if self._lists_processes and _due(count, PROCESSES_EVERY, PROCESSES_TURN):
            values += self._read_processes()
        if unknown is not None and self._worked and not values:
            raise DeviceLost(str(unknown))
        self._worked |= bool(values)
        return values

    def _note(self, source: Source, why: NotGiven) -> None:
        stands_in = "; power_average stands in" if source.quantity == "power" else ""
        self._missing[source.quantity] = f"{why}{stands_in}"
        if why.for_good:
            self._sources.remove(source)

    def _read_processes(self) -> list[Value]:
        try:
            return self._processes.read()
        except NotGiven as why:
            self._lists_processes = not why.for_good
            return []

    def missing(self) -> Mapping[Quantity, str]:
        """What this card, driver or system does not give, or gave and stopped giving."""
        return {**self._missing, **self._processes.missing}

    def settings(self) -> Mapping[str, str]:
        """How the card is set; names that end in `_now` follow the load by themselves."""
        return settings_of(self._card)

    def close(self) -> None:
        """Let go of the driver; one that is gone already has nothing to let go of."""
        with suppress(self._card.module.NVMLError):
            self._card.module.nvmlShutdown()


def _due(count: int, every: int, turn: int) -> bool:
    return count == 0 or count % every == turn


@dataclass(frozen=True, slots=True)
class Nvml:
    """The driver's own sensors on the board that a worker's `cuda:0` is."""

    name: str = "nvml"
    scope: Scope = "gpu-board"
    devices: tuple[Device, ...] = ("cuda",)
    interval_s: float = 0.1
    min_window_s: float = 10.0

    def availability(self) -> Availability:
        """Whether a card answers; the remedy where none does."""
        opened = _opened()
        if isinstance(opened, Availability):
            return opened
        opened.module.nvmlShutdown()
        return Availability(True)

    def open(self, watched: Watched) -> NvmlGauge:
        """The card that CUDA_VISIBLE_DEVICES puts first. Raises Unavailable."""
        opened = _opened()
        if isinstance(opened, Availability):
            raise Unavailable(opened.reason)
        return NvmlGauge(opened, watched.pid)


def _opened() -> Card | Availability:
    """The card, with the library open; or why there is none, with the library closed."""
    try:
        import pynvml
    except ImportError:
        return Availability(
            False, "nvidia-ml-py is not installed", "NVML is for NVIDIA cards: pip install nvidia-ml-py where there is one"
        )
    module: Any = pynvml
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        return Availability(
            False, f"NVML: {error}", REMEDIES.get(error.value, "run nvidia-smi, which shows what is wrong with the driver")
        )
    try:
        return chosen_card(module, os.environ.get("CUDA_VISIBLE_DEVICES"))
    except Unavailable as error:
        module.nvmlShutdown()
        return Availability(False, str(error), "let CUDA_VISIBLE_DEVICES name a card that nvidia-smi -L lists, or unset it")
