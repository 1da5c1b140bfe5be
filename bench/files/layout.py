"""Where things lie in a results folder.

In: a results folder, and the names of tables, machines and runs. Out: paths, and names from paths. The layout is
`{runs,steps,readings}/machine=<name>/<run_id>.parquet`, which DuckDB, pandas and pyarrow know as hive partitioning;
`quarantine/` takes the files that cannot be believed. `compact` puts many runs of a machine into one file of such a folder,
`compacted@<digest>.parquet`: no run id holds an @, and readers that pass over names beginning with _ or . take it in.
"""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote, unquote

TableName = Literal["runs", "steps", "readings"]
TABLES: tuple[TableName, ...] = get_args(TableName)

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMPACTED = re.compile(r"compacted@[0-9a-f]{16}\.parquet")
_NO_TEXT = re.compile(
    r"[\W\d_]*(\(bc\))?"  # 4090, -5, 1_000, 2024-01-01, 2024-01-01 (BC)
    r"|\W*0(x[\da-f_]*|b[01_]*)\W*"  # 0x10, 0b11
    r"|\W*(epoch|inf|infinity)\W*"  # to DuckDB these are dates
    r"|null|__hive_default_partition__"
)
"""Lower-case names that DuckDB (1.0 to 2.0) or pyarrow take for a number, a date or null where a partition bears them."""


def run_path(results: Path, table: TableName, machine: str, run_id: str) -> Path:
    """Where a run's rows of that table lie. Raises ValueError for a machine or run that no path can name."""
    return results / table / f"machine={partition_name(machine)}" / f"{checked_run_id(run_id)}.parquet"


def compacted_path(folder: Path, digest: str) -> Path:
    """Where a file of many runs lies in a machine's folder; `digest` is of its content, in hexadecimal."""
    return folder / f"compacted@{digest[:16]}.parquet"


def is_compacted(path: Path) -> bool:
    """Whether a file holds many runs, rather than the one that it is named for."""
    return _COMPACTED.fullmatch(path.name) is not None


def machine_of(path: Path) -> str:
    """The machine that a file's folder names: the inverse of `run_path`."""
    return unquote(path.parent.name.partition("=")[2])


def folders(results: Path) -> list[Path]:
    """Every machine's folder of every table, sorted within the table. Raises OSError naming what cannot be listed."""
    return [folder for table in TABLES for folder in machine_folders(results, table)]


def files(results: Path, table: TableName) -> list[Path]:
    """A table's files, sorted. Hidden ones (temporary files, what macOS strews about) are none of ours.

    Raises OSError naming the folder that cannot be listed: what cannot be seen must not pass for nothing there.
    """
    return [path for folder in machine_folders(results, table) for path in files_in(folder)]


def files_in(folder: Path) -> list[Path]:
    """The files in one machine's folder, as `files` has them."""
    return [folder / name for name in _names(folder) if name.endswith(".parquet") and name[0] != "."]


def compacted_files(results: Path) -> list[Path]:
    """The files of many runs, of every table."""
    return [path for folder in folders(results) for path in compacted_in(folder)]


def compacted_in(folder: Path) -> list[Path]:
    """The files of many runs in one machine's folder."""
    return [folder / name for name in _names(folder) if _COMPACTED.fullmatch(name)]


def set_aside(results: Path, path: Path) -> Path | None:
    """Move a file into quarantine, under a name that tells table, machine and run; None where that cannot be done."""
    folder = results / "quarantine"
    name = ".".join(path.parts[-3:])
    try:
        folder.mkdir(exist_ok=True)
        targets = (folder / (name if copy == 1 else f"{name}.{copy}") for copy in count(1))
        return path.rename(next(target for target in targets if not target.exists()))
    except OSError:
        return None


def checked_run_id(run_id: str) -> str:
    """The run id, if a file can bear it; raises ValueError with the rule otherwise."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"run id {run_id!r} cannot be a file's name: use letters, digits, '.', '_' and '-'")
    return run_id


def partition_name(machine: str) -> str:
    """A machine's name as a partition's, percent-encoded; readers decode it again.

    Raises ValueError for a name that a reader would take for a number, a date or nothing.
    """
    if not machine.isprintable() or _NO_TEXT.fullmatch(machine.casefold()):
        raise ValueError(f"machine name {machine!r}: it must be printable, hold a letter, and not read as a number, date or null")
    return quote(machine, safe="")


def machine_folders(results: Path, table: TableName) -> list[Path]:
    """The machines' folders of a table, sorted. Raises OSError naming what cannot be listed."""
    return [results / table / name for name in _names(results / table) if name.startswith("machine=")]


def _names(folder: Path) -> list[str]:
    """What lies in a folder, sorted; nothing where there is no folder.

    `Path.glob` would take a folder that may not be read, or that is a file, for an empty one. So would a link to a disk that is
    not there at the moment: FileNotFoundError is passed on then.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        if folder.is_symlink():
            raise
        return []
