"""What a suite file may say, field by field.

In: the content of a suite's TOML. Out: a `Declared` suite that holds whatever is right, and a `Problem` for whatever a single
field can be blamed for. What fields say together is judged by `bench.suite`.

The tables are built from the dataclasses of `bench.spec`: their annotations are the types and the bounds, and stand there alone.
Every field of a workload or an implementation may stand in `[fixed]` as a value, in `[sweep]` as a list, and in `[[exclude]]`; a
backend with fields of an implementation makes an `[[arm]]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_type_hints

from annotated_types import Ge, Le, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    create_model,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from bench.catalog import resolve_model
from bench.model import Model
from bench.reading.strict import BadFile, Location, Problem, meant, problems_of, shown
from bench.real import REVISION, folder_of, is_known
from bench.spec import (
    BACKENDS,
    DEVICES,
    IMPLEMENTATION_FIELDS,
    MODULE_SETS,
    SEARCHED,
    BadInput,
    Frontier,
    Implementation,
    Measure,
    Suite,
    Workload,
    expand_modules,
)

MAX_PASSES = 8
_STEP = Annotated[int, Ge(1), Le(2**20)]
ARM_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"
BACKEND_ENTRIES = (*BACKENDS, *(f"{name}@{device}" for name in BACKENDS for device in DEVICES))


@dataclass(kw_only=True)
class Declared:
    """The parts of a suite file that are right in themselves, models resolved. Tables keep the order of the file."""

    question: str = ""
    repeats: int | None = None
    sweep: dict[str, list[Any]] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    arm: list[dict[str, Any]] = field(default_factory=list)
    exclude: list[dict[str, Any]] = field(default_factory=list)
    measure: dict[str, Any] = field(default_factory=dict)
    frontier: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)

    @property
    def arms(self) -> list[dict[str, Any]]:
        """The arms that can make cells."""
        return [arm for arm in self.arm if {"name", "backend"} <= arm.keys()]

    @property
    def values(self) -> dict[str, list[Any]]:
        """Every declared field with all its values, swept first; the backends of arms."""
        arms = {"backend": [arm["backend"] for arm in self.arms]} if self.arms else {}
        return arms | self.sweep | {name: [value] for name, value in self.fixed.items() if name not in self.sweep}


def declared(content: Mapping[str, Any], file: str, folder: Path) -> tuple[Declared, list[Problem]]:
    """What the file says rightly, and the faults of single fields. `folder` is where relative model paths start.

    A faulty value is taken out and the rest is read again, so that faults which hide behind others come to light too.
    """
    rest, problems = dict(content), list[Problem]()
    for _ in range(MAX_PASSES):
        try:
            return _plain(suite_file().model_validate(rest, context={"folder": folder}), rest), problems
        except ValidationError as error:
            problems += problems_of(error, file, _remedy)
            rest = _without(rest, [details["loc"] for details in error.errors(include_url=False)])
    return Declared(), problems


def schema() -> dict[str, Any]:
    """The JSON Schema of a suite file, for editors; `suites/schema.json` is this, and a test keeps it so."""
    made = suite_file().model_json_schema()
    made["required"] = ["question"]
    made["$defs"]["Exclude"]["required"] = ["reason"]
    made["$defs"]["Arm"]["required"] = ["name", "backend"]
    for name in SEARCHED:
        made["$defs"][f"Span_{name}"]["required"] = ["from", "to"]
    whole: dict[str, Any] = _whole(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _whole(value: Any) -> Any:
    """Whole numbers without a point. Python keeps one of two types that compare equal, such as of bounds 10 and 10.0, whichever
    module was imported first.
    """
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _model(text: str, info: ValidationInfo) -> Model:
    """The model; one that a path leads to knows its folder, where real weights of it may lie."""
    try:
        folder: Path = (info.context or {})["folder"]
        model = resolve_model(text, folder)
        return model if is_known(model) else replace(model, origin=str(folder_of((folder / text).absolute())))
    except BadFile as error:
        raise PydanticCustomError("config", "faulty configuration", {"problems": error.problems}) from None
    except BadInput as error:
        raise PydanticCustomError("model", "{reason}", {"reason": str(error)}) from None


def _revision(text: str) -> str:
    if not re.fullmatch(REVISION, text):
        what = "expected a commit of the hub, 40 hex digits, or the digest of a folder, 16"
        raise PydanticCustomError("revision", "{reason}", {"reason": f"{what}; got {shown(text)}"})
    return text


def _modules(text: str) -> str:
    """One spelling for the same modules, so that they cannot be swept twice, and a cell's id holds no spaces."""
    try:
        names = expand_modules(text)
    except ValueError as error:
        raise PydanticCustomError("modules", "{reason}", {"reason": str(error)}) from None
    return next((short for short, each in MODULE_SETS.items() if each == names), ",".join(names))


@cache
def fields() -> dict[str, Any]:
    """The type of every field that a suite may sweep or fix, in the order of `bench.spec`."""
    hints = get_type_hints(Workload, include_extras=True) | get_type_hints(Implementation, include_extras=True)
    special: dict[str, Any] = {
        "model": Annotated[str, AfterValidator(_model)],
        "method": hints["method"],
        "backend": Literal[BACKEND_ENTRIES],
        "modules": Annotated[str, AfterValidator(_modules)],
        "revision": Annotated[str, AfterValidator(_revision)],
    }
    return special | {name: _required(hint) for name, hint in hints.items() if name not in special}


