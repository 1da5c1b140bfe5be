"""The catalogue: models and machines that are known by name.

In: `suites/catalog/models.toml` and `machines.toml`, or a path to a `config.json`. Out: `Model` and `MachineProfile` values. A
row of those files adds a model or a machine; nothing here has to change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from bench.model import Model
from bench.reading.architecture import model_of
from bench.reading.strict import BadFile, Problem, meant, printable, problems_of, read_json, read_toml, shown
from bench.spec import BadInput

CATALOG = Path(__file__).resolve().parents[1] / "suites" / "catalog"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

Name = Annotated[str, MinLen(1)]
Rows = TypeVar("Rows", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The models by name, in the order of the file; by alias, the name; by name, where the figures come from and the hub id.

    `revisions` are the hub's commits that a source shows, 40 hex digits each, by the model's name; most models have none.
    """

    models: Mapping[str, Model]
    aliases: Mapping[str, str]
    sources: Mapping[str, str]
    hubs: Mapping[str, str]
    revisions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProfile:
    """A kind of machine. Where `gpu` is given, `memory_bytes` is the board's, else the main memory beside `chip`.

    `capacity_bytes` is what one process can have of it for training; `source` says where both figures come from.

    `board_power_w` is what the GPU's board is made to take, in watts, or, where `chip` is given, the most that the whole computer
    takes at the plug. `peak_flops_per_s` is the rate of dense 16-bit matrix products with 32-bit sums at the rated clock, the
    highest among the variants that this profile covers. `memory_bytes_per_s` is the rated bandwidth of its memory. Each is None,
    or has its source beside it.

    `matrix_flops_per_s` is the same rate of this very variant, where the bound covers a larger one too; `float32_flops_per_s`
    that of products of 32-bit numbers; `launch_s` the seconds that starting one operation takes, however small it is.
    `idle_power_w` and `load_power_w` are watts in `power_scope`: at rest, and while it trains. `family` names the machines that
    reach like shares of their rates. `gpu_cores` tells variants apart that chip and memory do not.
    """

    name: str
    title: str
    chip: str | None = None
    gpu: str | None = None
    memory_bytes: int
    capacity_bytes: int
    source: str
    board_power_w: float | None = None
    board_power_source: str | None = None
    peak_flops_per_s: float | None = None
    peak_flops_source: str | None = None
    memory_bytes_per_s: float | None = None
    memory_rate_source: str | None = None
    family: str | None = None
    gpu_cores: int | None = None
    matrix_flops_per_s: float | None = None
    matrix_flops_source: str | None = None
    float32_flops_per_s: float | None = None
    float32_flops_source: str | None = None
    launch_s: float | None = None
    launch_source: str | None = None
    idle_power_w: float | None = None
    load_power_w: float | None = None
    power_scope: str | None = None
    power_source: str | None = None

    @property
    def rated_flops_per_s(self) -> float | None:
        """The rate of dense 16-bit matrix products of this very variant."""
        return self.matrix_flops_per_s or self.peak_flops_per_s


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ModelRow(_Strict):
    name: Name
    alias: Name | None = None
    hub: Name | None = None
    revision: Name | None = None
    revision_source: Name | None = None
    parameters: Annotated[int, Ge(1)]
    source: Name
    config: dict[str, Any]


class _Text(_Strict):
    """Words of this project's own, as a row has them in English, for readers of another language."""

    en: Name
    fr: Name
    ro: Name


