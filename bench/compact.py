"""Few large result files in the place of many small ones, which take long to read.

In: a results folder that no sweep of this machine appends to. Out: in each machine's folder of each table one file of many runs,
or several where one would be larger than `LARGE_BYTES`; and word of what was left as it was. Rows and their types stay what they
are, also those of columns that only a newer version of this program knows.

Nothing is lost to a kill, and nothing counts twice: the new file is whole, on disk and read back before the first old one goes;
until the last has gone a run may lie in both, and readers count it once (`bench.files.gather`). The next call removes what is
left. The name of a new file is that of its content, so that going on after a kill finds it there.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.files import atomic, gather, layout, parquet
from bench.files.layout import TABLES, TableName
from bench.files.parquet import Rows, Unreadable, runs_in
from bench.spec import BadInput
from bench.store import SCHEMAS, Damaged, sweep_leftovers
from bench.sweep.lock import hold_machine, lock_path

LARGE_BYTES = 32 * 2**20
"""A file of this size stays as it is: to write it anew for each night's runs would cost more than one file more to read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What was done in one machine's folder of one table: files and their bytes, before and after."""

    table: TableName
    machine: str
    files_before: int
    bytes_before: int
    files_after: int
    bytes_after: int

    def __str__(self) -> str:
        before, after = (
            f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.1f} kB" for size in (self.bytes_before, self.bytes_after)
        )
        return f"{self.table} of {self.machine}: {self.files_before:,} files ({before}) -> {self.files_after:,} ({after})"


@dataclass(slots=True)
class Compacted:
    """What a call did: the folders that changed, and the files that it left where they are, each with the reason."""

    folders: list[Folder] = field(default_factory=list)
    left: list[Damaged] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {"folders": [asdict(each) for each in self.folders], "left": [str(each) for each in self.left]}

    def describe(self) -> str:
        """A line for each folder that changed."""
        return "\n".join(map(str, self.folders)) or "nothing to put together"


def compact(results: Path, *, large_bytes: int = LARGE_BYTES) -> Compacted:
    """Put the files of each machine and table together; a second call finds nothing to do.

    A damaged file stays where it is, and so does one that holds another run than its name says, or other rows of a run than a
    file of many runs has. Steps and readings of a run that is not stored stay too: an append of that run may replace them.

    Raises MachineBusy where a sweep holds this machine, BadInput where there is no such folder, OSError naming the file where
    writing fails; what was done until then is done.
    """
    if not results.is_dir():
        raise BadInput(f"{results}: no such folder of results")
    done, left = Compacted(), dict[Path, str]()
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "compact", "since": datetime.now(UTC).isoformat()}):
        sweep_leftovers(results)
        for table in TABLES:
            stored = None if table == "runs" else gather.stored_runs(results)
            for folder in layout.machine_folders(results, table):
                wanted = None if stored is None else stored.get(folder.name, set())
                changed = _Compaction(folder, table, wanted, large_bytes, left).run()
                done.folders += [changed] if changed else []
    done.left = [Damaged(path, reason, None) for path, reason in left.items()]
    return done


@dataclass(slots=True)
class _Compaction:
    """One machine's folder of one table. `wanted` are the runs whose own files may go (None: all), `left` the files that stay."""

    folder: Path
    table: TableName
    wanted: set[str] | None
    large_bytes: int
    left: dict[Path, str]

    def run(self) -> Folder | None:
        """Put together what can be, until nothing can; None where nothing was."""
        before = self._sizes()
        while sum(map(self._put_together, list(self._groups()))):
            pass
        after = self._sizes()
        before = {path: size for path, size in before.items() if path not in self.left}
        if after.keys() == before.keys():
            return None
        counts = (len(before), sum(before.values()), len(after), sum(after.values()))
        return Folder(self.table, layout.machine_of(next(iter(before))), *counts)

    def _sizes(self) -> dict[Path, int]:
        """The files in question and their bytes, those of many runs first."""
        paths = [path for path in layout.files_in(self.folder) if path not in self.left]
        many = [path for path in paths if layout.is_compacted(path)]
        own = [path for path in paths if not layout.is_compacted(path) and (self.wanted is None or path.stem in self.wanted)]
        return {path: path.stat().st_size for path in (*many, *own)}

    def _groups(self) -> Iterator[list[Path]]:
        """The small files, in groups that fill a large one."""
        group: list[Path] = []
        filled = 0
        for path, size in self._sizes().items():
            if size >= self.large_bytes:
                continue
            group.append(path)
            filled += size
            if filled >= self.large_bytes:
                yield group
                group, filled = [], 0
        yield group

    def _put_together(self, group: list[Path]) -> bool:
        """Write what the files of a group hold into one, and remove them; whether there are fewer files now.

        Runs that a large file has already are not written again. Of a run in several files all must have the same rows.
        """
        loaded = self._load(group)
        held = self._held_by_large(loaded)
        elsewhere = runs_in(held) if held else set()
        own = [path for path in loaded if not layout.is_compacted(path)]
        for batch in (*([path] for path in loaded if layout.is_compacted(path)), own):
            held = self._joined(held, {path: loaded[path] for path in batch})
        sources = [path for path in loaded if path not in self.left]
        fresh = runs_in(held) - elsewhere if held else set()
        if fresh and len(sources) < 2:
            return False
        kept = self._publish(parquet.only(held, fresh)) if fresh else None
        return self._remove([path for path in sources if path != kept])

    def _load(self, group: list[Path]) -> dict[Path, Rows]:
        """The rows of the files that can be put together, every column with one type."""
        kinds = {each.name: each.type for each in SCHEMAS[self.table]}
        loaded = {}
        for path in group:
            try:
                loaded[path] = parquet.load_whole(path, kinds)
            except Unreadable as fault:
                self.left[path] = fault.reason
                continue
            if not layout.is_compacted(path) and runs_in(loaded[path]) != {path.stem}:
                self.left[path] = "holds another run than its name says"
                del loaded[path]
        return loaded

    def _held_by_large(self, loaded: dict[Path, Rows]) -> Rows | None:
        """What large files hold of the same runs, as after a kill."""
        runs = set[str]().union(*map(runs_in, loaded.values()))
        large = [path for path, size in self._sizes().items() if layout.is_compacted(path) and size >= self.large_bytes]
        found = [parquet.only(parquet.load(path), runs) for path in large if not runs.isdisjoint(gather.run_ids_of(path))]
        return parquet.together(found) if found else None

    def _joined(self, held: Rows | None, loaded: dict[Path, Rows]) -> Rows | None:
        """What is held and what these files add to it; a file that contradicts it stays."""
        if held is None or not loaded:
            return parquet.together(list(loaded.values())) if loaded else held
        rows = parquet.together(list(loaded.values()))
        wrong = parquet.differing(rows, held)
        for path, each in loaded.items():
            if contradicted := sorted(runs_in(each) & wrong):
                self.left[path] = f"has other rows of run {contradicted[0]} than another file of this folder"
        return parquet.together([held, parquet.only(rows, runs_in(rows) - runs_in(held))])

    def _publish(self, rows: Rows) -> Path:
        """Rows as a file of many runs, on disk and read back. Raises OSError naming the file."""
        content = parquet.encode_many(rows)
        path = layout.compacted_path(self.folder, hashlib.sha256(content).hexdigest())
        if not path.exists():
            with atomic.staged(path, content) as temporary:
                if parquet.encode_many(parquet.load(temporary)) != content:
                    raise OSError(errno.EIO, "what was written does not come back the same", str(path))
                atomic.publish(temporary, path)
        if path.read_bytes() != content:
            raise OSError(errno.EEXIST, "another file bears this name", str(path))
        return path

    def _remove(self, paths: list[Path]) -> bool:
        for path in paths:
            path.unlink(missing_ok=True)
        if paths:
            atomic.sync_folder(self.folder)
        return bool(paths)
