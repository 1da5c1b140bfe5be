"""What the `predict` command asks, as a cell.

In: a model by name, alias or path, a machine by name or this computer, and fields of a workload by the names of the command's
options. Out: a `Cell` on the backend that fits the machine, unless one is named; or one message that says what to mend. What can
be predicted but not run is said in notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bench.backends.interface import BACKENDS, load_backend
from bench.catalog import machine_profiles, resolve_model
from bench.machine import catalogue_machine, this_machine
from bench.predict.prediction import Prediction
from bench.reading.strict import BadFile, shown
from bench.record import Machine
from bench.spec import ADAPTER_METHODS, BackendName, BadInput, Cell, Device, Method, workload
from bench.suite import limits_of

THIS = "this"
"""What names the computer that the command runs on."""
TRAINING: tuple[Method, ...] = ("full", "lora", "qlora")
USED_BY: Mapping[str, tuple[Method, ...]] = {
    **dict.fromkeys(("sequence_length", "gradient_accumulation", "gradient_checkpointing"), TRAINING),
    **dict.fromkeys(("optimizer", "optimizer_dtype"), TRAINING),
    **dict.fromkeys(("rank", "modules", "adapter_layers", "dropout", "adapter_dtype"), ADAPTER_METHODS),
    "master_dtype": ("full",),
    **dict.fromkeys(("prompt_tokens", "generated_tokens"), ("serve",)),
    "quantization_bits": ("qlora", "serve"),
}
"""Fields that mean something to some methods only."""
LIMITED = {"prompt_tokens": "--prompt-tokens and --generated-tokens, together"}
"""What a suite's limit is on, where it is on more than the field that bears it."""


def asked_machine(name: str | None) -> Machine:
    """A machine of the catalogue, or this computer where none is named. Raises BadInput with the nearest names."""
    if name in (None, THIS):
        return this_machine()
    if name in {profile.name for profile in machine_profiles()}:
        return catalogue_machine(name)
    here = this_machine()
    if name == here.name:
        return here
    try:
        return catalogue_machine(name)
    except BadInput as error:
        raise BadInput(f"{error} (leave it out for this computer)") from None


def asked_cell(model: str, backend: str | None, machine: Machine, declared: Mapping[str, Any]) -> Cell:
    """The cell of the command's options; those not given are the workload's defaults. Raises BadInput."""
    given = {name: value for name, value in declared.items() if value is not None}
    method = given["method"]
    for name in given:
        if method not in USED_BY.get(name, (method,)):
            users = " and ".join(filter(None, (", ".join(USED_BY[name][:-1]), USED_BY[name][-1])))
            raise BadInput(f"{option(name)} is for {users}, and {method} would ignore it: leave it out, or change --method")
    try:
        resolved = resolve_model(model, Path.cwd())
    except BadFile:
        raise
    except BadInput as error:
        raise BadInput(f"--model: {error}") from None
    try:
        work = workload(model=resolved, **given)
    except ValueError as error:
        raise BadInput(f"--modules: {error}") from None
    name, device = backend_on(backend, machine)
    return Cell(work, name, device)


def option(field: str) -> str:
    """The command's option for a field of a workload."""
    return f"--{field.replace('_', '-')}"


def backend_on(text: str | None, machine: Machine) -> tuple[BackendName, Device]:
    """`mlx`, `hf@cpu`, or what the machine is for: mlx on Apple silicon, hf elsewhere. Raises BadInput."""
    there = machine.devices
    if text is None:
        return ("mlx", "metal") if "metal" in there else ("hf", there[0])
    name, _, device = text.partition("@")
    if name not in BACKENDS or name == "fake":
        raise BadInput(f"--backend: {shown(name)} is none of {', '.join(each for each in BACKENDS if each != 'fake')}")
    backend = cast(BackendName, name)
    able = load_backend(backend).devices
    if device and device not in able:
        raise BadInput(f"--backend: {name} does not run on {shown(device)}; it runs on {', '.join(able)}")
    usable = [each for each in able if each in there]
    if not usable or (device and device not in usable):
        raise BadInput(f"--backend: {text} has nothing to run on in {machine.name}, which has {', '.join(there)}")
    return backend, next((each for each in usable if each == device), usable[0])


def with_doubts(found: Prediction, cell: Cell) -> Prediction:
    """The prediction, with a note where the backend or a suite would refuse the cell."""
    refused = load_backend(cell.backend).refuses(cell)
    doubts = [] if refused is None else [f"{cell.backend} would not run this: {refused}"]
    doubts += [
        f"a suite would refuse this: {LIMITED.get(name, option(name))} {value} exceeds the {limit_name} of "
        f"{cell.workload.model.name}, {limit}"
        for name, value, limit_name, limit in limits_of(cell.workload)
        if limit is not None and value is not None and value > limit
    ]
    return replace(found, memory=replace(found.memory, notes=(*found.memory.notes, *doubts)))
