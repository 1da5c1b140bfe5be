"""Which share of a machine's rated speed a stack reaches: read from the calibration.

In: `suites/catalog/calibration.toml`, its tables `[speed.<stack>.<family>]`. Out: `Fractions` for a stack on a family of
machines. Where a pair was never seen, the stack's own mean over families is taken, then that of all stacks, each with its wider
spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, ValidationError

from bench.catalog import CATALOG
from bench.predict.spread import MOST_SPREAD
from bench.reading.strict import BadFile, printable, problems_of, read_toml

CALIBRATION = CATALOG / "calibration.toml"
ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fractions:
    """`matrix`: of the rate of dense products, `bandwidth`: of the memory's, that a step's own work reaches. `spread`: standard
    deviation of the logarithm of a rate predicted so. `rows` of `sources` independent sources went in; none: an assumption.
    """

    matrix: float
    bandwidth: float
    spread: float
    rows: int = 0
    sources: int = 0


Calibration = Mapping[tuple[str, str], Fractions]
"""By stack (hf, unsloth, mlx) and family of machines; `any` stands for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`share` of its limit that a device draws while it works without waiting, and the standard deviation of its logarithm."""

    share: float = 0.85
    spread: float = 0.2
    rows: int = 0
    sources: int = 0


ASSUMED_LOAD = Load()
"""Before anything was fitted: an assumption. A busy device comes near its limit, and many are held below it."""

ASSUMED = Fractions(matrix=0.5, bandwidth=0.8, spread=0.5)
"""Before anything was fitted: an assumption, with an interval as wide as ignorance."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    matrix: Annotated[float, Gt(0), Le(1.5)]
    bandwidth: Annotated[float, Gt(0), Le(1.5)]
    spread: Annotated[float, Gt(0), Le(MOST_SPREAD)]
    rows: Annotated[int, Ge(0)] = 0
    sources: Annotated[int, Ge(0)] = 0


class _Load(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    share: Annotated[float, Gt(0), Le(1)]
    spread: Annotated[float, Gt(0), Le(MOST_SPREAD)]
    rows: Annotated[int, Ge(0)] = 0
    sources: Annotated[int, Ge(0)] = 0


class _Speeds(BaseModel):
    model_config = ConfigDict(extra="ignore")

    speed: dict[str, dict[str, _Row]] = {}
    power: dict[str, dict[str, _Load]] = {}


@cache
def stored_load(path: Path = CALIBRATION) -> Load:
    """As calibrated; the assumption where nothing is. Raises BadFile with every fault of the file."""
    found = _read(path).power.get(ANY, {}).get("load")
    return ASSUMED_LOAD if found is None else Load(**found.model_dump())


@cache
def stored_fractions(path: Path = CALIBRATION) -> Calibration:
    """What the calibration file holds; nothing where there is none. Raises BadFile with every fault of it."""
    speeds = _read(path).speed
    return {(stack, family): Fractions(**row.model_dump()) for stack, rows in speeds.items() for family, row in rows.items()}


@cache
def _read(path: Path) -> _Speeds:
    if not path.exists():
        return _Speeds()
    try:
        return _Speeds.model_validate(read_toml(path))
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _remedy)) from None


def forget() -> None:
    """The file was written anew."""
    for kept in (_read, stored_fractions, stored_load):
        kept.cache_clear()


def _remedy(details: Any) -> str:
    return "run `wingspan calibrate`"


def fractions_for(calibration: Calibration, stack: str, family: str | None) -> Fractions:
    """The nearest that the calibration knows."""
    for key in ((stack, family or ANY), (stack, ANY), (ANY, ANY)):
        if key in calibration:
            return calibration[key]
    return ASSUMED
