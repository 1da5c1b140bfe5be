"""Shifts that somebody looked at and accepted: acknowledged.toml.

In: a TOML file that users edit. Out: `Acknowledgement`s, or every fault at once; which of them speaks of which shift; and the
text to paste for a shift that nobody has acknowledged yet.

    [[acknowledged]]
    machine = "pc-rtx-4090"
    cell = "llama-3.2-1b/lora/hf@cuda"
    metric = "tokens_per_s"               # or "outcome", for a cell that no longer runs
    night = "2026-11-30"
    reason = "transformers 5.25 checks its inputs; upstream issue 12345"
    suite = "nightly"                     # left out: in every suite
    ratio = 0.948                         # new level ÷ old; left out: whatever the size

A shift is found on a night that may move by one or two as later nights make it clearer, and so may its size: what is said of a
night holds `NIGHTS_APART` around it (a drift has no night: more), and of a size until the shift is half as large again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt, MaxLen, MinLen
from pydantic import AfterValidator, AllowInfNan, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from bench.history.series import is_night
from bench.reading.strict import BadFile, Problem, meant, printable, problems_of, read_toml

FILE = "acknowledged.toml"
"""Where it lies in a results folder."""
NIGHTS_APART, NIGHTS_APART_OF_A_DRIFT = 2, 14
"""By so many of the series' nights a shift may be found away from the acknowledged one."""
COVERED = 1.5
"""A shift so many times as large (of logs) as the acknowledged one is another shift."""

AckMetric = Literal["tokens_per_s", "framework_peak_bytes", "device_peak_bytes", "host_peak_bytes", "j_per_token", "outcome"]


def _night(value: Any) -> Any:
    """TOML has dates of its own: `night = 2026-11-30` says the same as with quotes."""
    return value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else value


def _checked_night(value: str) -> str:
    if not is_night(value):
        raise PydanticCustomError("night", 'give the night as "2026-11-30"')
    return value


def _written(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("reason", "empty; say why this shift is accepted, for who wonders next year")
    return value.strip()


Name = Annotated[str, MinLen(1), MaxLen(300)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    machine: Name
    cell: Name
    metric: AckMetric
    night: Annotated[str, BeforeValidator(_night), AfterValidator(_checked_night)]
    reason: Annotated[str, MaxLen(2000), AfterValidator(_written)]
    suite: Name | None = None
    ratio: Annotated[float, AllowInfNan(False), Gt(0)] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    acknowledged: list[_Row] = []


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One accepted shift; `suite` and `ratio` are None where the file leaves them open."""

    machine: str
    cell: str
    metric: str
    night: str
    reason: str
    suite: str | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """What an acknowledgement may speak of. `ratio` is None for a cell that no longer runs; `nights` are the series' own.

    A machine is known by its name, or where two share one by its name with its id, `box [0123ab]`. Of a machine or a cell that
    was renamed, `machines` and `cells` are all its names, for what was accepted under one of them is accepted.
    """

    machines: Sequence[str]
    machine_id: str
    suite: str
    cells: Sequence[str]
    metric: str
    night: str
    ratio: float | None
    nights: Sequence[str]
    gradual: bool = False


def read_acknowledged(path: Path) -> tuple[Acknowledgement, ...]:
    """What the file says, in its order. Raises BadFile with every fault of it."""
    content = read_toml(path)
    try:
        rows = _File.model_validate(content).acknowledged
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), _remedy)) from None
    found = tuple(Acknowledgement(**row.model_dump()) for row in rows)
    twice = [index for index, each in enumerate(found) if _meaning(each) in map(_meaning, found[:index])]
    if twice:
        raise BadFile(
            Problem(printable(str(path)), f"acknowledged[{index}]", "stands twice; keep one of them") for index in twice
        )
    return found


def _meaning(each: Acknowledgement) -> tuple[str | None, ...]:
    return (each.machine, each.suite, each.cell, each.metric, each.night)


def _remedy(details: ErrorDetails) -> str:
    match details["type"], details["loc"]:
        case "extra_forbidden", (name,):
            return f"the file holds [[acknowledged]] tables; {meant(str(name), ['acknowledged'])}"
        case "extra_forbidden", (*_, name):
            return meant(str(name), [*_Row.model_fields])
        case "missing", (*_, "reason"):
            return "say why this shift is accepted"
        case "missing", _:
            return "`wingspan regress` prints each shift as it is to be written here"
        case "list_type", _:
            return "write [[acknowledged]] with two brackets"
        case _:
            return ""


def matches(said: Sequence[Acknowledgement], shifts: Sequence[Shift]) -> dict[int, int]:
    """By the index of an acknowledgement that of the one shift that it speaks of, the nearest; who speaks of none is absent."""
    found = {}
    for index, each in enumerate(said):
        near = [(apart, at) for at, shift in enumerate(shifts) if (apart := _nights_apart(each, shift)) is not None]
        if near:
            found[index] = min(near)[1]
    return found


def _nights_apart(said: Acknowledgement, shift: Shift) -> int | None:
    """How many nights lie between the two; None where it does not speak of that shift."""
    same = said.metric == shift.metric and said.cell in shift.cells and _is_of(said, shift)
    if not same or said.suite not in (None, shift.suite) or not _covers(said.ratio, shift.ratio):
        return None
    first, last = sorted((said.night, shift.night))
    apart = sum(first < night <= last for night in shift.nights)
    outside = not shift.nights or not shift.nights[0] <= said.night <= shift.nights[-1]
    most = NIGHTS_APART_OF_A_DRIFT if shift.gradual else NIGHTS_APART
    return None if apart > most or outside else apart


def _is_of(said: Acknowledgement, shift: Shift) -> bool:
    names = {plain_name(each) for each in shift.machines}
    return said.machine in names | {f"{name} [{shift.machine_id[:6]}]" for name in names}


def plain_name(machine: str) -> str:
    """The name without the id that is shown beside it where two machines share it."""
    return machine.partition(" ")[0]


def _covers(said: float | None, found: float | None) -> bool:
    if said is None or found is None:
        return True
    accepted, there = math.log(said), math.log(found)
    return accepted * there > 0 and abs(there) <= COVERED * abs(accepted)


def snippet(machine: str, suite: str, cell: str, metric: str, night: str, ratio: float | None) -> str:
    """The table to paste into the file; the reason is for who pastes it to write, and the file is refused until then."""
    texts = {"machine": machine, "suite": suite, "cell": cell, "metric": metric, "night": night}
    lines = [f"{key} = {_quoted(value)}" for key, value in texts.items()]
    size = [] if ratio is None else [f"ratio = {ratio:.4g}"]
    return "\n".join(["[[acknowledged]]", *lines, *size, 'reason = ""'])


def _quoted(text: str) -> str:
    """A text as TOML writes it, with everything escaped that is not plain."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in text) + '"'
