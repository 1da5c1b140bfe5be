"""techniques.toml -> named techniques of training and serving, and how each is looked for: strict, every fault at once.

In: `suites/catalog/techniques.toml`. Out: `Technique`s in the order of the file, each with one `Clue` for every place where a
stack runs. A row adds a technique; nothing here has to change.

    [[technique]]
    id = "nf4"
    title = {en = "…", fr = "…", ro = "…"}
    use = {en = "…", fr = "…", ro = "…"}                                      # what it is good for
    hf = [{of = ["bitsandbytes"], look = "bitsandbytes.nn:LinearNF4"}]
    unsloth = [{on = ["cuda"], …}, {on = ["metal"], …}]                       # one clue for each device, or for both
    mlx = [{of = ["mlx", "mlx-lm"], words = ["nf4"], says = "no", reason = {en = "…", …}, source = "…"}]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from annotated_types import MaxLen, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from bench.backends.probe import Probe
from bench.backends.trials import TRIALS
from bench.catalog import CATALOG
from bench.reading.strict import BadFile, Problem, meant, printable, problems_of, read_toml, shown

TECHNIQUES = CATALOG / "techniques.toml"
ID = r"[a-z0-9][a-z0-9-]{0,59}"
LOOK = r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*(\.\w+)*"
Stack = Literal["hf", "unsloth", "mlx"]
Home = Literal["cuda", "metal"]
Says = Literal["yes", "no"]
Language = Literal["en", "fr", "ro"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Place = tuple[Stack, Home]
HOMES: Mapping[Stack, tuple[Home, ...]] = {"hf": ("cuda",), "unsloth": ("cuda", "metal"), "mlx": ("metal",)}
"""The devices that each stack is used on. `hf` on MPS and `mlx` on CUDA are this project's controls: nobody buys a machine for
them."""
READ: tuple[Stack, ...] = ("unsloth",)
"""Stacks whose files are read and not imported: unsloth takes half a minute, refuses where there is neither a card nor Apple
silicon, and patches what else is there."""
OWN: Mapping[Stack, tuple[str, ...]] = {"unsloth": ("unsloth", "unsloth_zoo")}
"""Distributions of which each of a stack's clues names one: what stands in another's would be found without the stack."""
PLACES: tuple[Place, ...] = tuple((stack, home) for stack, homes in HOMES.items() for home in homes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """How to know whether a stack has a technique on a device.

    `probe` is what to look for in the installed packages. `says` is what `source` says where that cannot be looked for, `reason`
    why, by language; a reason without `says` qualifies what is found.
    """

    stack: Stack
    home: Home
    probe: Probe
    says: Says | None = None
    reason: Mapping[Language, str] | None = None
    source: str = ""

    @property
    def why(self) -> str:
        """The reason in English, as it is stored; "" where there is none."""
        return self.reason["en"] if self.reason else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One technique: what it is called and what it is good for, by language, and its clue in every place of `PLACES`."""

    id: str
    title: Mapping[Language, str]
    use: Mapping[Language, str]
    clues: Mapping[Place, Clue]


Text = Annotated[str, MinLen(1), MaxLen(600)]
Texts = Annotated[list[Text], MinLen(1), MaxLen(8)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Text(_Strict):
    en: Text
    fr: Text
    ro: Text


class _Clue(_Strict):
    on: Annotated[list[Home], MinLen(1)] | None = None
    of: Texts | None = None
    look: Text | None = None
    parameter: Text | None = None
    default: bool | int | float | str | None = None
    trial: Text | None = None
    words: Texts | None = None
    within: Text | None = None
    says: Says | None = None
    reason: _Text | None = None
    source: Text | None = None


class _Row(_Strict):
    id: str
    title: _Text
    use: _Text
    hf: Annotated[list[_Clue], MinLen(1)]
    unsloth: Annotated[list[_Clue], MinLen(1)]
    mlx: Annotated[list[_Clue], MinLen(1)]

    def of_stack(self, stack: Stack) -> list[_Clue]:
        rows: list[_Clue] = getattr(self, stack)
        return rows


class _File(_Strict):
    technique: list[_Row]


@cache
def read_techniques(path: Path = TECHNIQUES) -> tuple[Technique, ...]:
    """The techniques of the file. Raises BadFile with every fault of it."""
    try:
        file = _File.model_validate(read_toml(path))
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _remedy)) from None
    problems = [
        Problem(printable(str(path)), f"{shown(row.id)}.{key}", message)
        for row in file.technique
        for key, message in _faults(row)
    ]
    names = [row.id for row in file.technique]
    problems += [
        Problem(printable(str(path)), shown(name), "stands twice") for name in sorted({n for n in names if names.count(n) > 1})
    ]
    if problems:
        raise BadFile(problems)
    return tuple(_technique(row) for row in file.technique)


