"""How far a prediction by rule may be off: priors written by hand, and what was fitted in their place.

In: `suites/catalog/calibration.toml`. Out: for a stack and a quantity (`peak`, `reserved`, `held`) a factor and a spread.
`wingspan calibrate` writes the fitted part, from published rows and own runs; the priors and their reasons stand above it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

from annotated_types import Gt, Le
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from bench.catalog import CATALOG
from bench.reading.strict import BadFile, Problem, printable, problems_of, read_text, read_toml

CALIBRATION = CATALOG / "calibration.toml"


@dataclass(frozen=True, slots=True)
class Spread:
    """`factor`: what the rules' value is multiplied by. `spread`: standard deviation of the logarithm of what remains."""

    factor: float
    spread: float


LINE = "# Fitted by `wingspan calibrate` from results/; what stands below is written by it, and by nobody else."
MOST_SPREAD, MOST_FACTOR = 1, 2
"""Bounds of what is written and read back: a table of nonsense may teach nonsense, and must not make the file unreadable.
Rules that are off by more than a factor of two want mending, not correcting."""
ASSUMED = Spread(1.0, 0.2)
"""Of a stack that the file does not name."""


class _Prior(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    spread: Annotated[float, Gt(0), Le(MOST_SPREAD)]
    reason: str


class _Fitted(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    factor: Annotated[float, Gt(0), Le(MOST_FACTOR)]
    spread: Annotated[float, Gt(0), Le(MOST_SPREAD)]


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")

    prior: dict[str, dict[str, _Prior]] = {}
    memory: dict[str, dict[str, _Fitted]] = {}


Spreads = dict[tuple[str, str], Spread]


@cache
def stored_spreads(path: Path = CALIBRATION) -> Spreads:
    """By stack and quantity; the priors alone where nothing was fitted. Raises BadFile with every fault of the file."""
    found = _read(path)
    return {
        **_priors(found),
        **{(stack, name): Spread(row.factor, row.spread) for stack, rows in found.memory.items() for name, row in rows.items()},
    }


@cache
def prior_spreads(path: Path = CALIBRATION) -> Spreads:
    """By stack and quantity, as they were before anything was fitted: what calibration starts from.

    What was fitted is not looked at, so that a fault there can be mended by fitting anew.
    """
    if not path.exists():
        return {}
    try:
        found = tomllib.loads(read_text(path).partition(LINE)[0])
        return _priors(_File.model_validate({"prior": found.get("prior", {})}))
    except tomllib.TOMLDecodeError as error:
        raise BadFile([Problem(printable(str(path)), "", f"{printable(str(error))}; mend what is written by hand")]) from None
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _by_hand)) from None


def _by_hand(details: ErrorDetails) -> str:
    return "mend what is written by hand"


def _priors(found: _File) -> Spreads:
    return {(stack, name): Spread(1.0, row.spread) for stack, rows in found.prior.items() for name, row in rows.items()}


def _read(path: Path) -> _File:
    if not path.exists():
        return _File()
    try:
        return _File.model_validate(read_toml(path))
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _remedy)) from None


def _remedy(details: ErrorDetails) -> str:
    return "run `wingspan calibrate`, which writes it anew"
