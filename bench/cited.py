"""Others' measurements <-> results/published/: with the store, the only file that knows Arrow.

In: rows that others published, each with its source. Out: a sealed Parquet file per table of them, and the same read back. They
are evidence of a lower tier than a run (nobody here saw them), so they lie apart from the runs and are never mixed with them.

A file is a function of its rows: the same rows, in whatever order, give the same bytes under the same version of pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from bench.files import atomic, seal
from bench.reading.strict import BadFile, Problem

FOLDER = "published"
BUNDLED = Path(__file__).parents[1] / "results"
"""The results folder that comes with the project: it runs from a clone of its repository."""
Meter = Literal[
    "allocated", "reserved", "active", "mlx_peak", "mlx_marginal", "device_used", "process", "unstated", "vendor_claim"
]
CitedOutcome = Literal["ok", "oom", "crash"]
Checkpointed = Literal["yes", "no", "unsloth"]
METERS: tuple[Meter, ...] = get_args(Meter)
OUTCOMES: tuple[CitedOutcome, ...] = get_args(CitedOutcome)
CHECKPOINTED: tuple[Checkpointed, ...] = get_args(Checkpointed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """One measurement that somebody published; None where the source does not state it, never zero.

    `peak_mem_bytes` is in bytes, by `meter`: what torch's allocator had `allocated`, had `active` or had `reserved`, MLX's peak
    (`mlx_peak`) or what of it lies above the weights (`mlx_marginal`), what the driver saw in use on the device (`device_used`),
    the process's resident set (`process`). These are different quantities and never compared. `mem_how` keeps the source's own
    unit and words. `tokens_per_s`, `it_per_s` and `watts` are as printed; what a token counts differs by source. `params_b` is in
    10⁹ parameters, `memory_gb` the device's memory as the source calls it. `date` is the source's, year-month-day.
    """

    id: str
    source: str
    date: str | None = None
    hardware: str | None = None
    memory_gb: float | None = None
    framework: str | None = None
    framework_version: str | None = None
    model: str | None = None
    params_b: float | None = None
    method: str | None = None
    lora_rank: int | None = None
    lora_targets: str | None = None
    quant_bits: int | None = None
    optimizer: str | None = None
    batch: int | None = None
    grad_accum: int | None = None
    seq_len: int | None = None
    grad_checkpointing: Checkpointed | None = None
    dtype: str | None = None
    peak_mem_bytes: int | None = None
    meter: Meter | None = None
    mem_how: str | None = None
    tokens_per_s: float | None = None
    it_per_s: float | None = None
    watts: float | None = None
    outcome: CitedOutcome | None = None
    notes: str | None = None

    @property
    def family(self) -> str:
        """The source's family, the first word of the id: `fms-001` is of `fms`, `unsloth-iss-001` of `unsloth`."""
        return self.id.partition("-")[0]

    @property
    def unusable(self) -> str | None:
        """Why the row proves nothing, whatever it says; None where it does."""
        if self.meter == "vendor_claim":
            return "a vendor's claim, not a measurement"
        if self.outcome == "crash":
            return "ended for another reason than memory"
        if "do not use" in (self.notes or ""):
            return "its own source calls it a fault of the environment"
        return None


INTEGERS = frozenset({"lora_rank", "quant_bits", "batch", "grad_accum", "seq_len", "peak_mem_bytes"})
REALS = frozenset({"memory_gb", "params_b", "tokens_per_s", "it_per_s", "watts"})
MOST = {
    **dict.fromkeys(("lora_rank", "batch", "grad_accum"), 10**6),
    **{"quant_bits": 64, "seq_len": 10**9, "peak_mem_bytes": 10**14, "memory_gb": 1e5, "params_b": 1e5},
    **{"tokens_per_s": 1e9, "it_per_s": 1e6, "watts": 1e6},
}
"""More than anybody has measured, by column: what lies above is another unit, or nonsense."""
COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Cited))


def write(results: Path, table: str, rows: Sequence[Cited]) -> Path:
    """Put the rows into `results/published/<table>.parquet`, in the place of what is there. Raises OSError naming the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    content = pa.Table.from_pylist([asdict(row) for row in sorted(rows, key=lambda row: row.id)], schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(content)
        writer.add_key_value_metadata({"seal": seal.BLANK})
    path = results / FOLDER / f"{table}.parquet"
    with atomic.staged(path, seal.seal(sink.getvalue().to_pybytes())) as staged:
        atomic.republish(staged, path)
    return path


def read(results: Path) -> tuple[Cited, ...]:
    """Every row of every table, by id; nothing where there is no folder.

    Raises BadFile naming a table that is damaged or of other columns, and an id that stands twice; OSError for what cannot be
    read.
    """
    rows = [row for table in tables(results).values() for row in table]
    twice = [name for name, times in Counter(row.id for row in rows).items() if times > 1]
    if twice:
        raise BadFile([Problem(str(results / FOLDER), name, "stands twice; remove one of the tables") for name in twice])
    return tuple(sorted(rows, key=lambda row: row.id))


def known(results: Path) -> dict[str, Cited]:
    """By id, every row that may be named: those of `results`, and those that come with the project. Raises as `read` does."""
    return {row.id: row for folder in dict.fromkeys((BUNDLED, results)) for row in read(folder)}


def tables(results: Path) -> dict[str, tuple[Cited, ...]]:
    """The rows of each table by its name. Raises BadFile naming a table that is damaged or of other columns."""
    paths = sorted(path for path in (results / FOLDER).glob("*.parquet") if not path.name.startswith("."))
    return {path.stem: tuple(_table(path)) for path in paths}


def _table(path: Path) -> list[Cited]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not path.is_file():
            raise ValueError("is no regular file")
        content = path.read_bytes()
        seal.check_seal(content)
        table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        if table.schema.remove_metadata() != _schema():
            raise ValueError("has other columns or types than a table of published rows")
        return [_checked(row) for row in table.to_pylist()]
    except (ValueError, TypeError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise BadFile([Problem(str(path), "", f"{reason}; import it again with `calibrate --add`")]) from None


def _checked(row: dict[str, Any]) -> Cited:
    """The row of a table. Raises ValueError for values that no import would have let in."""
    for name, options in (("meter", METERS), ("outcome", OUTCOMES), ("grad_checkpointing", CHECKPOINTED)):
        if row[name] is not None and row[name] not in options:
            raise ValueError(f"{row['id']}: {name} is {row[name]!r}")
    for name in INTEGERS | REALS:
        if row[name] is not None and not 0 < row[name] <= MOST[name]:
            raise ValueError(f"{row['id']}: {name} is {row[name]!r}")
    if not row["id"] or not row["source"]:
        raise ValueError("a row without id or source")
    return Cited(**row)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field(name, _kind(name)) for name in COLUMNS])


def _kind(name: str) -> object:
    import pyarrow as pa

    return pa.int64() if name in INTEGERS else pa.float64() if name in REALS else pa.string()
