"""The `predict` command that asks for a cell: how a reader finds a predicted figure again.

In: a cell and the name of the catalogue's machine that it is on. Out: a command line that predicts this very cell, every option
spelt out, so that it stays true where a default changes; None where no option says what the cell asks, as a kernel.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

from bench.catalog import catalogue
from bench.machine import catalogue_machine
from bench.predict.question import USED_BY, asked_cell, option
from bench.spec import MODULE_SETS, WORKLOAD_FIELDS, Cell, Implementation, Workload, expand_modules

OPTIONS = (
    "batch_size",
    "sequence_length",
    "gradient_accumulation",
    "gradient_checkpointing",
    "optimizer",
    "rank",
    "modules",
    "adapter_layers",
    "dropout",
    "weights_dtype",
    "adapter_dtype",
    "optimizer_dtype",
    "master_dtype",
    "quantization_bits",
    "prompt_tokens",
    "generated_tokens",
)
"""Fields of a workload that the command takes, in the order in which they are told."""
AT_ONE: Mapping[str, Any] = {"gradient_accumulation": 1, "dropout": 0.0, "master_dtype": None}
"""Fields that claims seldom speak of: at these values they are left out, so that what matters can be read."""
UNFELT = ("learning_rate", "alpha", "seed", "weights", "revision")
"""Fields that no prediction depends on."""


@cache
def predict_command(cell: Cell, machine: str) -> str | None:
    """The command line, as a shell takes it; None where it would ask something else."""
    work = cell.workload
    if cell.implementation != Implementation() or catalogue().models.get(work.model.name) != work.model:
        return None
    declared = {name: value for name in OPTIONS if (value := _declared(work, name)) is not None}
    place = f"{cell.backend}@{cell.device}"
    asked = asked_cell(work.model.name, place, catalogue_machine(machine), {"method": work.method, **declared})
    if (asked.backend, asked.device) != (cell.backend, cell.device) or not _alike(asked.workload, work):
        return None
    named = ["--model", work.model.name, "--method", work.method, "--machine", machine, "--backend", place]
    told = [word for name, value in declared.items() for word in _told(name, value)]
    return shlex.join(["wingspan", "predict", *named, *told])


def _declared(work: Workload, name: str) -> Any:
    """The value that has to be told; None for what the method does not use, or what goes without saying."""
    value = getattr(work, name)
    implied = name in AT_ONE and value == AT_ONE[name]
    implied = implied or (name == "optimizer_dtype" and value == work.trainable_dtype)
    return None if implied or work.method not in USED_BY.get(name, (work.method,)) else value


def _told(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option(name) if value else option(f"no_{name}")]
    if name == "modules":
        known = (each for each, modules in MODULE_SETS.items() if modules == expand_modules(value))
        value = next(known, value)
    return [option(name), str(value)]


def _alike(asked: Workload, work: Workload) -> bool:
    return all(getattr(asked, name) == getattr(work, name) for name in WORKLOAD_FIELDS if name not in UNFELT)