@cache
def arm_fields() -> dict[str, Any]:
    """The type of every field of an arm: all that may differ between two ways to do the same work."""
    name = Annotated[str, StringConstraints(pattern=ARM_NAME)]
    return {"name": name} | {key: hint for key, hint in fields().items() if key == "backend" or key in IMPLEMENTATION_FIELDS}


def _required(hint: Any) -> Any:
    """The type without None, which TOML cannot say."""
    parts = get_args(hint)
    return next(part for part in parts if part is not NoneType) if NoneType in parts else hint


def _table(name: str, types: Mapping[str, Any]) -> type[BaseModel]:
    """A strict table whose keys may all be missing."""
    missing = Field(default=None, json_schema_extra=_without_default)
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    definitions: dict[str, Any] = {key: (hint, missing) for key, hint in types.items()}
    return create_model(name, __config__=config, **definitions)


def _without_default(made: dict[str, Any]) -> None:
    made.pop("default", None)


@cache
def suite_file() -> type[BaseModel]:
    """The pydantic model of a suite file."""
    suite = get_type_hints(Suite, include_extras=True)
    text = Annotated[str, MinLen(1)]
    list_of: Any = list  # types made at run time, which a type checker cannot follow
    lists = {name: Annotated[list_of[hint], MinLen(1)] for name, hint in fields().items()}
    tables: dict[str, Any] = {
        "question": text,
        "repeats": suite["repeats"],
        "sweep": _table("Sweep", lists),
        "fixed": _table("Fixed", fields()),
        "arm": list_of[_table("Arm", arm_fields())],
        "exclude": list_of[_table("Exclude", fields() | {"reason": text})],
        "measure": _table("Measure", _measure_fields()),
        "frontier": _table("Frontier", _frontier_fields()),
        "budget": _table("Budget", {"minutes": _required(suite["budget_minutes"])}),
    }
    return _table("Suite", tables)


def _plain(parsed: BaseModel, content: Mapping[str, Any]) -> Declared:
    """The parsed tables as dictionaries of what was said, in the order in which `content` said it."""
    found = _said(parsed, content)
    for name in ("sweep", "fixed", "measure", "frontier", "budget"):
        if name in found:
            found[name] = _said(found[name], content[name])
    spans = {name: value for name, value in found.get("frontier", {}).items() if name in SEARCHED}
    for name, span in spans.items():
        found["frontier"][name] = _said(span, content["frontier"][name])
    for name in ("arm", "exclude"):
        if name in found:
            found[name] = [_said(each, said) for each, said in zip(found[name], content[name], strict=True)]
    return Declared(**found)


def _said(table: BaseModel, order: Mapping[str, Any]) -> dict[str, Any]:
    return {key: getattr(table, key) for key in order if key in table.model_fields_set}


def _without(node: Any, locations: list[Location]) -> Any:
    """The tables and lists of `node` less the places named."""
    here = {location[0] for location in locations if len(location) == 1}
    below = {location[0] for location in locations} - here
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    kept = {
        key: _without(value, [each[1:] for each in locations if each[0] == key]) if key in below else value
        for key, value in pairs
        if key not in here
    }
    if isinstance(node, dict):
        return {key: value for key, value in kept.items() if not (key in below and value == [])}
    return list(kept.values())


def _measure_fields() -> dict[str, Any]:
    return get_type_hints(Measure, include_extras=True)


@cache
def _frontier_fields() -> dict[str, Any]:
    """Spans of the fields that may be searched, each with the bounds of its field."""
    ends = {name: dict.fromkeys(("from", "to"), fields()[name]) for name in SEARCHED}
    spans = {name: _table(f"Span_{name}", {**ends[name], "step": _STEP}) for name in SEARCHED}
    return {**spans, "model": bool, "confirm_steps": get_type_hints(Frontier, include_extras=True)["confirm_steps"]}


def _remedy(details: ErrorDetails) -> str:
    """What to do about a fault, where the kind of fault alone does not say it."""
    location, value, kind = details["loc"], details["input"], details["type"]
    if kind == "extra_forbidden":
        return _place(str(location[-1]), location[:-1])
    if kind in ("int_type", "float_type") and isinstance(value, str) and _is_number(value):
        return "remove the quotes"
    if location[0] == "sweep":
        return {"list_type": "write a list, or move it to [fixed]", "too_short": "give a value, or remove the key"}.get(kind, "")
    if isinstance(value, list):
        remedies = {"fixed": "several values make a list in [sweep]"}
        remedies |= {table: f"repeat [[{table}]] for each" for table in ("arm", "exclude")}
        return remedies.get(str(location[0]), "")
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _place(key: str, table: Location) -> str:
    """Where an unknown key belongs, or which key of this table was meant."""
    homes = dict.fromkeys(fields(), "[sweep] or [fixed]") | dict.fromkeys(_measure_fields(), "[measure]")
    homes |= {"minutes": "[budget]", "name": "[[arm]]", "reason": "[[exclude]]", "confirm_steps": "[frontier]"}
    homes |= dict.fromkeys(("question", "repeats"), "the top of the file, above the first [table]")
    if key in homes:
        return f"it belongs in {homes[key]}"
    allowed = {
        "sweep": [*fields()],
        "fixed": [*fields()],
        "arm": [*arm_fields()],
        "exclude": [*fields(), "reason"],
        "measure": [*_measure_fields()],
        "frontier": [*_frontier_fields()] if len(table) == 1 else ["from", "to", "step"],
        "budget": ["minutes"],
    }
    return meant(key, allowed[str(table[0])] if table else ["question", "repeats", *allowed])