class _MachineRow(_Strict):
    name: Name
    title: Name
    chip: Name | None = None
    gpu: Name | None = None
    memory_bytes: Annotated[int, Ge(1)]
    capacity_bytes: Annotated[int, Ge(1)]
    source: Name
    board_power_w: Annotated[float, Gt(0), Le(1e5)] | None = None
    board_power_source: Name | None = None
    peak_flops_per_s: Annotated[float, Ge(1e9), Le(1e18)] | None = None
    peak_flops_source: Name | None = None
    memory_bytes_per_s: Annotated[float, Ge(1e9), Le(1e15)] | None = None
    memory_rate_source: Name | None = None
    family: Name | None = None
    gpu_cores: Annotated[int, Ge(1)] | None = None
    matrix_flops_per_s: Annotated[float, Ge(1e9), Le(1e18)] | None = None
    matrix_flops_source: Name | None = None
    float32_flops_per_s: Annotated[float, Ge(1e9), Le(1e18)] | None = None
    float32_flops_source: Name | None = None
    launch_s: Annotated[float, Gt(0), Le(1e-2)] | None = None
    launch_source: Name | None = None
    idle_power_w: Annotated[float, Gt(0), Le(1e5)] | None = None
    load_power_w: Annotated[float, Gt(0), Le(1e5)] | None = None
    power_scope: Literal["gpu-board", "soc", "package", "wall"] | None = None
    power_source: Name | None = None


class _Models(_Strict):
    model: list[_ModelRow]


class _Machines(_Strict):
    machine: list[_MachineRow]
    text: list[_Text] = []


@cache
def catalogue(folder: Path = CATALOG) -> Catalogue:
    """The models of `models.toml`. Raises BadFile with every fault of the file."""
    path = folder / "models.toml"
    rows = _read(path, _Models).model
    _refuse_twice(path, "model", [name for row in rows for name in (row.name, row.alias) if name])
    models = {row.name: model_of(row.name, row.config, f"{path}: {row.name}.config") for row in rows}
    _refuse_wrong_counts(path, rows, models)
    _refuse_revisions(path, rows)
    return Catalogue(
        models=MappingProxyType(models),
        aliases=MappingProxyType({row.alias: row.name for row in rows if row.alias}),
        sources=MappingProxyType({row.name: row.source for row in rows}),
        hubs=MappingProxyType({row.name: row.hub for row in rows if row.hub}),
        revisions=MappingProxyType({row.name: row.revision for row in rows if row.revision}),
    )


@cache
def machine_profiles(folder: Path = CATALOG) -> tuple[MachineProfile, ...]:
    """The machines of `machines.toml`, in its order. Raises BadFile with every fault of the file."""
    path = folder / "machines.toml"
    rows = _read(path, _Machines).machine
    _refuse_twice(path, "machine", [row.name for row in rows])
    _refuse_without_source(path, rows)
    return tuple(MachineProfile(**row.model_dump()) for row in rows)


@cache
def machine_texts(folder: Path = CATALOG) -> Mapping[str, Mapping[str, str]]:
    """What `machines.toml` says of its sources, by the English that a profile has: in each language by its code.

    Raises BadFile with every fault of the file, as a text that is no machine's.
    """
    path = folder / "machines.toml"
    found = _read(path, _Machines)
    known = {text for row in found.machine for text in (row.source, row.memory_rate_source)}
    stray = [each.en for each in found.text if each.en not in known]
    if stray:
        remedy = "no machine has it as its source; write the English as it stands there"
        raise BadFile([Problem(str(path), f"text.{shown(each)}", remedy) for each in stray])
    return MappingProxyType({each.en: MappingProxyType(each.model_dump()) for each in found.text})


def machine_profile(name: str) -> MachineProfile:
    """The machine of the catalogue. Raises BadInput with the nearest names."""
    profiles = {profile.name: profile for profile in machine_profiles()}
    if name not in profiles:
        raise BadInput(f"--machine: no machine {shown(name)} in suites/catalog/machines.toml; {meant(name, [*profiles])}")
    return profiles[name]


def resolve_model(text: str, folder: Path) -> Model:
    """The model that a catalogue name, a size alias or a path means; a path is taken from `folder` unless absolute.

    A path leads to a `config.json`, whatever its name, or to the folder that holds one. Raises BadInput for a name that
    nothing has, and BadFile for a path whose file is missing or faulty.
    """
    known = catalogue()
    name = known.aliases.get(text, text)
    if name in known.models:
        return known.models[name]
    if "/" in text or text.endswith(".json"):
        return _model_at(folder / text)
    advice = meant(text, [*known.aliases, *known.models])
    advice += "" if advice.endswith("?") else ", or the path of a config.json"
    raise BadInput(f"unknown model {shown(text)}; {advice}")


