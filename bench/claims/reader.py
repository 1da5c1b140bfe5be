"""claims.toml -> claims: strict, every fault at once.

In: the catalogue's `suites/catalog/claims.toml`, and perhaps a file of the user's own with the same tables. Out: `Claim`s in the
order of the files. A row adds a claim; nothing here has to change. `docs/claims.md` describes the keys.

    [conditions.training]                 # what its readers would most likely run, where a claim leaves it open
    sequence_length = 2048

    [[claim]]
    id = "speed.ratio"
    kind = "ratio"
    quantity = "tokens_per_s"
    expected = [2, 4]
    unit = "×"
    methods = ["lora", "qlora"]
    sides = [{machine = "pc-rtx-4090"}, {machine = "mac-studio-m3-ultra"}]
    statement = {en = "…", fr = "…", ro = "…"}

What a file says of conditions and of tolerance also holds for the files after it, until one says otherwise: a claim means the
same in a user's file as in the catalogue's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bench import cited
from bench.catalog import CATALOG, catalogue
from bench.claims.claim import Claim, Expected, Language, Side
from bench.claims.consistency import faults
from bench.claims.rows import CONDITION, IMPLEMENTATION, Conditions, File, Row, SideRow, Texts, Tolerance, said
from bench.reading.strict import BadFile, Problem, meant, printable, problems_of, read_toml, shown
from bench.spec import Scalar

CLAIMS = CATALOG / "claims.toml"
ID = r"[a-z0-9][a-z0-9.-]{0,99}"

_TABLES: Mapping[str | int, type[BaseModel]] = {
    "statement": Texts,
    "remark": Texts,
    "tolerance_reason": Texts,
    "reason": Texts,
    "tolerance": Tolerance,
    "conditions": Conditions,
    "sides": SideRow,
}
"""The tables inside a row, by the key that holds them: whose keys a slip of the pen may have meant."""

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Usual:
    """What holds where a claim does not say it: the conditions of training and serving, and what “about” means."""

    training: Mapping[str, Scalar] = field(default_factory=dict)
    serving: Mapping[str, Scalar] = field(default_factory=dict)
    tolerance: float = 0.15
    reason: Mapping[Language, str] = field(default_factory=dict)


def read_claims(*paths: Path, results: Path = cited.BUNDLED) -> tuple[Claim, ...]:
    """The claims of the files, which may cite the published rows of `results` and those that come with the project.

    Raises BadFile with every fault of all of them, an id that stands twice included, or for published rows with faults.
    """
    rows = cache(partial(_ids, results))
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    claims: list[Claim] = []
    usual = Usual()
    for path in paths:
        try:
            content = read_toml(path)
        except BadFile as error:
            problems += error.problems
            continue
        usual, found = _usual(path, content, usual)
        problems += found
        for index, raw in enumerate(_rows(content)):
            row, found = _row(path, index, raw, seen, rows)
            problems += found
            if row is not None and not problems:
                claims.append(_claim(row, usual))
    if problems:
        raise BadFile(problems)
    return tuple(claims)


def _rows(content: Mapping[str, Any]) -> list[Any]:
    rows = content.get("claim")
    return rows if isinstance(rows, list) else []


def _usual(path: Path, content: Mapping[str, Any], before: Usual) -> tuple[Usual, list[Problem]]:
    """What is usual from this file on, and the faults of all that is no claim."""
    file, problems = _shaped(File, content, path, "")
    if file is None:
        return before, problems
    tables = {"training": before.training, "serving": before.serving}
    for name, earlier in tables.items():
        table: dict[str, Any] = getattr(file.conditions, name)
        found, faulty = _shaped(CONDITION, table, path, f"conditions.{name}")
        problems += faulty
        tables[name] = {**earlier, **(said(found) if found else {})}
    about = file.tolerance
    tolerance, reason = (about.value, _texts(about.reason)) if about else (before.tolerance, before.reason)
    return Usual(tables["training"], tables["serving"], tolerance, reason), problems


def _ids(results: Path) -> list[str]:
    return [*cited.known(results)]


def _row(
    path: Path, index: int, raw: Any, seen: dict[str, Path], rows: Callable[[], Sequence[str]]
) -> tuple[Row | None, list[Problem]]:
    """The row, and its faults; `seen` takes its id, and `rows` gives those of the published rows."""
    name = _name(index, raw)
    row, problems = _shaped(Row, raw, path, name)
    if isinstance(raw, dict) and isinstance(raw.get("id"), str):
        if not re.fullmatch(ID, raw["id"]):
            problems.append(_problem(path, f"{name}.id", "use small letters, digits, '.' and '-' only"))
        if raw["id"] in seen:
            problems.append(_problem(path, f"{name}.id", f"stands twice, also in {printable(str(seen[raw['id']]))}; rename one"))
        seen[raw["id"]] = path
    if row is not None:
        problems += [_problem(path, f"{name}.{key}", message) for key, message in faults(row, rows)]
        problems += [each for key, shape, table in _inner(row) for each in _shaped(shape, table, path, f"{name}.{key}")[1]]
    return row, problems


def _name(index: int, raw: Any) -> str:
    """How a message calls a row: by its id, if it has one that can be shown."""
    name = raw.get("id") if isinstance(raw, dict) else None
    if not isinstance(name, str):
        return f"claim[{index}]"
    return name if re.fullmatch(ID, name) else shown(name)


def _inner(row: Row) -> Iterator[tuple[str, type[BaseModel], dict[str, Any]]]:
    """The tables of a row that name fields of a workload or an implementation."""
    yield "conditions", CONDITION, row.conditions
    for index, side in enumerate(row.sides or ()):
        yield f"sides[{index}].implementation", IMPLEMENTATION, side.implementation


def _shaped(shape: type[Shape], content: Any, path: Path, place: str) -> tuple[Shape | None, list[Problem]]:
    """The table, or None with its faults, each under `place`."""
    try:
        return shape.model_validate(content), []
    except ValidationError as error:
        found = problems_of(error, printable(str(path)), lambda details: _remedy(shape, details))
    return None, [Problem(each.file, ".".join(part for part in (place, each.path) if part), each.message) for each in found]


def _problem(path: Path, key: str, message: str) -> Problem:
    return Problem(printable(str(path)), key, message)


def _remedy(shape: type[BaseModel], details: ErrorDetails) -> str:
    """What to do, where the kind of fault alone does not say it."""
    kind, place = details["type"], details["loc"]
    if kind == "extra_forbidden":
        return meant(str(place[-1]), [*_home(shape, place[:-1]).model_fields])
    if kind == "missing":
        return "say it in en, fr and ro" if place[-1] in Texts.model_fields else "see docs/claims.md"
    return {"too_short": "leave the key out, or fill it", "string_too_short": "write it"}.get(kind, "")


def _home(shape: type[BaseModel], place: tuple[str | int, ...]) -> type[BaseModel]:
    """The table that a place of a file lies in."""
    return next((_TABLES[each] for each in reversed(place) if each in _TABLES), shape)


def _claim(row: Row, usual: Usual) -> Claim:
    aliases = catalogue().aliases
    return Claim(
        id=row.id,
        kind=row.kind,
        statement=_texts(row.statement),
        remark=_texts(row.remark) if row.remark else {},
        cites=tuple(row.cites),
        quantity=row.quantity,
        unit=row.unit,
        expected=Expected(1.0, None) if row.kind == "order" and row.expected is None else row.expected,
        tolerance=_tolerance(row, usual),
        tolerance_reason=_texts(row.tolerance_reason) if row.tolerance_reason else usual.reason,
        scope=row.scope,
        sides=tuple(_side(each) for each in row.sides) if row.sides else (Side(),),
        models=tuple(aliases.get(name, name) for name in row.models),
        methods=tuple(row.methods),
        conditions={**_conditions(row, usual), **said(CONDITION.model_validate(row.conditions))},
        fits=row.fits,
        headroom=row.headroom,
        winner=row.winner,
        techniques=tuple(row.techniques),
        share=0.5 if row.share is None else row.share,
    )


def _texts(texts: Texts) -> Mapping[Language, str]:
    return {"en": texts.en, "fr": texts.fr, "ro": texts.ro}


def _tolerance(row: Row, usual: Usual) -> float:
    """An order has no “about”: one thing is above the other or it is not."""
    if row.tolerance is not None:
        return row.tolerance
    return 0.0 if row.kind == "order" else usual.tolerance


def _conditions(row: Row, usual: Usual) -> Mapping[str, Scalar]:
    """Of a claim about training and serving both, each method takes the fields that it has; those of training come first."""
    if row.methods == ["serve"]:
        return usual.serving
    return {**usual.serving, **usual.training} if "serve" in row.methods else usual.training


def _side(side: SideRow) -> Side:
    return Side(
        machines=tuple(side.machine),
        backends=tuple(side.backend),
        devices=tuple(side.device),
        implementation=said(IMPLEMENTATION.model_validate(side.implementation)),
    )
