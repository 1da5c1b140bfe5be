"""What a wall meter saw: the CSV file that a smart plug's logger writes, aligned by the time of day.

In: a file with a column `time` (ISO 8601 with its zone, or Unix seconds) and one of `power_w`, `energy_j`, `energy_wh`,
`energy_kwh`; the energies count up. Out: readings of scope `wall` on the monotonic clock. Strict: whatever else the file holds is
refused, with its line and column. Only a last line without its end is passed over, as the logger may be writing it.

The meter covers everything behind the plug, losses of the power supply included. It samples once a second or slower and resolves
coarsely; `bench.trust.energy` wants 60 s of it. Its clock is the logger's: where that differs by d seconds from this computer's,
the window is shifted by d, and the energy wrong by d times the difference of the power before the window and after it. Both
should follow NTP, as MLPerf's power rules demand.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from bench.meters.interface import UNITS, Quantity
from bench.reading.strict import BadFile, Problem, meant, printable, shown
from bench.record import Reading

METER, SCOPE = "wall-meter", "wall"
TIME = "time"
COLUMNS: Mapping[str, tuple[Quantity, float]] = {
    "power_w": ("power", 1.0),
    "energy_j": ("energy", 1.0),
    "energy_wh": ("energy", 3600.0),
    "energy_kwh": ("energy", 3.6e6),
}
"""Each column's quantity, and what its unit is in ours."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MOST = 1e12
"""Joules or watts: more than a plug delivers in a thousand years."""
EARLIEST_S, LATEST_S = datetime(2000, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp()
HEADER_HELP = f"the first line is {TIME} and one of {', '.join(COLUMNS)}, joined by a comma"


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: its number, its time in Unix seconds, its value in our unit."""

    line: int
    unix_s: float
    value: float


def read_wall_meter(path: Path, start: datetime, end: datetime, origin: tuple[float, datetime]) -> list[Reading]:
    """The meter's readings from `start` to `end`, with one more on either side so that both can be interpolated.

    `start` and `end` bear a zone. `origin` is one moment as (monotonic seconds, time of day); `t_s` is on its monotonic clock.
    Raises BadInput for an ill-formed file, and where nothing in it lies between `start` and `end`.
    """
    quantity, rows = _read(path)
    from_s, to_s = start.timestamp(), end.timestamp()
    inside = [number for number, row in enumerate(rows) if from_s <= row.unix_s <= to_s]
    if not inside:
        reach = f"its last is of {datetime.fromtimestamp(rows[-1].unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}" if rows else "it has none"
        raise _bad(
            path, "", f"no row between {start:%Y-%m-%dT%H:%M:%S%z} and the end of the run; {reach}: is the logger running?"
        )
    shift_s = origin[0] - origin[1].timestamp()
    return [
        Reading(t_s=row.unix_s + shift_s, meter=METER, scope=SCOPE, quantity=quantity, unit=UNITS[quantity], value=row.value)
        for row in rows[max(0, inside[0] - 1) : inside[-1] + 2]
    ]


def check_wall_meter(path: Path) -> None:
    """Read all that there is by now. Raises BadInput for a missing, unreadable or ill-formed file; no rows yet is no fault."""
    _read(path)


def _read(path: Path) -> tuple[Quantity, list[_Row]]:
    """The whole file. Raises BadFile at its first fault."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(0, "it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            return _parse(path, csv.reader(_whole_lines(path, file), strict=True))
    except OSError as error:
        raise _bad(path, "", f"cannot be read: {error.strerror or error}; start the meter's logger first") from None


def _whole_lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    """The lines that the logger has finished, as text."""
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise _bad(path, f"line {number}", "not UTF-8; save the file as UTF-8") from None


def _parse(path: Path, lines: Iterator[list[str]]) -> tuple[Quantity, list[_Row]]:
    try:
        names = [name.strip() for name in next(lines, [])]
        column = _value_column(path, names)
        quantity, unit = COLUMNS[column]
        rows: list[_Row] = []
        for number, cells in enumerate(lines, start=2):
            if cells:
                rows.append(_row(path, number, dict(_paired(path, number, names, cells)), column, unit))
                _refuse_disorder(path, rows)
    except csv.Error as error:
        raise _bad(path, "", f"not valid CSV: {printable(str(error))}") from None
    return quantity, rows


def _value_column(path: Path, names: list[str]) -> str:
    """The one column beside `time`. Raises BadFile for any other header."""
    if not any(names):
        raise _bad(path, "line 1", f"no header; {HEADER_HELP}")
    for name in names:
        if name != TIME and name not in COLUMNS:
            raise _bad(path, "line 1", f"unknown column {shown(name)}; {meant(name, [TIME, *COLUMNS])}; {HEADER_HELP}")
    values = [name for name in names if name != TIME]
    if names.count(TIME) != 1 or len(values) != 1:
        raise _bad(path, "line 1", f"columns {', '.join(names)}; {HEADER_HELP}")
    return values[0]


def _paired(path: Path, number: int, names: list[str], cells: list[str]) -> Iterator[tuple[str, str]]:
    if len(cells) != len(names):
        raise _bad(path, f"line {number}", f"{len(cells)} values for {len(names)} columns; decimals take a point, not a comma")
    return zip(names, (cell.strip() for cell in cells), strict=True)


def _row(path: Path, number: int, cells: Mapping[str, str], column: str, unit: float) -> _Row:
    unix_s = _in_column(path, number, TIME, cells[TIME], _unix_s)
    return _Row(number, unix_s, unit * _in_column(path, number, column, cells[column], _amount))


def _in_column(path: Path, number: int, column: str, text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except ValueError as error:
        raise _bad(path, f"line {number}, column {column}", f"{shown(text)} is {error}") from None


def _unix_s(text: str) -> float:
    """Seconds since 1970 of a time with its zone, or of Unix seconds. Raises ValueError with what is wrong."""
    seconds = float(text) if NUMBER.fullmatch(text) else _iso_s(text)
    if not EARLIEST_S <= seconds < LATEST_S:
        raise ValueError("no time from 2000 to 2100; give Unix time in seconds, or ISO 8601")
    return seconds


def _iso_s(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("no time; write it like 2026-11-30T02:15:00Z, or as Unix seconds") from None
    if moment.tzinfo is None:
        raise ValueError("a time without its zone; add Z for UTC, or an offset like +01:00")
    return moment.timestamp()


def _amount(text: str) -> float:
    """A number from zero up, written plainly. Raises ValueError with what is wrong."""
    if not NUMBER.fullmatch(text) or not 0 <= float(text) <= MOST:
        raise ValueError("no number from 0 to a million million; have the logger leave out rows that it has no value for")
    return float(text)


def _refuse_disorder(path: Path, rows: list[_Row]) -> None:
    if len(rows) > 1 and rows[-1].unix_s <= rows[-2].unix_s:
        wrong = "the same time as" if rows[-1].unix_s == rows[-2].unix_s else "an earlier time than"
        raise _bad(path, f"line {rows[-1].line}, column {TIME}", f"{wrong} the line before; sort the rows, one for each time")


def _bad(path: Path, place: str, message: str) -> BadFile:
    return BadFile([Problem(printable(str(path)), place, message)])
