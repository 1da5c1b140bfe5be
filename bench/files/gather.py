"""All files of a table as rows, each run once.

In: a results folder, a table, the columns wanted. Out: the rows machine by machine, and the files that could not be read. Within
a machine the files of many runs come first, then the runs that have a file of their own, by run id; the files of single runs are
read in threads, some hundred at a time, since a small table takes far more room than its rows.

A run that lies in several files, as after a kill of `compact`, is taken from one of them: a file of many runs before its own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from bench.files import layout, parquet
from bench.files.layout import TableName
from bench.files.parquet import Unreadable

BATCH = 256
"""Files that become one table at a time."""

T = TypeVar("T")
Stored = Mapping[str, Collection[str]]
"""The run ids that count, by the name of the machine's folder."""


@dataclass(slots=True)
class Gathered:
    """Rows in the columns asked for, `run_id` and `machine`, and what was not read."""

    tables: list[pa.Table] = field(default_factory=list)
    faults: list[tuple[Path, Unreadable]] = field(default_factory=list)

    def __iadd__(self, other: Gathered) -> Gathered:
        self.tables += other.tables
        self.faults += other.faults
        return self


def gather(results: Path, table: TableName, schema: pa.Schema, stored: Stored | None = None) -> Gathered:
    """The rows of a table in the columns of `schema`, which has `run_id`; of the runs in `stored` alone, where it is given."""
    found = Gathered()
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for folder, group in groupby(layout.files(results, table), key=lambda path: path.parent):
            paths = list(group)
            wanted = None if stored is None else set(stored.get(folder.name, ()))
            found += _machine(paths, schema, wanted, pool)
    return found


def settled(results: Path, look: Callable[[], T]) -> T:
    """What `look` sees of one state of the folder: it looks again where files were put together meanwhile."""
    while True:
        before = layout.compacted_files(results)
        seen = look()
        if layout.compacted_files(results) == before:
            return seen


def stored_runs(results: Path) -> dict[str, set[str]]:
    """The stored runs by the name of their machine's folder. Of those with a file of their own nothing is opened."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in layout.files(results, "runs"):
        found[path.parent.name] |= run_ids_of(path)
    return found


def compacted_runs(folder: Path) -> frozenset[str]:
    """The runs in the files of many runs in a machine's folder."""
    return frozenset().union(*map(run_ids_of, layout.compacted_in(folder)))


def run_ids_of(path: Path) -> frozenset[str]:
    """The runs that a file is of: the one in its name, or those in it; none where it cannot be read."""
    if not layout.is_compacted(path):
        return frozenset({path.stem})
    try:
        facts = path.stat()
    except OSError:
        return frozenset()
    return _compacted_ids(path, facts.st_ino, facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=64)
def _compacted_ids(path: Path, *_facts: int) -> frozenset[str]:
    """Remembered as long as the file stays what it was: a sweep asks before each run that it stores."""
    try:
        return frozenset(parquet.runs_in(parquet.load(path, ["run_id"])))
    except Unreadable:
        return frozenset()


def _machine(paths: list[Path], schema: pa.Schema, wanted: set[str] | None, pool: Executor) -> Gathered:
    """The rows of one machine's files."""
    found, held = Gathered(), set[str]()
    for path in filter(layout.is_compacted, paths):
        many = _batch(schema, [path])
        for rows in many.tables:
            there = parquet.runs_in(rows)
            taken = there - held if wanted is None else (there - held) & wanted
            found.tables.append(rows if taken == there else parquet.only(rows, taken))
            held |= there
        found.faults += many.faults
    own = [path for path in paths if not layout.is_compacted(path) and path.stem not in held]
    own = own if wanted is None else [path for path in own if path.stem in wanted]
    batches = [own[start : start + BATCH] for start in range(0, len(own), BATCH)]
    for each in pool.map(partial(_batch, schema), batches):
        found += each
    return found


def _batch(schema: pa.Schema, paths: list[Path]) -> Gathered:
    """The rows of some files of one machine as one table; none where no file could be read."""
    tables, found = [], Gathered()
    for path in paths:
        try:
            tables.append(_conform(parquet.load(path, schema.names), schema))
        except Unreadable as fault:
            found.faults.append((path, fault))
    if tables:
        found.tables.append(with_machine(pa.concat_tables(tables).combine_chunks(), layout.machine_of(paths[0])))
    return found


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the columns of `schema`; null where they have none. Raises Unreadable for a column of another type."""
    if rows.schema.equals(schema):
        return rows
    for each in rows.schema:
        if each.type != schema.field(each.name).type:
            reason = f"column {each.name} holds {each.type}, not {schema.field(each.name).type}"
            raise Unreadable(reason, in_content=True)
    there, length = set(rows.column_names), rows.num_rows
    arrays = [rows[name] if name in there else pa.nulls(length, schema.field(name).type) for name in schema.names]
    return pa.table(arrays, schema=schema)


def with_machine(rows: pa.Table, machine: str) -> pa.Table:
    """Built from buffers: `pa.array`, `pa.scalar` and `empty_table` import pandas, half a second before a plan is shown."""
    name = machine.encode()
    ends = np.arange(rows.num_rows + 1, dtype=np.int32) * len(name)
    column = pa.StringArray.from_buffers(rows.num_rows, pa.py_buffer(ends), pa.py_buffer(name * rows.num_rows))
    return rows.append_column(pa.field("machine", pa.string()), column)
