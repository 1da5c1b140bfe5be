"""One sealed Parquet file, and the rows of several put together.

In: rows as an Arrow table, or a path. Out: a file's bytes, or the rows again, believed only where seal and page checksums hold.

Page checksums cover the pages of a Parquet file but not its footer, where a single flipped bit can rename a column or change a
type, unnoticed. So each file also bears the seal of `bench.files.seal` in its footer. Rows are always those of runs: they have a
column `run_id`, and the rows of one run keep their order.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.files import seal

Rows: TypeAlias = pa.Table
"""So that who only passes rows on need not know Arrow."""


class Unreadable(Exception):
    """A file was not read; `in_content` says whether its content is to blame (else it could not be opened)."""

    def __init__(self, reason: str, *, in_content: bool) -> None:
        super().__init__(reason)
        self.reason, self.in_content = reason, in_content


class OtherType(Unreadable):
    """A column holds another type than it should: of a sound file, the work of another program."""


def encode(rows: Rows) -> bytes:
    """Rows as a sealed Parquet file, kept lean: most hold one row, where reading costs per column chunk and not per byte.

    One row gains nothing from dictionaries, statistics or a second schema, and compressing it makes it larger. The same rows
    give the same bytes.
    """
    return _encode(rows, compression="zstd" if rows.num_rows > 1 else "none", use_dictionary=False, write_statistics=False)


def encode_many(rows: Rows) -> bytes:
    """The rows of many runs as a sealed Parquet file: small, and with what lets a reader pass over parts of it."""
    return _encode(rows, compression="zstd", use_dictionary=True, write_statistics=True)


def _encode(rows: Rows, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, write_page_checksum=True, store_schema=False, **options) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({"seal": seal.BLANK})
    return seal.seal(sink.getvalue().to_pybytes())


def load(path: Path, columns: Sequence[str] | None = None) -> Rows:
    """A file's rows, verified; of `columns` those that it has (None: all). Raises Unreadable."""
    content = sealed_bytes(path)
    try:
        return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read(columns, use_threads=False)
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        raise Unreadable(str(error).partition("\n")[0], in_content=True) from None


def load_whole(path: Path, kinds: dict[str, pa.DataType]) -> Rows:
    """All of a file's rows, verified; the types of its columns must be those of `kinds`, to which unknown ones are added.

    Raises Unreadable, and OtherType, which is one.
    """
    rows = load(path)
    for each in rows.schema:
        if kinds.setdefault(each.name, each.type) != each.type:
            raise OtherType(f"column {each.name} holds {each.type}, not {kinds[each.name]}", in_content=True)
    return rows


def sealed_bytes(path: Path) -> bytes:
    """A file's bytes. Raises Unreadable where its seal does not hold."""
    try:
        content = _content(path)
        seal.check_seal(content)
    except OSError as error:
        raise Unreadable(f"cannot be opened: {error.strerror}", in_content=False) from None
    except ValueError as error:
        raise Unreadable(str(error), in_content=True) from None
    return content


def _content(path: Path) -> bytes:
    """A regular file's bytes. Raises OSError for anything else, unopened: a pipe would keep its reader waiting for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()


def runs_in(rows: Rows) -> set[str]:
    """The runs that rows are of."""
    return set(rows["run_id"].unique().to_pylist())


def only(rows: Rows, run_ids: Collection[str]) -> Rows:
    """The rows of those runs."""
    return rows.filter(pc.is_in(rows["run_id"], pa.array(sorted(run_ids), pa.string())))


def together(tables: Sequence[Rows]) -> Rows:
    """All rows in the order of run ids; a column that some tables lack is null there.

    Raises ValueError where a column is of one type here and of another there.
    """
    try:
        rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    return rows.take(pc.sort_indices(rows["run_id"]))  # a stable sort, by its documentation


def differing(one: Rows, other: Rows) -> set[str]:
    """Those of the runs in both whose rows are not the same; a column that one side lacks is null there.

    Compared as they would be stored, since to Arrow a value that is no number differs from itself.
    """
    common = runs_in(one) & runs_in(other)
    if not common or _same(only(one, common), only(other, common)):
        return set()
    return {run_id for run_id in common if not _same(only(one, {run_id}), only(other, {run_id}))}


def _same(one: Rows, other: Rows) -> bool:
    if one.num_rows != other.num_rows:
        return False
    try:
        both = [together([rows, lacking.slice(0, 0)]) for rows, lacking in ((one, other), (other, one))]
    except ValueError:
        return False
    return encode(both[0]) == encode(both[1].select(both[0].column_names))
