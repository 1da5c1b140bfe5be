"""The results of several machines in one folder.

In: results folders, as copied from elsewhere, and the folder that takes them in. Out: there, what it had and every run of the
others with its steps and readings, the descriptions of machines and the lists of packages; and word of what was copied, what was
known and what could not be read. The folders that are merged are only read.

A run is known by its id, whatever its machine is called. First everything is looked at: where one id stands for different rows,
or one column for different types, nothing is copied at all. Each file appears whole or not at all, a run's own row last; so a
merge that was killed is completed by the same command, and one that was not finds nothing to do.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import environments
from bench.files import atomic, gather, layout, parquet
from bench.files.layout import TABLES, TableName
from bench.files.parquet import Rows, Unreadable, runs_in
from bench.spec import BadInput
from bench.store import SCHEMAS, Damaged, sweep_leftovers
from bench.sweep.lock import hold_machine, lock_path

TOLD = 5
"""Contradictions that are named; of more the number is told."""
OWN = ("acknowledged.toml", "locks", "perf")
"""What a folder of results may hold beside them, and is each computer's own to decide: it is not copied, and that is told."""


@dataclass(slots=True)
class Source:
    """What became of one folder: runs copied, runs that were there already, machine descriptions copied and kept back, lists of
    packages copied, and what of `OWN` was left there.
    """

    folder: Path
    copied: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    machines: list[str] = field(default_factory=list)
    machines_kept: list[str] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    damaged: dict[Path, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.folder}: {len(self.copied):,} runs copied, {len(self.known):,} were there already"]
        lines += [f"{self.folder}: machines/{name} copied" for name in self.machines]
        lines += [f"{self.folder}: machines/{name} is another here, which stays" for name in self.machines_kept]
        if self.environments:
            lines.append(f"{self.folder}: lists of packages copied: {len(self.environments):,}")
        if self.left:
            lines.append(
                f"{self.folder}: not copied, since each computer has its own: {', '.join(self.left)}; copy by hand if meant"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "copied": len(self.copied),
            "known": len(self.known),
            "machines": self.machines,
            "machines_kept": self.machines_kept,
            "environments": self.environments,
            "left": self.left,
        }


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of each folder, in the order given."""

    sources: tuple[Source, ...]

    @property
    def damaged(self) -> list[Damaged]:
        """The files that could not be read and were left where they are."""
        return [Damaged(path, reason, None) for source in self.sources for path, reason in source.damaged.items()]

    def to_json(self) -> dict[str, Any]:
        return {"sources": [source.to_json() for source in self.sources], "damaged": [str(each) for each in self.damaged]}

    def describe(self) -> str:
        return "\n".join(map(str, self.sources))


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file to be copied into a machine's folder: as it is, or of its runs those in `runs` alone."""

    path: Path
    table: TableName
    folder: str
    runs: frozenset[str]
    whole: bool


def merge(results: Path, folders: Sequence[Path]) -> Merged:
    """Copy into `results` what the folders have and it lacks.

    Raises BadInput, with nothing copied, for a folder that holds no results or is `results` itself, for runs of one id with other
    rows, and for columns of one name with other types; MachineBusy where a sweep holds this machine; OSError naming the file
    where writing fails.
    """
    for folder in folders:
        _check_folder(results, folder)
    sources = tuple(Source(folder) for folder in folders)
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "merge", "since": datetime.now(UTC).isoformat()}):
        sweep_leftovers(results)
        for copy in _planned(results, sources):
            _carry_out(results, copy)
        for source in sources:
            _copy_machines(results, source)
            _copy_environments(results, source)
            source.left += [name for name in OWN if (source.folder / name).exists()]
    return Merged(sources)


def _check_folder(results: Path, folder: Path) -> None:
    if not any((folder / table).is_dir() for table in TABLES):
        raise BadInput(f"{folder}: no folder of results; it should hold runs/, as results/ does")
    if folder.resolve() == results.resolve():
        raise BadInput(f"{folder}: is the folder that takes the others in; name the others, or another --results")


def _planned(results: Path, sources: Sequence[Source]) -> list[_Copy]:
    """What is to be copied, in order: a run exists once its row in `runs` does, so that comes last.

    Raises BadInput where anything contradicts anything.
    """
    homes = {run_id: folder for folder, run_ids in gather.stored_runs(results).items() for run_id in run_ids}
    looks = [_Look(results, table, homes) for table in ("runs", "steps", "readings")]
    for look in looks:
        for source in sources:
            look.at(source)
        look.check_own_columns()
    wrong = [each for look in looks for each in look.wrong]
    if wrong:
        more = f"\nand {len(wrong) - TOLD:,} more" if len(wrong) > TOLD else ""
        raise BadInput("nothing was merged:\n" + "\n".join(wrong[:TOLD]) + more)
    return [copy for look in reversed(looks) for copy in look.copies]


