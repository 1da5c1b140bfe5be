"""The shape of a claims file: what each key may hold, by itself.

In: nothing. Out: the tables that `bench.claims.reader` reads a file into. What keys say together is judged in
`bench.claims.consistency`. The fields that a condition or an implementation may name are those of `bench.declaration`: a claim
and a suite call the same work by the same words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainValidator, create_model
from pydantic_core import PydanticCustomError

from bench.claims.claim import Expected, Fits, Kind, Quantity, Winner
from bench.declaration import fields
from bench.spec import IMPLEMENTATION_FIELDS, WORKLOAD_FIELDS

CONDITION_FIELDS = tuple(name for name in WORKLOAD_FIELDS if name not in ("model", "method"))
"""What a condition may be about; model and method have keys of their own."""
OPEN = "open"
"""An end of a range that the claim leaves open."""
LARGEST = 1e18


def _plain(text: str) -> str:
    if any(unicodedata.category(each) == "Cc" for each in text):
        raise PydanticCustomError(
            "text", "holds line breaks or control characters; write one paragraph, broken by a \\ at the line's end"
        )
    return text


def _listed(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


def _ends(value: Any) -> Expected:
    ends = value if isinstance(value, list) else [value, value]
    if len(ends) != 2 or not all(each == OPEN or _is_amount(each) for each in ends):
        raise PydanticCustomError("expected", f'give a number above 0, or [from, to], where one end may be "{OPEN}"')
    low, high = (None if each == OPEN else float(each) for each in ends)
    if low is None and high is None:
        raise PydanticCustomError("expected", "both ends are open: it claims nothing; give one")
    if low is not None and high is not None and low > high:
        raise PydanticCustomError("expected", f"{low:g} is above {high:g}; turn them round")
    return Expected(low, high)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST


Text = Annotated[str, MinLen(1), MaxLen(2000), AfterValidator(_plain)]
Names = Annotated[list[str], BeforeValidator(_listed)]
Share = Annotated[float, Ge(0), Le(1)]


class Strict(BaseModel):
    """A table that takes no keys but its own."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Texts(Strict):
    """What a reader reads, in every language."""

    en: Text
    fr: Text
    ro: Text


class SideRow(Strict):
    """One of those who can answer; a name stands for a list of one."""

    machine: Names = []
    backend: Names = []
    device: Names = []
    implementation: dict[str, Any] = {}


class Row(Strict):
    """One claim."""

    id: str
    kind: Kind
    statement: Texts
    remark: Texts | None = None
    cites: list[str] = []
    quantity: Quantity | None = None
    unit: Text | None = None
    expected: Annotated[Expected | None, PlainValidator(_ends)] = None
    tolerance: Share | None = None
    tolerance_reason: Texts | None = None
    scope: Literal["gpu-board", "soc", "package", "wall"] | None = None
    sides: Annotated[list[SideRow], MinLen(1), MaxLen(2)] | None = None
    models: list[str] = []
    methods: list[str] = []
    conditions: dict[str, Any] = {}
    fits: Fits | None = None
    headroom: Share = 0.0
    winner: Winner | None = None
    techniques: list[str] = []
    share: Share | None = None


class Tolerance(Strict):
    """What “about” means, where a claim does not say it itself."""

    value: Share
    reason: Texts


class Conditions(Strict):
    """What work is usual, where a claim leaves it open."""

    training: dict[str, Any] = {}
    serving: dict[str, Any] = {}


class File(Strict):
    """All but the claims, which are read one by one."""

    claim: list[Any]
    tolerance: Tolerance | None = None
    conditions: Conditions = Conditions()


@cache
def shape_of(names: Sequence[str]) -> type[BaseModel]:
    """A strict table of these fields of a workload or an implementation, all of which may be missing."""
    known = fields()
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    definitions: dict[str, Any] = {name: (known[name], None) for name in names}
    return create_model("Fields", __config__=config, **definitions)


CONDITION = shape_of(CONDITION_FIELDS)
IMPLEMENTATION = shape_of(IMPLEMENTATION_FIELDS)


def said(table: BaseModel) -> dict[str, Any]:
    """The fields that a table names, each in its one spelling."""
    return table.model_dump(exclude_unset=True)
