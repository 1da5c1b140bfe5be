"""Runs <-> results/: the only file that knows Arrow.

In: runs with their steps and readings. Out: one immutable Parquet file per run and table (`bench.files.layout` says where),
and the same read back as Arrow tables, with word of what could not be read.

Page checksums cover the pages of a Parquet file but not its footer, where a single flipped bit can rename a column or change a
type, unnoticed. So each file also bears the seal of `bench.files.seal` in its footer, and is believed only where that holds.

Older files lack columns: these read as null. Newer files have columns, or a schema version, unknown here: what is known is
read, and unknown columns are left out, since nobody here could say what they mean; they stay in the file.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from numbers import Integral
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.files import atomic, layout, parquet
from bench.files.gather import compacted_runs, gather, settled, stored_runs, with_machine
from bench.files.layout import TABLES, TableName
from bench.record import WORKLOAD_COLUMNS, Reading, Run, Step

_TEXT, _INT, _REAL, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME, _LIST, _MAP = pa.timestamp("us", tz="UTC"), pa.list_(_TEXT), pa.map_(_TEXT, _TEXT)


def _columns(kind: pa.DataType, names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names.split()]


SCHEMAS: Mapping[TableName, pa.Schema] = {
    "runs": pa.schema(
        [
            *_columns(_TEXT, "run_id"),
            *_columns(_INT, "schema_version"),
            *_columns(_TIME, "started_at"),
            *_columns(_TEXT, "machine_id suite question cell cell_key workload_digest"),
            *_columns(_MAP, "implementation"),
            *_columns(_TEXT, "model architecture"),
            *_columns(_INT, "parameters"),
            *_columns(_TEXT, "method backend device"),
            *_columns(_INT, "batch_size sequence_length gradient_accumulation"),
            *_columns(_BOOL, "gradient_checkpointing"),
            *_columns(_TEXT, "optimizer"),
            *_columns(_REAL, "learning_rate"),
            *_columns(_TEXT, "weights_dtype adapter_dtype optimizer_dtype master_dtype"),
            *_columns(_INT, "quantization_bits rank"),
            *_columns(_REAL, "alpha dropout"),
            *_columns(_TEXT, "modules"),
            *_columns(_INT, "adapter_layers prompt_tokens generated_tokens seed"),
            *_columns(_TEXT, "tier outcome reason"),
            *_columns(_REAL, "tokens_per_s prefill_tokens_per_s loss_tokens_per_s step_s_median"),
            *_columns(_INT, "framework_peak_bytes reserved_peak_bytes cache_peak_bytes device_peak_bytes host_peak_bytes"),
            *_columns(_REAL, "host_cpu_share"),
            *_columns(_INT, "swap_growth_bytes capacity_bytes"),
            *_columns(_REAL, "power_w"),
            *_columns(_TEXT, "power_scope"),
            *_columns(_REAL, "energy_j idle_power_w j_per_token import_s load_s first_step_s"),
            *_columns(_INT, "warmup_steps steps trainable_parameters"),
            *_columns(_REAL, "loss_first loss_last"),
            *_columns(_TEXT, "tokens_digest"),
            *_columns(_INT, "predicted_peak_bytes"),
            *_columns(_REAL, "predicted_tokens_per_s parent_cpu_share"),
            *_columns(_LIST, "flags"),
            *_columns(_MAP, "versions"),
            *_columns(_TEXT, "environment_digest source_revision chip accelerator"),
            *_columns(_INT, "memory_bytes"),
            *_columns(_TEXT, "os_version"),
            *_columns(_INT, "host_base_bytes"),
            *_columns(_TEXT, "device_peak_scope"),
            *_columns(_REAL, "build_s compile_s"),
            *_columns(_TEXT, "warmup_rule"),
            *_columns(_INT, "outlier_steps"),
            *_columns(_REAL, "peak_power_w energy_counter_j energy_integral_j energy_above_idle_j j_per_token_above_idle"),
            *_columns(_REAL, "energy_window_s wall_power_w wall_energy_j others_cpu_share"),
            *_columns(_MAP, "device_settings not_measured"),
            *_columns(_TEXT, "weights revision"),
            *_columns(_REAL, "time_to_first_token_s"),
            *_columns(_TEXT, "memory_limit failed_at"),
            *_columns(_INT, "predicted_held_bytes"),
            *_columns(_TEXT, "night epoch_digest"),
        ]
    ),
    "steps": pa.schema(
        [
            *_columns(_TEXT, "run_id"),
            *_columns(_INT, "step"),
            *_columns(_TEXT, "phase"),
            *_columns(_REAL, "start_s duration_s"),
            *_columns(_INT, "tokens loss_tokens"),
            *_columns(_REAL, "loss"),
            *_columns(_INT, "framework_peak_bytes"),
            *_columns(_TEXT, "tokens_digest"),
            *_columns(_INT, "host_peak_bytes"),
            *_columns(_REAL, "cpu_s"),
            *_columns(_BOOL, "outlier"),
        ]
    ),
    "readings": pa.schema(
        [
            *_columns(_TEXT, "run_id"),
            *_columns(_REAL, "t_s"),
            *_columns(_TEXT, "meter scope quantity unit"),
            *_columns(_REAL, "value"),
        ]
    ),
}
"""The columns of each table's files. `read` adds `machine`, which lives in the path."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that could not be read, why, and where it lies now (None: where it was)."""

    path: Path
    reason: str
    moved_to: Path | None

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}; {f'moved to {self.moved_to}' if self.moved_to else 'left where it is'}"


