"""Suites: a question in TOML, read strictly.

In: the path of a suite file, or its name in `suites/`. Out: a `Suite` whose models are resolved; or a `SuiteError` that holds
every fault of the file at once, one line each. `bench.declaration` judges field by field, this module what they say
together.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from bench import searched
from bench.declaration import Declared, declared, fields, schema
from bench.expand import IN_EVERY_ID, cells_of, exclusion_of
from bench.model import Model
from bench.reading.architecture import smallest_adapted_dimension
from bench.reading.strict import BadFile, Problem, first_of, meant, printable, read_toml, shown
from bench.real import with_real_weights
from bench.spec import (
    FEWEST_JUDGED_STEPS,
    Arm,
    BackendName,
    Cell,
    Device,
    Exclusion,
    Measure,
    Scalar,
    Suite,
    Workload,
)

__all__ = ["MAX_CELLS", "SuiteError", "read_suite", "schema"]

MAX_CELLS = 10_000
"""More cells than anyone has measured in one sweep: a slip of the pen."""
MAX_EXCLUSIONS = 256
"""Each is held against every cell."""
SUITE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


class SuiteError(BadFile):
    """A suite file with faults; `problems` holds them all."""


def read_suite(path_or_name: str | Path, suites_dir: Path = Path("suites")) -> Suite:
    """The suite of a file, or of a name in `suites_dir`. Raises SuiteError with every fault."""
    path = _find(str(path_or_name), suites_dir)
    try:
        content = read_toml(path)
    except BadFile as error:
        raise SuiteError(error.problems) from None
    file = printable(str(path))
    said, problems = declared(content, file, path.parent)
    blamed = {found[1] for problem in problems if (found := re.match(r"(?:sweep|fixed)\.(\w+)", problem.path))}
    problems += [Problem(file, where, what) for where, what in _together(said, content, path.stem, blamed)]
    if problems:
        raise SuiteError(problems)
    suite = _suite(path.stem, said)
    suite, faults = with_real_weights(suite, _kept(suite))
    problems += [Problem(file, _path_of(said, "weights", kind), what) for kind, what in faults]
    if problems:
        raise SuiteError(problems)
    return suite


def _find(text: str, suites_dir: Path) -> Path:
    """The file that is meant. Raises SuiteError, with the names of the suites that exist, where there is none."""
    path = Path(text) if text.endswith(".toml") or "/" in text else suites_dir / f"{text}.toml"
    try:
        if path.exists():
            return path
    except OSError as error:  # a folder that may not be searched, a name too long
        raise SuiteError([Problem(printable(str(path)), "", f"cannot be read: {error.strerror}")]) from None
    raise SuiteError([Problem(printable(str(path)), "", f"no such suite; {_advice(path.stem, suites_dir)}")])


def _advice(name: str, suites_dir: Path) -> str:
    folder = printable(str(suites_dir))
    try:
        names = sorted(printable(each.stem) for each in suites_dir.iterdir() if each.suffix == ".toml")
    except FileNotFoundError:
        names = []
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    return f"{folder} holds {first_of(names)}; {meant(name, names)}" if names else f"{folder} holds no suite either"


Faults = Iterator[tuple[str, str]]


def _together(said: Declared, content: Mapping[str, Any], stem: str, blamed: set[str]) -> Faults:
    """What is wrong with the file as a whole: (path of the key, message). `blamed` fields have faults of their own already."""
    if not re.fullmatch(SUITE_NAME, stem):
        yield "", "name the file with letters, digits, '.', '_' and '-': its name is the suite's"
    if "question" not in content:
        yield "question", "missing; say in one sentence what the suite asks"
    swept, fixed = _keys(content, "sweep"), _keys(content, "fixed")
    for name in IN_EVERY_ID:
        if name not in swept | fixed and not (name == "backend" and content.get("arm")):
            yield f"sweep.{name}", "missing; give a list here, or one value in [fixed]"
    for name in (name for name in fields() if name in swept and name in fixed):
        yield f"fixed.{name}", "is swept too; a field is either fixed or swept"
    yield from _arms(said, content)
    yield from _twice(said)
    yield from _namesakes(said)
    yield from _warmup(said, content)
    yield from searched.faults(said, content)
    if len(said.exclude) > MAX_EXCLUSIONS:
        yield "exclude", f"{len(said.exclude):,} exclusions; at most {MAX_EXCLUSIONS} can be meant"
        return
    yield from _exclusions(said, content)
    if all(said.values.get(name) for name in IN_EVERY_ID):
        yield from _multiplied(said, blamed)


def _keys(content: Mapping[str, Any], table: str) -> dict[str, Any]:
    found = content.get(table)
    return found if isinstance(found, dict) else {}


def _twice(said: Declared) -> Faults:
    for name, values in said.sweep.items():
        counts = Counter(_scalar(value) for value in values)  # `8b` and `llama-3.1-8b` are one model
        for value in (value for value, count in counts.items() if count > 1):
            yield f"sweep.{name}", f"{shown(value)} stands twice"


def _warmup(said: Declared, content: Mapping[str, Any]) -> Faults:
    """Bounds of warm-up that contradict each other, and too few steps to judge its end by."""
    if said.measure.keys() != _keys(content, "measure").keys():
        return  # what has a fault of its own would be taken for its default
    measure = Measure(**said.measure)
    least, most = measure.warmup_steps, measure.warmup_max_steps
    if most < least:
        by_default = "" if "warmup_max_steps" in said.measure else " by default"
        yield "measure.warmup_max_steps", f"{most}{by_default} is less than warmup_steps, {least}; raise it to {least} or more"
    elif most > least and measure.steps < FEWEST_JUDGED_STEPS:
        wanted = f"give {FEWEST_JUDGED_STEPS} or more, or fix the warm-up with warmup_max_steps = {least}"
        yield "measure.steps", f"{measure.steps} steps are too few to judge by whether warm-up is over; {wanted}"


def _arms(said: Declared, content: Mapping[str, Any]) -> Faults:
    """Arms without a name or a backend, two of one name or one content, and fields that the suite gives to all."""
    raw = content.get("arm")
    if not isinstance(raw, list) or len(raw) != len(said.arm):
        return
    given = {*_keys(content, "sweep"), *_keys(content, "fixed")}
    names: dict[str, int] = {}
    contents: dict[str, str] = {}
    for index, (each, arm) in enumerate(zip(raw, said.arm, strict=True)):
        path, name = f"arm[{index}]", str(arm.get("name", ""))
        for key, what in (("name", "its cells' ids need one"), ("backend", "say who does the work")):
            if key not in each:
                yield f"{path}.{key}", f"missing; {what}"
        for key in (key for key in arm if key in given and key != "name"):
            yield f"{path}.{key}", "is swept or fixed too; let either every arm give it or the suite"
        if name and names.setdefault(name, index) != index:
            yield f"{path}.name", f"{shown(name)} stands twice"
        same = contents.setdefault(repr(sorted((key, value) for key, value in arm.items() if key != "name")), name)
        if same != name:
            yield path, f"asks for what {shown(same)} asks for already"


def _exclusions(said: Declared, content: Mapping[str, Any]) -> Faults:
    """Exclusions that give no reason, name no field, or name a field that is not declared.

    A value that no cell has is no fault: a suite may say why a model stays out while it is not in the sweep.
    """
    raw = content.get("exclude")
    if not isinstance(raw, list) or len(raw) != len(said.exclude):
        return
    known = {*_keys(content, "sweep"), *_keys(content, "fixed"), *chain(*said.arm)}
    for index, (each, where) in enumerate(zip(raw, said.exclude, strict=True)):
        path = f"exclude[{index}]"
        if "reason" not in each:
            yield path, "gives no reason; say why these cells are left out"
        if not each.keys() - {"reason"}:
            yield path, "names no field, so it would leave out every cell; name at least one"
        for name, _ in _where(where):
            if name not in known:
                yield f"{path}.{name}", "is neither swept nor fixed, so it tells no cells apart"


def _namesakes(said: Declared) -> Faults:
    """Two architectures of one name, which would share their cells' ids; two names of one, which would share the cells."""
    architectures: dict[str, set[str]] = defaultdict(set)
    for model in said.values.get("model", []):
        architectures[model.name].add(model.architecture)
    for name in sorted(name for name, found in architectures.items() if len(found) > 1):
        yield "sweep.model", f"two architectures have the name {name}; rename the folder or the file of one"
    if "random" not in said.values.get("weights", ["random"]):
        return  # weights of their own tell them apart
    names: dict[str, str] = {}
    for model in said.values.get("model", []):
        first = names.setdefault(model.architecture, model.name)
        if first != model.name:
            yield "sweep.model", f"{model.name} is the same architecture as {first}, so both make the same cells; remove one"


