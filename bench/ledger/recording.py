"""The nights as asv's own result files.

In: the nights with their commits, and the folder of benchmarks (`bench/asv_bench`). Out: under the ledger's folder what
`asv publish` and `asv show` read: one file per machine and night with every sample, one per machine, one on the benchmarks.

This is `asv run` for all nights in one process, by asv's own classes, for two reasons. Run by itself, asv starts a process per
cell and figure. And a series' identity in asv holds the path of the interpreter and all that is known of the machine, so that
history would end with a new virtual environment or kernel: here it is the machine's name alone.

Every file follows from the stored runs, to the byte: those that differ are replaced, each at once, and those of nights
that are no more are removed.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine
from asv.results import Results
from asv.runner import BenchmarkResult
from asv_runner.benchmarks.mark import SkipNotImplemented
from asv_runner.discovery import disc_benchmarks, list_benchmarks

from bench.files import atomic
from bench.ledger import asked, place
from bench.ledger.nights import Night

STAGING = "staging"
ENVIRONMENT = "stored-runs"
"""What asv is told instead of an interpreter's path."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark as asv lists it, and as it is called."""

    listed: Mapping[str, Any]
    called: Any

    def of_night(self) -> BenchmarkResult:
        """Its result for every cell of the night that `asked` names, as `asv run` would have it."""
        cells = range(math.prod(len(values) for values in self.listed["params"]))
        return BenchmarkResult(*zip(*(self._of_cell(at) for at in cells), strict=True), errcode=0, stderr="", profile=None)

    def _of_cell(self, at: int) -> tuple[Any, list[float] | None, int | None]:
        """Result, samples and number of one cell: NaN where it was skipped, None where it failed, True where samples tell."""
        self.called.set_param_idx(at)
        try:
            if self.called.do_setup():
                return math.nan, None, None
            found = self.called.do_run()
        except SkipNotImplemented:
            return math.nan, None, None
        except asked.CellFailed:
            return None, None, None
        return True, found["samples"], found["number"]


def write(results: Path, folder: Path, nights: Sequence[Night], hashes: Sequence[str], benchmarks: Path) -> None:
    """Make `folder` hold these nights and no others; `benchmarks` is the folder that asv is told to take them from.

    One call at a time: everything is staged beside `folder`, under a fixed name, so that what a kill leaves is found again.
    """
    with (
        _staging(folder.with_name(STAGING)) as staging,
        asked.about(**{asked.RESULTS: str(results)}),
        _discovered(benchmarks) as found,
    ):
        for night, commit in zip(nights, hashes, strict=True):
            with asked.about(**{asked.MACHINE: night.machine, asked.NIGHT: night.label}):
                _of_night(night, commit, found).save(str(staging))
        for night in nights:
            _machine(night).save(str(staging))
        _saved_list(found, benchmarks, staging)
        _settle(staging, folder)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """An empty folder for a block."""
    place.discard(folder)
    place.make_folder(folder)
    try:
        yield folder
    finally:
        place.discard(folder)


@contextmanager
def _discovered(folder: Path) -> Iterator[list[Benchmark]]:
    """The benchmarks of a folder, as asv imports it: as a top-level package, of which nothing stays."""
    importers, text = list(sys.meta_path), io.StringIO()
    with redirect_stdout(io.StringIO()):  # asv prints what it skips
        try:
            list_benchmarks(str(folder), text)
            called = {each.name: each for each in disc_benchmarks(str(folder))}
            yield [Benchmark(each, called[each["name"]]) for each in json.loads(text.getvalue())]
        finally:
            sys.meta_path[:] = importers
            for name in [each for each in sys.modules if each.split(".")[0] == folder.name]:
                del sys.modules[name]


def _of_night(night: Night, commit: str, benchmarks: Sequence[Benchmark]) -> Results:
    moment_ms = int(night.moment.timestamp()) * 1000
    found = Results({"machine": night.machine}, {}, commit, moment_ms, ENVIRONMENT, ENVIRONMENT, {})
    for each in benchmarks:
        found.add_result(each.listed, each.of_night(), started_at=night.moment, record_samples=True)
    return found


def _machine(night: Night) -> Machine:
    """What the page shows of a machine: its last night's hardware. It never comes from, nor goes to, the user's own file."""
    machine = Machine()
    machine.__dict__.update({"machine": night.machine, "os": "", "arch": "", "num_cpu": "", **night.hardware})
    return machine


def _saved_list(found: Sequence[Benchmark], benchmarks: Path, staging: Path) -> None:
    configuration = Config()
    configuration.benchmark_dir, configuration.results_dir = str(benchmarks), str(staging)
    Benchmarks(configuration, [each.listed for each in found]).save()


def _settle(staging: Path, folder: Path) -> None:
    """Bring a folder to what was staged, file by file; results that others recorded there with asv itself stay."""
    wanted = {path.relative_to(staging): path.read_bytes() for path in sorted(staging.rglob("*.json"))}
    for name, content in wanted.items():
        place.make_folder((folder / name).parent)
        atomic.sweep((folder / name).parent)
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            with atomic.staged(folder / name, content) as temporary:
                atomic.republish(temporary, folder / name)
    for path in sorted(folder.glob(f"*/*-{ENVIRONMENT}.json")):
        if path.relative_to(folder) not in wanted:
            atomic.remove(path)
    for path in sorted(folder.glob("*/machine.json")):
        if path.relative_to(folder) not in wanted and len(list(path.parent.iterdir())) == 1:
            atomic.remove(path)
            path.parent.rmdir()
