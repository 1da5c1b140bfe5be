"""Why a cell cannot be measured: on this machine, in this environment, or anywhere.

In: a cell and a machine. Out: None where it can, else a `Hole` with the reason, and a remedy where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.backends.interface import BACKENDS, load_backend
from bench.backends.optional import optional_missing
from bench.record import Machine
from bench.spec import BackendName, Cell, Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Why a cell cannot be measured here. `refused`: the backend cannot do it on any machine; else `remedy` may help."""

    reason: str
    remedy: str | None = None
    refused: bool = False

    def __str__(self) -> str:
        return self.reason if self.remedy is None else f"{self.reason}; {self.remedy}"


Capabilities = Callable[[Cell, Machine], Hole | None]


def preferred_device(name: BackendName, machine: Machine) -> Device:
    """The first of a backend's devices that the machine has; its first device where the machine has none of them."""
    if name not in BACKENDS:
        return machine.devices[0]
    devices = load_backend(name).devices
    return next((device for device in devices if device in machine.devices), devices[0])


def hole(cell: Cell, machine: Machine) -> Hole | None:
    """Why this machine with this environment cannot measure the cell; None if it can."""
    found = refusal(cell, machine)
    if found is not None:
        return found
    backend = load_backend(cell.backend)
    missing = backend.missing(cell.device)
    if not missing:
        return _optional_hole(cell)
    extra = backend.extras.get(cell.device)
    verb = "is" if len(missing) == 1 else "are"
    reason = f"{cell.backend} is not installed in this environment: {', '.join(missing)} {verb} missing"
    return Hole(reason=reason, remedy=f"pip install '.[{extra}]'" if extra else None)


def _optional_hole(cell: Cell) -> Hole | None:
    """Why this environment cannot do the cell in the way asked for, though its backend is there."""
    lacking = optional_missing(cell)
    if not lacking:
        return None
    module, remedy = lacking[0]
    return Hole(reason=f"{module} is not installed in this environment", remedy=remedy)


def refusal(cell: Cell, machine: Machine) -> Hole | None:
    """Why that machine could not measure the cell whatever were installed on it; None if it could."""
    if cell.backend not in BACKENDS:
        return Hole(reason=f"this version of Wingspan has no {cell.backend} backend", remedy="a later one will")
    backend = load_backend(cell.backend)
    if cell.device not in backend.devices:
        choices = ", ".join(f"{cell.backend}@{device}" for device in backend.devices)
        return Hole(reason=f"{cell.backend} does not run on {cell.device}", remedy=f"use {choices}", refused=True)
    refused = backend.refuses(cell)
    if refused is not None:
        return Hole(reason=refused, refused=True)
    if cell.device not in machine.devices:
        return Hole(reason=f"{machine.name} has no {cell.device}; it has {', '.join(machine.devices)}")
    return None
