"""What the tests of compacting and merging share: folders of runs, what is in them, and a kill at a moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from stored_rows import READINGS, STEPS

from bench import store
from bench.files import layout
from bench.record import Run

STAGE = Path(__file__).parent / "compact_stage.py"
MakeRun = Callable[..., Run]


def fill(results: Path, make_run: MakeRun, run_ids: Sequence[str], machine: str = "box", **values: Any) -> None:
    """Runs with steps; every other one with readings."""
    for number, run_id in enumerate(run_ids):
        store.append(results, make_run(run_id, machine=machine, **values), STEPS, READINGS if number % 2 else ())


def everything(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in an order that does not depend on files."""
    found = {}
    for table in layout.TABLES:
        read = store.read(results, table, quarantine=False)
        assert read.damaged == ()
        rows = read.rows.to_pylist(maps_as_pydicts="strict")
        found[table] = sorted(rows, key=lambda row: (row["machine"], row["run_id"], row.get("step", 0), row.get("t_s", 0)))
    return found


def names(results: Path, table: str = "runs", machine: str = "box") -> list[str]:
    """The names of the files of one machine, those of many runs without their digest."""
    paths = layout.files_in(results / table / f"machine={machine}")
    return [path.name.partition("@")[0] if layout.is_compacted(path) else path.stem for path in paths]


def bytes_of(results: Path) -> dict[Path, bytes]:
    """Every file but the lock, which stands beside the results in these tests."""
    paths = [path for path in results.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path.relative_to(results): path.read_bytes() for path in paths}


def kill_at(moments: Iterable[int], template: Path, out: Path, *what: object) -> list[int]:
    """Play the stage once for each moment, in `out/<moment>`; the moments at which there was something to kill."""
    command = [sys.executable, STAGE, *what, template, out, ",".join(map(str, moments))]
    told = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
    return list(json.loads(told))