def _remedy(details: ErrorDetails) -> str:
    if details["type"] == "missing" and details["loc"] and details["loc"][-1] in LANGUAGES:
        return "say it in en, fr and ro"
    return "the rows of suites/catalog/techniques.toml show the keys" if details["type"] == "extra_forbidden" else ""


def _faults(row: _Row) -> Iterator[tuple[str, str]]:
    if not re.fullmatch(ID, row.id):
        yield "id", "use small letters, digits and '-' only"
    for stack, homes in HOMES.items():
        clues = row.of_stack(stack)
        covered = [home for clue in clues for home in clue.on or homes]
        for home in homes:
            if covered.count(home) != 1:
                yield stack, f"{covered.count(home) or 'no'} clues for {home}; give one"
        for home in sorted({home for home in covered if home not in homes}):
            yield f"{stack}.on", f"{stack} has no {home} here; it has {' and '.join(homes)}"
        for number, clue in enumerate(clues):
            yield from ((f"{stack}[{number}].{key}", message) for key, message in _clue_faults(clue))
            if clue.of and stack in OWN and not {*clue.of} & {*OWN[stack]}:
                yield (
                    f"{stack}[{number}].of",
                    f"name {' or '.join(OWN[stack])} too, else it is found where {stack} is not installed",
                )


def _clue_faults(clue: _Clue) -> Iterator[tuple[str, str]]:
    ways = [name for name in ("look", "trial", "words") if getattr(clue, name) is not None]
    if len(ways) > 1:
        yield ways[1], f"beside {ways[0]}: a clue looks for one thing"
    if not ways and clue.says is None:
        yield "look", "missing: give look, trial or words, or says with its source"
    if ways and clue.of is None:
        yield "of", "missing: name the distributions whose versions the finding is true of"
    if clue.look is not None and not re.fullmatch(LOOK, clue.look):
        yield "look", f"expected module:name, got {shown(clue.look)}"
    if clue.trial is not None and clue.trial not in TRIALS:
        yield "trial", f"no trial {shown(clue.trial)}; {meant(clue.trial, [*TRIALS])}"
    yield from _dependents(clue)


DEPENDENTS = (
    ("parameter", "look"),
    ("default", "parameter"),
    ("within", "words"),
    ("says", "reason"),
    ("says", "source"),
    ("source", "says"),
)
"""(key, what it is nothing without)."""


def _dependents(clue: _Clue) -> Iterator[tuple[str, str]]:
    for key, needed in DEPENDENTS:
        if getattr(clue, key) is not None and getattr(clue, needed) is None:
            yield needed, f"missing: {key} means nothing without it"
    if clue.words is not None and clue.says != "no":
        yield "says", 'words that stand nowhere show that a stack lacks something: says = "no", with reason and source'


def _technique(row: _Row) -> Technique:
    clues = {
        (stack, home): _clue(stack, home, clue)
        for stack, homes in HOMES.items()
        for clue in row.of_stack(stack)
        for home in clue.on or homes
    }
    return Technique(id=row.id, title=_texts(row.title), use=_texts(row.use), clues={place: clues[place] for place in PLACES})


def _clue(stack: Stack, home: Home, row: _Clue) -> Clue:
    probe = Probe(
        distributions=tuple(row.of or ()),
        trial=row.trial,
        look=row.look,
        parameter=row.parameter,
        default=row.default,
        words=tuple(row.words or ()),
        within=row.within or "",
        read=stack in READ,
    )
    reason = None if row.reason is None else _texts(row.reason)
    return Clue(stack=stack, home=home, probe=probe, says=row.says, reason=reason, source=row.source or "")


def _texts(said: _Text) -> Mapping[Language, str]:
    return {"en": said.en, "fr": said.fr, "ro": said.ro}