class _Look:
    """One table of all folders. `homes` is the machine's folder in which each run lies, or will.

    `known` is a file that holds a run's rows, `wrong` what contradicts what.
    """

    def __init__(self, results: Path, table: TableName, homes: dict[str, str]) -> None:
        self.results, self.table, self.homes = results, table, homes
        self.copies: list[_Copy] = []
        self.wrong: list[str] = []
        self.known: dict[str, Path] = {}
        self._many: tuple[Path, Rows | None] = (results, None)
        self._kinds = {each.name: each.type for each in SCHEMAS[table]}
        for path in layout.files(results, table):
            self.known |= {run_id: path for run_id in gather.run_ids_of(path) if homes.get(run_id) == path.parent.name}

    def at(self, source: Source) -> None:
        """See what a folder has: the files of many runs one by one, the others some hundred at a time."""
        for folder in layout.machine_folders(source.folder, self.table):
            paths = layout.files_in(folder)
            own = [path for path in paths if not layout.is_compacted(path)]
            batches = [[path] for path in paths if layout.is_compacted(path)]
            batches += [own[start : start + gather.BATCH] for start in range(0, len(own), gather.BATCH)]
            for batch in batches:
                self._some(source, folder.name, batch)

    def check_own_columns(self) -> None:
        """Only a newer program's columns can be of other types here than there, and then the files here have to be looked at."""
        if len(self._kinds) > len(SCHEMAS[self.table]):
            for path in layout.files(self.results, self.table):
                self._load(path, {})

    def _some(self, source: Source, folder: str, paths: Sequence[Path]) -> None:
        loaded = {path: rows for path in paths if (rows := self._load(path, source.damaged)) is not None}
        self._compare(source, loaded)
        for path, rows in loaded.items():
            there = runs_in(rows)
            if self.table == "runs":
                for run_id in there:
                    self.homes.setdefault(run_id, folder)
            wanted = frozenset(each for each in there if each not in self.known and self.homes.get(each) == folder)
            if wanted:
                self.copies.append(_Copy(path, self.table, folder, wanted, wanted == there))
            self.known |= dict.fromkeys(wanted, path)
            if self.table == "runs":
                source.copied |= wanted
                source.known |= there - wanted - source.copied

    def _load(self, path: Path, damaged: dict[Path, str]) -> Rows | None:
        """A file's rows; None where it is damaged, or of other types than the files before it."""
        try:
            return parquet.load_whole(path, self._kinds)
        except parquet.OtherType as fault:
            self.wrong.append(f"{path}: {fault.reason}, as elsewhere")
        except Unreadable as fault:
            damaged[path] = fault.reason
        return None

    def _compare(self, source: Source, loaded: Mapping[Path, Rows]) -> None:
        """Find the runs that are known with other rows."""
        others: dict[Path, set[str]] = defaultdict(set)
        for rows in loaded.values():
            for run_id in runs_in(rows) & self.known.keys():
                others[self.known[run_id]].add(run_id)
        theirs = [parquet.only(rows, runs) for path, runs in others.items() if (rows := self._opened(path, source)) is not None]
        if theirs:
            wrong = parquet.differing(parquet.together(list(loaded.values())), parquet.together(theirs))
            where = {run_id: path for path, rows in loaded.items() for run_id in runs_in(rows) & wrong}
            for run_id, path in sorted(where.items()):
                self.wrong.append(f"run {run_id} has other {self.table} in {path} than in {self.known[run_id]}")

    def _opened(self, path: Path, source: Source) -> Rows | None:
        """A known file's rows; a file of many runs is kept open for what comes next."""
        if self._many[0] != path:
            rows = self._load(path, source.damaged)
            if not layout.is_compacted(path):
                return rows
            self._many = (path, rows)
        return self._many[1]


def _carry_out(results: Path, copy: _Copy) -> None:
    """Copy one file. What lies there of steps and readings belongs to no run, and gives way."""
    folder = results / copy.table / copy.folder
    if copy.whole:
        content, target = parquet.sealed_bytes(copy.path), folder / copy.path.name
    else:
        content = parquet.encode_many(parquet.together([parquet.only(parquet.load(copy.path), copy.runs)]))
        target = layout.compacted_path(folder, hashlib.sha256(content).hexdigest())
    with atomic.staged(target, content) as temporary:
        (atomic.publish if copy.table == "runs" else atomic.republish)(temporary, target)


def _copy_machines(results: Path, source: Source) -> None:
    """What machines are and can do; of a machine that is described otherwise here, the description here stays."""
    for path in sorted((source.folder / "machines").glob("[!.]*.json")):
        target = results / "machines" / path.name
        if not path.is_file():
            source.damaged[path] = "is no regular file"
            continue
        content = path.read_bytes()
        try:
            json.loads(content)
        except (ValueError, RecursionError) as error:
            source.damaged[path] = f"is no JSON: {error}"
            continue
        if not target.exists():
            with atomic.staged(target, content) as temporary:
                atomic.publish(temporary, target)
            source.machines.append(path.name)
        elif target.read_bytes() != content:
            source.machines_kept.append(path.name)


def _copy_environments(results: Path, source: Source) -> None:
    """The lists of packages. Each is known by the digest of its content, so a damaged one, there or here, is told and stays."""
    for path in sorted((source.folder / environments.FOLDER).glob("[!.]*.json")):
        target = environments.file_of(results, path.stem)
        try:
            environment = environments.load(source.folder, path.stem)
            source.environments += [] if target.exists() else [path.name]
            environments.keep(results, environment)
        except environments.NotKnown as fault:
            source.damaged[fault.path] = fault.reason