@dataclass(frozen=True, slots=True)
class Table:
    """What could be read, in the order of paths (machine, then run id), and what could not."""

    rows: pa.Table
    damaged: tuple[Damaged, ...]


def append(results: Path, run: Run, steps: Sequence[Step] = (), readings: Sequence[Reading] = ()) -> None:
    """Store one run for good: on return it is on disk, and a kill before that leaves no partial file.

    Every value is checked, and every byte on disk, before the first name becomes visible. The file in `runs` comes last and
    makes the run exist: steps or readings without it, left by a kill or a failure in between, count for nothing. A later
    append of that run puts its own in their place, or removes them where it has none. A run id belongs to one process at a time.

    Raises FileExistsError where the run is already stored, which stays as it was; ValueError or TypeError for a value, machine
    name or run id that cannot be stored; OSError naming the file where writing fails, and the run is then not stored.
    """
    rows: dict[TableName, list[dict[str, Any]]] = {
        "steps": [{"run_id": run.run_id, **_fields(step)} for step in steps],
        "readings": [{"run_id": run.run_id, **_fields(reading)} for reading in readings],
        "runs": [_run_row(run)],
    }
    paths = {table: layout.run_path(results, table, run.machine, run.run_id) for table in TABLES}
    contents = {table: _encode(SCHEMAS[table], rows[table]) for table in rows if rows[table]}
    if paths["runs"].exists() or run.run_id in compacted_runs(paths["runs"].parent):
        raise FileExistsError(errno.EEXIST, "this run is already stored", str(paths["runs"]))
    with ExitStack() as stack:
        staged = {table: stack.enter_context(atomic.staged(paths[table], content)) for table, content in contents.items()}
        for table in ("steps", "readings"):
            if table in staged:
                atomic.republish(staged[table], paths[table])
            else:
                atomic.remove(paths[table])
        atomic.publish(staged["runs"], paths["runs"])


