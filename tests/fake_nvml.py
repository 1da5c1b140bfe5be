"""A replayed `pynvml`: the shapes that real cards and drivers give, driven by a fake clock.

    clock = Clock()
    fake = install(monkeypatch, card=rtx_4090(power_w=trace((0, 30.0), (5, 400.0))), clock=clock)

puts a module in the place of `pynvml`, in which the energy counter moves in steps of 100 ms and counts millijoules,
`nvmlDeviceGetPowerUsage` is the mean of the last second, field 186 is this moment's power, and everything that a card lacks
raises `NVMLError`, is absent from the module, or is N/A, as with the real one. Cards: `rtx_4090`, `h200`, `laptop`, `wsl2`,
`container`, `old_driver`; each takes the fields of `Card` (`fake_nvml_cards`) to change. `where` says how the system
looks: "native", "wsl2" or "container".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from fake_nvml_cards import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    MIB,
    NA,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    UNKNOWN,
    Card,
    Process,
    Trace,
    at,
    container,
    energy_j,
    h200,
    laptop,
    old_driver,
    rtx_4090,
    trace,
    wsl2,
)  # fmt: skip

__all__ = [  # a test finds everything here
    "DRIVER_NOT_LOADED", "FUNCTION_NOT_FOUND", "GPU_IS_LOST", "LIBRARY_NOT_FOUND", "MIB", "NA", "NOT_FOUND", "NOT_SUPPORTED",
    "NO_PERMISSION", "UNKNOWN", "Card", "Clock", "FakeNvml", "NVMLError", "Process", "Trace", "at", "container", "energy_j",
    "h200", "install", "laptop", "old_driver", "rtx_4090", "trace", "wsl2",
]  # fmt: skip

TEXTS = {3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found", 9: "Driver Not Loaded",
         12: "NVML Shared Library Not Found", 13: "Function Not Found", 15: "GPU is lost", 999: "Unknown Error"}  # fmt: skip


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s = round(self.now_s + seconds, 9)


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(TEXTS.get(value, f"error {value}"))
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """What nvidia-ml-py raises for a function without a version in its name that the driver lacks; no NVMLError."""


class FakeNvml:
    """The module. `calls` counts calls by function; `opened` is how many times the library is open."""

    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError
    UNVERSIONED = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")

    def __init__(self, cards: tuple[Card, ...], clock: Callable[[], float], init_error: int | None = None) -> None:
        self.cards = list(cards)
        self.clock = clock
        self.init_error = init_error
        self.opened = 0
        self.calls: dict[str, int] = {}

    def nvmlInit(self) -> None:  # noqa: N802 (the module's own names, here and below)
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.65.06"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        for index, card in enumerate(self.cards):
            if card.uuid == uuid:
                return index
        raise NVMLError(NOT_FOUND)

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """A function of a card, as ANSWERS has it, with that card's errors and absences."""
        if function.startswith("_") or function not in ANSWERS:
            raise AttributeError(function)

        def call(handle: int, *arguments: Any) -> Any:
            card, now_s = self.cards[handle], self.clock()
            self.calls[function] = self.calls.get(function, 0) + 1
            if now_s >= card.lost_at_s:
                raise NVMLError(card.lost_error)
            error = card.errors.get(function)
            if error == FUNCTION_NOT_FOUND and function in self.UNVERSIONED:
                raise NVMLLibraryMismatchError(function)
            if error is not None:
                raise NVMLError(error)
            return ANSWERS[function](card, now_s, *arguments)

        if all(function in card.absent for card in self.cards):
            raise AttributeError(function)
        return call


def _energy_mj(card: Card, now_s: float) -> int:
    stepped_s = int(now_s / card.energy_step_s + 1e-6) * card.energy_step_s
    return round((card.energy_at_start_j + energy_j(card.power_w, stepped_s)) * 1000)


def _average_mw(card: Card, now_s: float) -> int:
    return round((energy_j(card.power_w, now_s) - energy_j(card.power_w, now_s - 1.0)) * 1000)


def _fields(card: Card, now_s: float, ids: list[int]) -> list[SimpleNamespace]:
    values = {186: round(at(card.power_w, now_s) * 1000), 185: _average_mw(card, now_s)}
    return [
        SimpleNamespace(
            fieldId=one, nvmlReturn=card.errors.get(f"field {one}", 0 if one in values else 2),
            value=SimpleNamespace(uiVal=0 if f"field {one}" in card.errors else values.get(one, 0)),
        )
        for one in ids
    ]  # fmt: skip


def _memory(card: Card, now_s: float, version: int | None = None) -> SimpleNamespace:
    used = int(at(card.used_bytes, now_s))
    if version is None:
        return SimpleNamespace(
            total=card.total_bytes, used=used + card.reserved_bytes, free=card.total_bytes - card.reserved_bytes - used
        )
    if "nvmlDeviceGetMemoryInfo v2" in card.errors:
        raise NVMLError(card.errors["nvmlDeviceGetMemoryInfo v2"])
    free = card.total_bytes - card.reserved_bytes - used
    return SimpleNamespace(total=card.total_bytes, used=used, free=free, reserved=card.reserved_bytes)


