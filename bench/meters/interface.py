"""The door to every meter.

In: nothing, or this machine. Out: whether a meter works here and, if not, why and what would make it work. The meters that
the idle parent reads while a child measures come through the same door.

To add a meter: one file with a class that satisfies `Meter`, and one row in `METERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a meter works here. `reason` and `remedy` are None where it does."""

    available: bool
    reason: str | None = None
    remedy: str | None = None


class Meter(Protocol):
    """One source of readings."""

    @property
    def name(self) -> str:
        """Its name in readings and in `doctor`."""

    @property
    def scope(self) -> str:
        """What its values cover: `process`, `gpu-board`, `soc`, `package`, `wall`."""

    def availability(self) -> Availability:
        """Whether it works here, found by trying it."""


METERS: Mapping[str, str] = {"process-memory": "bench.meters.process:ProcessMemory"}


def load_meter(name: str) -> Meter:
    """The meter of that name. Raises KeyError for an unknown one."""
    module, _, attribute = METERS[name].partition(":")
    meter: Meter = getattr(import_module(module), attribute)()
    return meter
