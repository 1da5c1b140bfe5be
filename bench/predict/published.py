"""The importer: a table of published measurements, checked, into results/published/.

In: a CSV file with columns of `bench.cited.Cited`; empty or absent means unstated. Out: the rows, or every fault of the file
at once, each by line and column. Units are the file's contract: bytes in `peak_mem_bytes` with its `meter` beside it, tokens
and iterations a second, watts. Bytes that were converted from another unit are rounded to whole ones. What cannot be right is
refused rather than repaired: a meter nobody knows, a peak without a meter, half a rank, an id twice, a peak in gigabytes.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import cited
from bench.cited import CHECKPOINTED, COLUMNS, INTEGERS, METERS, MOST, OUTCOMES, REALS, Cited
from bench.reading.strict import BadFile, Problem, one_of, printable, shown

MAX_BYTES = 2**24
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*(-[A-Za-z0-9._]+)+")
CHOICES: Mapping[str, tuple[str, ...]] = {"meter": METERS, "outcome": OUTCOMES, "grad_checkpointing": CHECKPOINTED}
NEEDED = ("id", "source")
"""Any other column may be absent, as its values may: unstated."""
SMALLEST_PEAK_BYTES = 10**6
"""A peak below a megabyte is one given in another unit: no process that trains is so small."""


def import_csv(path: Path, results: Path) -> Path:
    """Check the file and store its rows as the table of its name, in the place of an earlier version of it; returns where.

    Raises BadFile with every fault: also for an id that stands in another table, and for a file whose name is that of a table
    with which it shares no row, which it would silently wipe out.
    """
    rows = read_csv(path)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "table"
    there = cited.tables(results)
    ids = {row.id for row in rows}
    problems = [
        Problem(printable(str(path)), _some(both), f"in {table}.parquet already; give the rows other ids, or leave them out")
        for table, others in there.items()
        if table != name and (both := sorted(ids & {other.id for other in others}))
    ]
    if name in there and not ids & {row.id for row in there[name]}:
        message = f"{name}.parquet is another table: it holds none of these ids; rename the file"
        problems.append(Problem(printable(str(path)), "", message))
    if problems:
        raise BadFile(problems)
    return cited.write(results, name, rows)


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def read_csv(path: Path) -> tuple[Cited, ...]:
    """The rows of the file, by id. Raises BadFile with every fault, OSError where it cannot be read."""
    reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
    rows: list[Cited] = []
    problems: list[Problem] = []
    try:
        problems += _header(path, reader.fieldnames) if reader.fieldnames else []
        for row in reader if not problems else ():
            values, faults = _values(row)
            place = f"line {reader.line_num}"
            problems += [Problem(printable(str(path)), f"{place}.{column}", message) for column, message in faults]
            if not faults:
                rows.append(Cited(**values))
    except csv.Error as error:
        problems.append(Problem(printable(str(path)), f"line {reader.line_num}", f"no CSV: {error}"))
    problems += _twice(path, rows)
    if not rows and not problems:
        problems.append(Problem(printable(str(path)), "", _nothing(reader.fieldnames)))
    if problems:
        raise BadFile(problems)
    return tuple(sorted(rows, key=lambda row: row.id))


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadFile([Problem(printable(str(path)), "", f"larger than {MAX_BYTES:,} bytes: no table of measurements")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile([Problem(printable(str(path)), "", f"no UTF-8 text at byte {error.start}")]) from None


def _nothing(names: Any) -> str:
    return "holds no rows" if names else "holds no header; its first line names the columns"


def _header(path: Path, names: Any) -> list[Problem]:
    lacking, unknown = [name for name in NEEDED if name not in names], [name for name in names if name not in COLUMNS]
    problems = [Problem(printable(str(path)), name, "column missing: every row has one") for name in lacking]
    problems += [Problem(printable(str(path)), shown(name), "unknown column") for name in unknown]
    if len(set(names)) < len(names):
        problems.append(Problem(printable(str(path)), "", "a column stands twice"))
    return problems


def _values(row: Mapping[Any, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The row's values, None where empty, and what is wrong with them."""
    values: dict[str, Any] = {}
    faults: list[tuple[str, str]] = []
    if None in row or None in row.values():
        return {}, [("", "more or fewer fields than the header")]
    for name in COLUMNS:
        try:
            values[name] = _value(name, row.get(name, "").strip())
        except ValueError as error:
            faults.append((name, str(error)))
    return values, faults or list(_contradictions(values))


def _value(name: str, text: str) -> Any:
    """One value, None where empty. Raises ValueError saying what was expected."""
    if not text:
        if name in ("id", "source"):
            raise ValueError("missing: every measurement has one")
        return None
    if name in INTEGERS | REALS:
        return _number(name, text)
    if name in CHOICES:
        if text.lower() not in CHOICES[name]:
            raise ValueError(f"{shown(text)} is none of them: {one_of(CHOICES[name])}")
        return text.lower()
    if name == "id" and not ID.fullmatch(text):
        raise ValueError(f"expected <source family>-<n>, got {shown(text)}")
    return text


def _number(name: str, text: str) -> float | int:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {shown(text)}") from None
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"expected a number above zero, got {shown(text)}; empty means unstated")
    if number > MOST[name]:
        raise ValueError(f"{shown(text)} is more than anybody has measured ({MOST[name]:g}): another unit?")
    if name not in INTEGERS:
        return number
    if (
        number != int(number) and name != "peak_mem_bytes"
    ):  # bytes are converted from the source's unit: 67.46 GiB make no whole number
        raise ValueError(f"expected a whole number, got {shown(text)}")
    return round(number)


def _contradictions(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    peak = values["peak_mem_bytes"]
    if peak is not None and values["meter"] is None:
        yield "meter", "missing: a peak is nothing without what measured it (`unstated` where the source does not say)"
    if peak is not None and peak < SMALLEST_PEAK_BYTES:
        yield "peak_mem_bytes", f"{peak:,} bytes: give bytes, not GB or MiB"


def _twice(path: Path, rows: list[Cited]) -> list[Problem]:
    again = sorted(name for name, times in Counter(row.id for row in rows).items() if times > 1)
    return [Problem(printable(str(path)), name, "id stands twice") for name in again]