def _multiplied(said: Declared, blamed: set[str]) -> Faults:
    """Faults that only the cells show."""
    count = math.prod(len(values) for values in said.sweep.values()) * max(1, len(said.arm))
    if count > MAX_CELLS:
        yield "sweep", f"makes {count:,} cells; at most {MAX_CELLS:,} can be meant"
        return
    suite = _suite("draft", said)
    kept = _kept(suite)
    if "method" not in blamed:
        yield from _idle(said, cells_of(suite, _any_device))
    if "revision" in said.fixed and all(cell.workload.weights == "random" for cell in kept):
        yield "fixed.revision", 'the weights are random and have none; fix weights as "hub" or "folder", or remove it'
    yield from _beyond_models(said, kept)


def _kept(suite: Suite) -> list[Cell]:
    """The cells that no exclusion leaves out."""
    return [cell for cell in cells_of(suite, _any_device) if exclusion_of(suite, cell) is None]


def _any_device(_: BackendName) -> Device:
    return "cpu"


def _idle(said: Declared, cells: tuple[Cell, ...]) -> Faults:
    """Swept fields that no method here uses: they would multiply nothing. A fixed one does no harm."""
    used = {name for cell in cells for name, _ in cell.swept}
    methods = ", ".join(said.values["method"])
    for name in said.sweep:
        if name not in used and name not in IN_EVERY_ID:
            yield f"sweep.{name}", f"no method here uses it ({methods}); remove it, or add a method that does"


