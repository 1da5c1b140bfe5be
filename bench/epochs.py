"""Which runs were made under the same conditions.

In: the columns of a run that tell its conditions. Out: these as one value, and the digest of its epoch: runs of equal digest had
the same packages, Python, system, driver and settings of the device. No I/O.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EPOCH_SETTINGS: tuple[str, ...] = (
    # what a card may draw: as asked for, as enforced over all who limit it, and the board's own bounds, which firmware may move
    *("power_limit_w", "power_limit_enforced_w", "power_limit_default_w", "power_limit_min_w", "power_limit_max_w"),
    # how fast it may run: its ceilings, and what it was told; a lock of clocks cannot be read back (bench.meters.nvml_settings)
    *("graphics_clock_max_mhz", "memory_clock_max_mhz", "graphics_clock_application_mhz", "memory_clock_application_mhz"),
    *("graphics_clock_offset_mhz", "memory_clock_offset_mhz"),
    # its modes: without persistence the driver is loaded anew for each process, ECC takes memory and bandwidth
    *("persistence_mode", "ecc"),
    # which card, with which firmware, in which slot
    *("card", "vbios_version", "pcie_generation_max", "pcie_width_max"),
    # processors: how many are switched on, how their clocks are governed, what their packages may draw
    *("cpu_cores", "cpu_governor", "cpu_energy_preference", "cpu_boost", "platform_profile"),
    *("package_power_limit_long_term_w", "package_power_limit_short_term_w"),
    # a Mac: automatic, low or high power; how much memory the GPU may wire
    *("mac_power_mode", "iogpu_wired_limit_mb"),
)
"""The device settings that belong to an epoch: what somebody set or built in, and what stays until somebody changes it.

Left out are those that follow the load (`*_now`), those that say how a run was measured and not how the device is set
(`apple_power_rails`, `apple_power_undercount`, `packages`, `framework_peak`, `memory_like`), one that follows from others
(`package_power_limit_w`), and those that an epoch has from elsewhere (`driver_version`, `macos_version`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The environment of one night, or of one run, as five columns of `runs` tell it; `Conditions.of(row)` takes them from there.

    `versions` are the run's own (`python`, `os`, `driver`, and the packages of its backend), `device_settings` all that the
    meters told, of which those of `EPOCH_SETTINGS` count. None, or an empty mapping: not known, as where nothing was started.
    """

    environment_digest: str | None
    versions: Mapping[str, str] = field(default_factory=dict)
    os_version: str | None = None
    device_settings: Mapping[str, str] = field(default_factory=dict)
    source_revision: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Conditions:
        """From a row of `runs` as Arrow or pandas gives it: maps as mappings or as pairs, nothing as None, NaN or no column."""
        return cls(
            environment_digest=_text(row.get("environment_digest")),
            versions=_map(row.get("versions")),
            os_version=_text(row.get("os_version")),
            device_settings=_map(row.get("device_settings")),
            source_revision=_text(row.get("source_revision")),
        )

    @property
    def system(self) -> str | None:
        """The operating system and its version; on Linux the kernel too."""
        return self.os_version or self.versions.get("os")

    @property
    def driver(self) -> str | None:
        """The accelerator's driver; None where there is none of its own, as on a Mac."""
        return self.versions.get("driver") or self.device_settings.get("driver_version")

    @property
    def settings(self) -> dict[str, str]:
        """How the device was set, as far as that belongs to the epoch."""
        return {name: self.device_settings[name] for name in EPOCH_SETTINGS if name in self.device_settings}

    @property
    def epoch_digest(self) -> str | None:
        """16 hex digits over packages, Python, system, driver and settings; None where the packages are not known.

        The harness's own revision is not in it: what it changes in the measuring, `environment_diff` names.
        """
        if self.environment_digest is None:
            return None
        text = json.dumps([self.environment_digest, self.system, self.driver, sorted(self.settings.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _map(value: Any) -> dict[str, str]:
    """A map column's value: a mapping, pairs in a list or an array; nothing is None, or NaN in a frame."""
    return {} if value is None or isinstance(value, float) else dict(value)
