"""How a card is set: what its driver was told, and what the card allows.

In: a card. Out: a mapping of names, units in them, to text; what this card does not give is left out. Names that end in `_now`
follow the load by themselves (a card at rest lowers its link and its performance state): a change in them is no change of
settings. NVML has no way to read locked clocks back (`nvmlDeviceSetGpuLockedClocks` has no getter): a lock shows only in the
clocks that were measured, and, on cards that have them, in the applications clocks and offsets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bench.meters.interface import DeviceLost
from bench.meters.nvml_card import Card, NotGiven, text

GRAPHICS, MEMORY = 0, 2
"""NVML_CLOCK_GRAPHICS, NVML_CLOCK_MEM."""


def _watts(mw: int) -> str:
    return f"{mw / 1000:g}"


def _on_or_off(state: int) -> str:
    return "on" if state else "off"


_Row = tuple[str, str, tuple[Any, ...], Callable[[Any], str]]
_ROWS: tuple[_Row, ...] = (
    ("power_limit_w", "nvmlDeviceGetPowerManagementLimit", (), _watts),
    ("power_limit_enforced_w", "nvmlDeviceGetEnforcedPowerLimit", (), _watts),
    ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", (), _watts),
    ("power_limit_min_w", "nvmlDeviceGetPowerManagementLimitConstraints", (), lambda limits: _watts(limits[0])),
    ("power_limit_max_w", "nvmlDeviceGetPowerManagementLimitConstraints", (), lambda limits: _watts(limits[1])),
    ("graphics_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (GRAPHICS,), str),
    ("memory_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (MEMORY,), str),
    ("graphics_clock_application_mhz", "nvmlDeviceGetApplicationsClock", (GRAPHICS,), str),
    ("memory_clock_application_mhz", "nvmlDeviceGetApplicationsClock", (MEMORY,), str),
    ("graphics_clock_offset_mhz", "nvmlDeviceGetGpcClkVfOffset", (), str),
    ("memory_clock_offset_mhz", "nvmlDeviceGetMemClkVfOffset", (), str),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), _on_or_off),
    ("ecc", "nvmlDeviceGetCurrentEccMode", (), _on_or_off),
    ("card", "nvmlDeviceGetName", (), text),
    ("vbios_version", "nvmlDeviceGetVbiosVersion", (), text),
    ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), str),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), str),
    ("pcie_generation_now", "nvmlDeviceGetCurrPcieLinkGeneration", (), str),
    ("pcie_width_now", "nvmlDeviceGetCurrPcieLinkWidth", (), str),
    ("performance_state_now", "nvmlDeviceGetPerformanceState", (), lambda state: f"P{state}"),
)


def settings_of(card: Card) -> Mapping[str, str]:
    """Every setting that the card gives. Empty for a card that the driver has lost."""
    return dict(_found(card))


def _found(card: Card) -> Iterator[tuple[str, str]]:
    try:
        yield "driver_version", text(card.module.nvmlSystemGetDriverVersion())
    except card.module.NVMLError:
        return
    for name, function, arguments, spelt in _ROWS:
        try:
            yield name, spelt(card.ask(function, arguments=arguments))
        except (NotGiven, DeviceLost):
            continue
