"""Cards for the replayed `pynvml` of `fake_nvml`: what a kind of card and its driver give, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

MIB = 2**20
NA = None  # what nvidia-ml-py makes of NVML_VALUE_NOT_AVAILABLE
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, FUNCTION_NOT_FOUND = 3, 4, 6, 13
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 9, 12, 15, 999
Trace = tuple[tuple[float, float], ...]
"""(from this second on, this value); the first value holds before its second too."""


def trace(*points: tuple[float, float]) -> Trace:
    return points


def at(points: Trace, now_s: float) -> float:
    """The value of a trace at a moment."""
    return next((value for since_s, value in reversed(points) if since_s <= now_s), points[0][1])


def energy_j(points: Trace, until_s: float) -> float:
    """Exact joules of a power trace from second 0; before it: negative."""
    if until_s <= 0:
        return at(points, 0.0) * until_s
    edges = [0.0, *(since_s for since_s, _ in points if 0 < since_s < until_s), until_s]
    return sum(at(points, start_s) * (end_s - start_s) for start_s, end_s in pairwise(edges))


@dataclass(frozen=True)
class Process:
    """A process on the card while `since_s <= t < until_s`, using `sm_percent` of it."""

    pid: int
    memory_bytes: int | None = NA
    sm_percent: int = 0
    graphics: bool = False
    since_s: float = 0.0
    until_s: float = float("inf")


@dataclass(frozen=True)
class Card:
    """A card and its driver. `errors` maps a function (or `field 186`) to its error; `absent` functions the module lacks."""

    name: str = "NVIDIA GeForce RTX 4090"
    uuid: str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    power_w: Trace = ((0.0, 22.0),)
    energy_at_start_j: float = 123_456.789
    energy_step_s: float = 0.1
    total_bytes: int = 24_564 * MIB
    reserved_bytes: int = 347 * MIB
    used_bytes: Trace = ((0.0, 1.0 * MIB),)
    sm_clock_mhz: int = 2520
    temperature_c: int = 41
    reasons: Trace = ((0.0, float(0x1)),)
    processes: tuple[Process, ...] = ()
    sampled_percent_rubbish: bool = False
    limit_w: float = 450.0
    limits_w: tuple[float, float] = (150.0, 600.0)
    clocks_max_mhz: tuple[int, int] = (3105, 10501)
    application_clocks_mhz: tuple[int, int] = (2520, 10501)
    persistence: int = 1
    ecc: int = 0
    performance_state: int = 8
    pcie: tuple[int, int, int, int] = (4, 16, 1, 16)
    errors: Mapping[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    lost_at_s: float = float("inf")
    lost_error: int = GPU_IS_LOST


def rtx_4090(**changes: Any) -> Card:
    """GeForce, native Linux: no ECC, no applications clocks."""
    errors = {"nvmlDeviceGetApplicationsClock": NOT_SUPPORTED, "nvmlDeviceGetCurrentEccMode": NOT_SUPPORTED}
    return _changed(Card(errors=errors), changes)


def h200(**changes: Any) -> Card:
    """A data-centre card: ECC, applications clocks, the widest link."""
    card = Card(
        name="NVIDIA H200", uuid="GPU-1c4a5b11-0001-4f00-9c55-0123456789ab", power_w=((0.0, 77.0),), total_bytes=143_771 * MIB,
        reserved_bytes=612 * MIB, used_bytes=((0.0, 4.0 * MIB),), sm_clock_mhz=1980, limit_w=700.0, limits_w=(200.0, 700.0),
        clocks_max_mhz=(1980, 3201), application_clocks_mhz=(1980, 3201), ecc=1, performance_state=0, pcie=(5, 16, 5, 16),
    )  # fmt: skip
    return _changed(card, changes)


def laptop(**changes: Any) -> Card:
    """A notebook's GPU: no energy counter, no limit to set, no field 186; the enforced limit is there."""
    errors = dict.fromkeys(
        ("nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerManagementDefaultLimit", "nvmlDeviceGetApplicationsClock",
         "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetCurrentEccMode",
         "field 186"),
        NOT_SUPPORTED,
    )  # fmt: skip
    card = Card(
        name="NVIDIA GeForce RTX 4060 Laptop GPU", total_bytes=8188 * MIB, limit_w=115.0, power_w=((0.0, 2.0),), errors=errors
    )
    return _changed(card, changes)


def wsl2(**changes: Any) -> Card:
    """A GeForce under WSL2: no use per process, memory per process N/A, Windows' desktop in the memory and in no list."""
    errors = {"nvmlDeviceGetProcessUtilization": NOT_SUPPORTED, "nvmlDeviceGetGraphicsRunningProcesses": NOT_SUPPORTED}
    return _changed(rtx_4090(used_bytes=((0.0, 1400.0 * MIB),), **{"errors": errors}), changes)


def container(**changes: Any) -> Card:
    """An H200 in a container: only processes of its own namespace are listed."""
    return _changed(h200(), changes)


def old_driver(**changes: Any) -> Card:
    """A Pascal card with a driver of 2020 under today's module: functions that the driver lacks, no energy counter."""
    errors = {
        "nvmlDeviceGetCurrentClocksEventReasons": FUNCTION_NOT_FOUND, "nvmlDeviceGetMemoryInfo v2": FUNCTION_NOT_FOUND,
        "nvmlDeviceGetComputeRunningProcesses": FUNCTION_NOT_FOUND, "nvmlDeviceGetGraphicsRunningProcesses": FUNCTION_NOT_FOUND,
        "nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED, "field 186": NOT_SUPPORTED,
        "nvmlDeviceGetGpcClkVfOffset": FUNCTION_NOT_FOUND, "nvmlDeviceGetMemClkVfOffset": FUNCTION_NOT_FOUND,
    }  # fmt: skip
    return _changed(Card(name="NVIDIA GeForce GTX 1080", total_bytes=8119 * MIB, limit_w=180.0, errors=errors), changes)


def _changed(card: Card, changes: Mapping[str, Any]) -> Card:
    """The card with changes; `errors` are added to those it has."""
    return replace(card, **{**changes, "errors": {**card.errors, **changes.get("errors", {})}})