def _beyond_models(said: Declared, cells: list[Cell]) -> Faults:
    """Values that some model cannot take, one fault for each value."""
    beyond: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for cell in cells:
        for name, value, limit_name, limit in limits_of(cell.workload):
            if limit is not None and value is not None and value > limit:
                beyond[name, value, limit_name][cell.workload.model.name] = limit
    for (name, value, limit_name), models in beyond.items():
        whose = ", ".join(f"{model} ({limit})" for model, limit in models.items())
        yield _path_of(said, name, value), f"{value} exceeds the {limit_name} of {whose}"


def limits_of(work: Workload) -> Iterator[tuple[str, int | None, str, int | None]]:
    """(field, its value, what limits it, the limit) for one cell's work."""
    config = work.model.config
    positions = config.get("max_position_embeddings")
    if work.method == "serve":
        yield "prompt_tokens", (work.prompt_tokens or 0) + (work.generated_tokens or 0), "positions", positions
    else:
        yield "sequence_length", work.sequence_length, "max_position_embeddings", positions
    yield "rank", work.rank, "smallest adapted dimension", smallest_adapted_dimension(config, work.module_names)
    yield "adapter_layers", work.adapter_layers, "layers", config.get("num_hidden_layers")


def _path_of(said: Declared, name: str, value: Scalar) -> str:
    """Where a value stands: in the sweep, among the fixed, or nowhere, being a default."""
    if name in said.sweep:
        values = said.sweep[name]
        return f"sweep.{name}[{values.index(value)}]" if value in values else f"sweep.{name}"
    return f"fixed.{name}" if name in said.fixed else f"{name} (by default)"


def _suite(name: str, said: Declared) -> Suite:
    models: list[Model] = said.values["model"]
    given: dict[str, Any] = {} if said.repeats is None else {"repeats": said.repeats}
    return Suite(
        name=name,
        question=said.question,
        sweep=tuple((key, tuple(_scalar(value) for value in values)) for key, values in said.sweep.items()),
        fixed=tuple((key, _scalar(value)) for key, value in said.fixed.items()),
        models=tuple((model.name, model) for model in models),
        arms=tuple(Arm(arm["name"], tuple((key, arm[key]) for key in arm if key != "name")) for arm in said.arms),
        exclude=tuple(Exclusion(_where(each), each.get("reason", "")) for each in said.exclude if _where(each)),
        measure=Measure(**said.measure),
        frontier=searched.frontier(said.frontier),
        budget_minutes=said.budget.get("minutes"),
        **given,
    )


def _where(exclusion: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _scalar(value)) for name, value in exclusion.items() if name != "reason")


def _scalar(value: Any) -> Any:
    return value.name if isinstance(value, Model) else value
