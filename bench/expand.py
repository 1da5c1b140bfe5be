"""A suite's sweep multiplied out.

In: a `Suite`, and the device that each backend prefers. Out: its cells, each once; and for a cell, the exclusion that leaves it
out, if any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, cast

from bench.model import Model
from bench.spec import (
    IMPLEMENTATION_FIELDS,
    TRAINING_FIELDS,
    WORKLOAD_FIELDS,
    BackendName,
    Cell,
    Device,
    Exclusion,
    Implementation,
    Scalar,
    Suite,
    expand_modules,
    workload,
)

IN_EVERY_ID = ("model", "method", "backend")


def cells_of(suite: Suite, device_of: Callable[[BackendName], Device]) -> tuple[Cell, ...]:
    """The cells in the order of the sweep, the last list turning fastest, arms faster still; `device_of` gives the device where
    none is named.

    Declarations that come to the same work are one cell: a swept rank does not multiply a full fine-tune.
    """
    models = dict(suite.models)
    swept = [name for name, _ in suite.sweep] + (["arm"] if suite.arms else [])
    cells: dict[str, Cell] = {}
    for chosen in _combinations(suite):
        cell = _cell(chosen, models, swept, device_of)
        cells.setdefault(cell.key, cell)
    return tuple(cells.values())


def exclusion_of(suite: Suite, cell: Cell) -> Exclusion | None:
    """The first exclusion that the cell matches in every entry; None if it stays in."""
    return next((each for each in suite.exclude if matches(each.where, cell)), None)


def matches(where: tuple[tuple[str, Scalar], ...], cell: Cell) -> bool:
    """Whether the cell has these values, as it resolved them: a full fine-tune has no rank and matches none."""
    return all(_has(cell, name, value) for name, value in where)


def _combinations(suite: Suite) -> Iterator[dict[str, Scalar]]:
    names = [name for name, _ in suite.sweep]
    arms: list[dict[str, Scalar]] = [{**dict(arm.chosen), "arm": arm.name} for arm in suite.arms] or [{}]
    revisions = dict(suite.revisions)
    for values in product(*(values for _, values in suite.sweep)):
        for arm in arms:
            chosen = {**dict(suite.fixed), **dict(zip(names, values, strict=True)), **arm}
            yield {"revision": revisions.get(str(chosen["model"])), **chosen}


def _cell(
    chosen: dict[str, Scalar], models: dict[str, Model], swept: list[str], device_of: Callable[[BackendName], Device]
) -> Cell:
    declared: dict[str, Any] = {name: chosen[name] for name in WORKLOAD_FIELDS if name in chosen}
    work = workload(**{**declared, "model": models[str(chosen["model"])]})
    asked: dict[str, Any] = {name: chosen[name] for name in IMPLEMENTATION_FIELDS if name in chosen}
    implementation = Implementation(**asked)
    name, _, device = str(chosen["backend"]).partition("@")
    backend = cast(BackendName, name)
    unused = {field for field in WORKLOAD_FIELDS if getattr(work, field) is None} | {*(TRAINING_FIELDS if work.serves else ())}
    return Cell(
        workload=work,
        backend=backend,
        device=cast(Device, device) if device else device_of(backend),
        implementation=implementation,
        swept=tuple((field, _short(chosen[field])) for field in swept if field not in unused and field not in IN_EVERY_ID),
    )


def _short(value: Scalar) -> Scalar:
    """A whole number without a fraction, so that an id reads `/alpha=32`."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _has(cell: Cell, name: str, value: Scalar) -> bool:
    if name == "model":
        return cell.workload.model.name == value
    if name == "backend":
        return value in (cell.backend, f"{cell.backend}@{cell.device}")
    if name == "modules":
        return expand_modules(str(value)) == cell.workload.module_names
    found = getattr(cell.workload if name in WORKLOAD_FIELDS else cell.implementation, name)
    return bool(found == value)