def _listed(card: Card, now_s: float, graphics: bool) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(pid=process.pid, usedGpuMemory=process.memory_bytes)
        for process in card.processes
        if process.graphics is graphics and process.since_s <= now_s < process.until_s
    ]


def _utilization(card: Card, now_s: float, last_us: int) -> list[SimpleNamespace]:
    """A sample for each process that is busy, taken now; "not found" where there is none."""
    now_us = int(now_s * 1e6) + 1
    busy = [process for process in card.processes if process.sm_percent and process.since_s <= now_s < process.until_s]
    samples = [
        SimpleNamespace(pid=process.pid, timeStamp=now_us, smUtil=process.sm_percent) for process in busy if now_us > last_us
    ]
    if card.sampled_percent_rubbish:
        samples.append(SimpleNamespace(pid=0, timeStamp=2**63, smUtil=2_147_483_632))
    if not samples:
        raise NVMLError(NOT_FOUND)
    return samples


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "nvmlDeviceGetName": lambda card, _: card.name,
    "nvmlDeviceGetUUID": lambda card, _: card.uuid,
    "nvmlDeviceGetVbiosVersion": lambda card, _: "95.02.3C.00.8C",
    "nvmlDeviceGetTotalEnergyConsumption": _energy_mj,
    "nvmlDeviceGetPowerUsage": _average_mw,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetClockInfo": lambda card, _, kind: {1: card.sm_clock_mhz}[kind],
    "nvmlDeviceGetTemperature": lambda card, _, sensor: {0: card.temperature_c}[sensor],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda card, now_s: int(at(card.reasons, now_s)),
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda card, now_s: int(at(card.reasons, now_s)),
    "nvmlDeviceGetComputeRunningProcesses": lambda card, now_s: _listed(card, now_s, False),
    "nvmlDeviceGetComputeRunningProcesses_v2": lambda card, now_s: _listed(card, now_s, False),
    "nvmlDeviceGetGraphicsRunningProcesses": lambda card, now_s: _listed(card, now_s, True),
    "nvmlDeviceGetGraphicsRunningProcesses_v2": lambda card, now_s: _listed(card, now_s, True),
    "nvmlDeviceGetProcessUtilization": _utilization,
    "nvmlDeviceGetPowerManagementLimit": lambda card, _: round(card.limit_w * 1000),
    "nvmlDeviceGetEnforcedPowerLimit": lambda card, _: round(card.limit_w * 1000),
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda card, _: round(card.limit_w * 1000),
    "nvmlDeviceGetPowerManagementLimitConstraints": lambda card, _: [round(limit_w * 1000) for limit_w in card.limits_w],
    "nvmlDeviceGetMaxClockInfo": lambda card, _, kind: dict(zip((0, 2), card.clocks_max_mhz, strict=True))[kind],
    "nvmlDeviceGetApplicationsClock": lambda card, _, kind: dict(zip((0, 2), card.application_clocks_mhz, strict=True))[kind],
    "nvmlDeviceGetGpcClkVfOffset": lambda card, _: 0,
    "nvmlDeviceGetMemClkVfOffset": lambda card, _: 0,
    "nvmlDeviceGetPersistenceMode": lambda card, _: card.persistence,
    "nvmlDeviceGetCurrentEccMode": lambda card, _: card.ecc,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda card, _: card.pcie[0],
    "nvmlDeviceGetMaxPcieLinkWidth": lambda card, _: card.pcie[1],
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda card, _: card.pcie[2],
    "nvmlDeviceGetCurrPcieLinkWidth": lambda card, _: card.pcie[3],
    "nvmlDeviceGetPerformanceState": lambda card, _: card.performance_state,
}  # fmt: skip

HIDING = {
    "native": None,
    "wsl2": "under WSL2 the driver does not list what Windows runs",
    "container": "in a container the driver does not list everybody's processes",
}


def install(
    monkeypatch: Any,
    *,
    card: Card | None = None,
    more: tuple[Card, ...] = (),
    clock: Callable[[], float],
    where: str = "native",
    parents: Mapping[int, int] | None = None,
    init_error: int | None = None,
) -> FakeNvml:
    """Put the replay in the place of `pynvml`, card 0 first (None: no card at all); returns it.

    `parents` maps pid to parent's pid. Processes that it does not name but the cards do are children of pid 1.
    """
    cards = (*(() if card is None else (card,)), *more)
    fake = FakeNvml(cards, clock, init_error)
    known = {process.pid: 1 for one in cards for process in one.processes} | dict(parents or {})
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("bench.meters.nvml_processes.why_incomplete", lambda: HIDING[where])
    monkeypatch.setattr("bench.meters.nvml_processes.parent_of", known.get)
    return fake
