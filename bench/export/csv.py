"""A table of the results as comma-separated values, for pandas and spreadsheets.

In: a results folder and the name of a table. Out: lines of text: first the names of the columns, then a row each, in the order of
machines and runs. What was not measured is empty; times are UTC, as ISO 8601 has them; a map or a list is JSON text.

A spreadsheet takes text that begins with = + - @ for a formula, and would run it: such text gets an apostrophe before it. Numbers
are left as they are.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from bench import store
from bench.files.layout import TableName
from bench.store import SCHEMAS, Damaged

FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""What a cell begins with that a spreadsheet may take for a formula, blanks that it skips included (OWASP, "CSV Injection")."""
BATCH_ROWS = 10_000


def write(results: Path, table: TableName, to: IO[str]) -> tuple[Damaged, ...]:
    """Write a whole table; returns the files that could not be read. Raises OSError naming a folder that cannot be listed."""
    found = store.read(results, table, quarantine=False)
    maps = {field.name for field in SCHEMAS[table] if str(field.type).startswith("map")}
    told: dict[str, Callable[[Any], Any]] = {name: _map if name in maps else _plain for name in found.rows.column_names}
    lines = csv.writer(to, lineterminator="\n")
    lines.writerow(told)
    for batch in found.rows.to_batches(max_chunksize=BATCH_ROWS):
        lines.writerows(_rows(batch.to_pylist(), told))
    return found.damaged


def _rows(rows: list[dict[str, Any]], told: dict[str, Callable[[Any], Any]]) -> Iterator[list[Any]]:
    for row in rows:
        yield [told[name](value) for name, value in row.items()]


def _map(pairs: list[tuple[str, str]] | None) -> str | None:
    return None if pairs is None else json.dumps(dict(pairs), ensure_ascii=False, sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return str(value).lower()
        case str():
            text = value.replace("\r\n", "\n").replace("\r", "\n")  # csv quotes a line's end, and no other break
            return f"'{text}" if text.startswith(FORMULA) else text
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value