def read(
    results: Path,
    table: TableName,
    columns: Sequence[str] | None = None,
    *,
    orphans: bool = False,
    quarantine: bool = True,
) -> Table:
    """Every row of a table, verified; `columns` picks and orders (None: all of `SCHEMAS[table]`, then `machine`).

    A file whose seal, page checksums or column types do not hold is moved to `results/quarantine/` and named in `damaged`;
    one that cannot be opened, or cannot be moved, stays and is named all the same. `quarantine=False` moves nothing. Steps
    and readings of a run that has no file in `runs` are left out unless `orphans`. A missing folder is an empty table.
    Raises ValueError for a column that the table does not have, OSError naming a folder that cannot be listed.
    """
    names = [*SCHEMAS[table].names, "machine"] if columns is None else list(columns)
    schema = _schema_of(table, names)
    owners = None if orphans or table == "runs" else stored_runs
    found = settled(results, lambda: gather(results, table, schema, owners and owners(results)))
    damaged = [
        Damaged(path, fault.reason, layout.set_aside(results, path) if quarantine and fault.in_content else None)
        for path, fault in sorted(found.faults, key=itemgetter(0))
    ]
    empty = with_machine(pa.table([pa.nulls(0, field.type) for field in schema], schema=schema), "")
    return Table(pa.concat_tables([empty, *found.tables]).combine_chunks().select(names), tuple(damaged))


def run_ids(results: Path) -> frozenset[str]:
    """The runs that are stored: by the names of their files, of which nothing is opened but those of many runs.

    Raises OSError for a folder kept from us.
    """
    return frozenset().union(*settled(results, lambda: stored_runs(results)).values())


def has_run(results: Path, run_id: str) -> bool:
    """Whether that run is stored, under whatever machine's name: one machine may have borne several.

    Raises ValueError for an id that no stored run can have, OSError naming a folder that cannot be listed.
    """
    return layout.checked_run_id(run_id) in run_ids(results)


def by_time(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows by `started_at`, which is left out of them; those without one last.

    By its numbers: turning a time into Python's imports pandas, and so does Arrow's own sort.
    """
    chunks = rows["started_at"].chunks
    started = [value for chunk in chunks for value in chunk.view(_INT).to_pylist()]
    order = sorted(range(rows.num_rows), key=lambda at: (started[at] is None, started[at] or 0))
    values = rows.drop_columns("started_at").to_pylist()
    return [values[at] for at in order]


def sweep_leftovers(results: Path) -> list[Path]:
    """Remove the temporary files that killed writers left; returns those removed. Safe at any time, beside any writer.

    Raises OSError naming a table's folder that cannot be listed.
    """
    return [path for folder in layout.folders(results) for path in atomic.sweep(folder)]


def _fields(value: Run | Step | Reading) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _run_row(run: Run) -> dict[str, Any]:
    """A run as columns: the workload's fields become columns of their own; the machine is left to the path."""
    if run.workload.keys() != set(WORKLOAD_COLUMNS):
        raise ValueError(f"not the workload's columns: {', '.join(sorted(run.workload.keys() ^ set(WORKLOAD_COLUMNS)))}")
    if run.started_at.tzinfo is None:
        raise ValueError("started_at has no time zone")
    row = {**_fields(run), **run.workload}
    row |= {name: sorted(row[name].items()) for name in ("implementation", "versions", "device_settings", "not_measured")}
    return {name: row[name] for name in SCHEMAS["runs"].names}


def _encode(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> bytes:
    arrays = [_array(field, [row[field.name] for row in rows]) for field in schema]
    return parquet.encode(pa.table(arrays, schema=schema))


def _array(field: pa.Field, values: list[Any]) -> pa.Array:
    if field.type == _INT and not all(value is None or isinstance(value, Integral) for value in values):
        raise TypeError(f"{field.name} takes integers")  # pyarrow would cut off the fraction of a float without a word
    return pa.array(values, field.type)


def _schema_of(table: TableName, names: Sequence[str]) -> pa.Schema:
    """The columns to take from the files, among them whose rows they are."""
    unknown = [name for name in names if name not in SCHEMAS[table].names and name != "machine"]
    if unknown:
        raise ValueError(f"{table} has no column {', '.join(unknown)}")
    stored = [name for name in dict.fromkeys(["run_id", *names]) if name != "machine"]
    return pa.schema([SCHEMAS[table].field(name) for name in stored])
