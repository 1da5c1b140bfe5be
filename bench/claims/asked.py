"""Which work and which machines a claim is about: what evidence has to match before it may judge.

In: a claim. Out: the works that it names (a reference `Workload` each, under the claim's conditions), and whether a declared
workload is one of them. Fields that a method does not have, or that the claim does not name, are left out of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from numbers import Real
from typing import Any

from bench.backends.interface import load_backend
from bench.catalog import MachineProfile, catalogue, machine_profiles
from bench.claims.claim import Claim, Side
from bench.spec import BACKENDS, BackendName, BadInput, Cell, Device, Implementation, Workload, workload

STACKS: Mapping[str, tuple[BackendName, ...]] = {"cuda": ("hf", "unsloth"), "metal": ("mlx",)}
"""What a machine trains by, as its owners would; other backends on it are control arms, which a side has to name."""


SAME_SIZE = 0.001
LAYERED = "adapter_layers"
"""Asked about although no claim names it: adapters are meant on every block."""


def works(claim: Claim) -> tuple[Workload, ...]:
    """The work of every model and method that the claim names, under its conditions."""
    models = catalogue().models
    methods = claim.methods or ("full", "lora", "qlora")
    return tuple(reference(claim, models[model], method) for model in claim.models for method in methods)


def reference(claim: Claim, model: Any, method: str) -> Workload:
    """Raises ValueError for conditions that no workload can have."""
    return workload(model=model, method=method, **claim.conditions)


def differing(claim: Claim, model: str, method: str, declared: Mapping[str, Any]) -> list[str] | None:
    """The conditions of the claim that this work does not meet, as `sequence_length 16`; None where it is not asked about."""
    if claim.models and model not in claim.models:
        return None
    if claim.methods and method not in claim.methods:
        return None
    wants = wanted(claim, method)
    apart = [f"{name} {declared.get(name)}" for name, value in wants.items() if not is_equal(declared.get(name), value)]
    return apart if LAYERED in wants else [*apart, *_on_some_blocks(model, declared.get(LAYERED))]


def _on_some_blocks(model: str, layers: Any) -> list[str]:
    """Where adapters are on so many blocks and not on all. A frame has NaN for what a workload leaves at all of them."""
    known = catalogue().models.get(model)
    blocks = None if known is None else known.config.get("num_hidden_layers")
    every = not isinstance(layers, Real) or math.isnan(layers) or layers == blocks
    return [] if every else [f"{LAYERED} {int(layers)}"]


def wanted(claim: Claim, method: str) -> Mapping[str, Any]:
    """The conditions of the claim that work by that method has, by field."""
    return _wanted(tuple(sorted(claim.conditions.items())), method)


@cache
def _wanted(conditions: tuple[tuple[str, Any], ...], method: str) -> dict[str, Any]:
    """The conditions as a workload of that method has them: defaults resolved, what the method lacks left out."""
    any_model = next(iter(catalogue().models.values()))
    work = workload(model=any_model, method=method, **dict(conditions))
    return {name: value for name, _ in conditions if (value := getattr(work, name)) is not None}


def is_equal(found: Any, wanted: Any) -> bool:
    """Whether a condition is met; numbers may be of either kind."""
    if isinstance(wanted, bool) or isinstance(found, bool) or isinstance(wanted, str):
        return bool(found == wanted)
    return found is not None and float(found) == float(wanted)


def described(model: str, method: str) -> str:
    """The work in a few words."""
    return f"{model} {method}"


def is_on(side: Side, machine: str, backend: str, device: str) -> bool:
    """Whether the side is this machine, backend and device: one of the machine's own stacks, unless the side names others."""
    return (
        (not side.machines or machine in side.machines)
        and (not side.devices or device in side.devices)
        and (backend in side.backends if side.backends else _is_own(side, backend, device))
    )


def _is_own(side: Side, backend: str, device: str) -> bool:
    """What a side that names no backend means: of a machine its owners' stacks, of none whatever really computes."""
    if not side.machines:
        return backend != "fake"
    return backend in STACKS.get(device, ())


def is_model(name: str, parameters: float | None) -> bool:
    """Whether a run's model of that name is the catalogue's, by its size; a name alone can be anybody's."""
    known = catalogue().models.get(name)
    if known is None or known.parameters is None or parameters is None:
        return known is None
    return abs(parameters / known.parameters - 1) <= SAME_SIZE


def profiles(side: Side) -> tuple[MachineProfile, ...]:
    """The machines of a side that the catalogue knows."""
    return tuple(profile for profile in machine_profiles() if profile.name in side.machines)


def cells(side: Side, profile: MachineProfile, work: Workload) -> tuple[Cell, ...]:
    """What the side can run the work by on that machine: each backend on the machine's own device, if it takes the work."""
    device: Device = "cuda" if profile.gpu else "metal"
    made = []
    for name in (each for each in BACKENDS if each in (side.backends or STACKS[device])):
        backend = load_backend(name)
        if device not in backend.devices or not is_on(side, profile.name, name, device):
            continue
        cell = Cell(work, name, device, Implementation(**side.implementation))
        if backend.refuses(cell) is None:
            made.append(cell)
    return tuple(made)


def work_of(claim: Claim, model: str, method: str) -> Workload | None:
    """The reference work by names; None for a model that the catalogue does not have."""
    found = catalogue().models.get(model)
    try:
        return None if found is None else reference(claim, found, method)
    except (BadInput, ValueError):
        return None