def _model_at(path: Path) -> Model:
    """The model of a configuration file, named after the file, or after its folder where the file is a `config.json`."""
    try:
        file = path / "config.json" if path.is_dir() else path
        stem = file.resolve().parent.name if file.name == "config.json" else file.stem
        lacking = file.parent == path and not file.exists()
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a NUL byte, a loop of links
        raise BadFile([Problem(printable(str(path)), "", f"cannot be read: {printable(str(error))}")]) from None
    if lacking:
        raise BadFile([Problem(printable(str(path)), "", "holds no config.json; name a folder that does, or the file itself")])
    name, shown_file = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "model", printable(str(file))
    model = model_of(name, read_json(file), shown_file)
    namesake = catalogue().models.get(name)
    if namesake is not None and namesake.architecture != model.architecture:
        message = f"the catalogue has another architecture of the name {name}; rename the folder or the file"
        raise BadFile([Problem(shown_file, "", message)])
    return model


def _read(path: Path, kind: type[Rows]) -> Rows:
    try:
        return kind.model_validate(read_toml(path))
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _remedy)) from None


def _remedy(details: ErrorDetails) -> str:
    return "the rows above show the keys" if details["type"] == "extra_forbidden" else ""


def _refuse_twice(path: Path, table: str, names: list[str]) -> None:
    """Names stand once and can be part of a cell's id and of a folder's name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    unfit = [name for name in names if not re.fullmatch(NAME, name)]
    problems = [Problem(str(path), table, f"{shown(name)} stands twice") for name in twice]
    problems += [Problem(str(path), table, f"{shown(name)}: use letters, digits, '.', '_' and '-' only") for name in unfit]
    if problems:
        raise BadFile(problems)


def _refuse_without_source(path: Path, rows: list[_MachineRow]) -> None:
    """A figure that runs are judged by can be looked up."""
    missing = [
        Problem(str(path), f"{row.name}.{source}", "missing; say where the figure comes from")
        for row in rows
        for figure, source in (
            ("board_power_w", "board_power_source"),
            ("peak_flops_per_s", "peak_flops_source"),
            ("memory_bytes_per_s", "memory_rate_source"),
            ("matrix_flops_per_s", "matrix_flops_source"),
            ("float32_flops_per_s", "float32_flops_source"),
            ("launch_s", "launch_source"),
            ("idle_power_w", "power_source"),
            ("load_power_w", "power_source"),
            ("load_power_w", "power_scope"),
        )
        if getattr(row, figure) is not None and getattr(row, source) is None
    ]
    if missing:
        raise BadFile(missing)


def _refuse_wrong_counts(path: Path, rows: list[_ModelRow], models: Mapping[str, Model]) -> None:
    wrong = [
        Problem(str(path), f"{row.name}.parameters", f"{row.parameters:,} is wrong: the configuration makes {counted:,}")
        for row in rows
        if (counted := models[row.name].parameters) is not None and counted != row.parameters
    ]
    if wrong:
        raise BadFile(wrong)


def _refuse_revisions(path: Path, rows: list[_ModelRow]) -> None:
    """A revision is a commit of the hub's, and somebody has seen it: a made-up one would only show when it is asked for."""
    faults = [(row.name, fault) for row in rows for fault in _revision_faults(row)]
    if faults:
        raise BadFile(Problem(str(path), f"{name}.{key}", what) for name, (key, what) in faults)


def _revision_faults(row: _ModelRow) -> list[tuple[str, str]]:
    if row.revision is None:
        return [("revision", "missing; a source alone says nothing")] if row.revision_source else []
    faults = []
    if not re.fullmatch(r"[0-9a-f]{40}", row.revision):
        faults.append(("revision", f"expected the 40 hexadecimal digits of a commit, got {shown(row.revision)}"))
    if row.revision_source is None:
        faults.append(("revision_source", "missing; say where the revision is to be seen"))
    if row.hub is None:
        faults.append(("hub", "missing; say whose revision it is"))
    return faults
