"""Nights of stored runs, for what is drawn of them: a slower cell, an upgrade, another machine."""

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench import environments, store
from bench.environments import Environment
from bench.record import Run

MakeRun = Callable[..., Run]
CELLS = ("tiny/lora/hf@cpu", "tiny/qlora/hf@cpu")
OLD = Environment("3.11.7", ("alpha==1.0", "beta==2.0"))
NEW = Environment("3.11.7", ("alpha==1.1", "beta==2.0"))
KEYS = {"tiny/lora/hf@cpu": "1" * 16, "tiny/qlora/hf@cpu": "2" * 16}


def label(number: int) -> str:
    """The night that many days after the first."""
    return (datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number)).date().isoformat()


def stored_run(make_run: MakeRun, night: str, cell: str, repeat: int = 0, **values: Any) -> Run:
    """A run of a night, a tenth of a percent slower with each repeat."""
    own = {
        "started_at": datetime.fromisoformat(night).replace(hour=2, minute=repeat, tzinfo=UTC),
        "night": night,
        "cell": cell,
        "cell_key": KEYS.get(cell, "3" * 16),
        "tokens_per_s": 1000.0 / (1 + repeat / 1000),
        "host_peak_bytes": 2**31,
        "import_s": 1.0,
        "load_s": 0.5,
        "first_step_s": 0.25,
        "os_version": "Test OS 1",
        "versions": {"python": "3.11.7", "os": "Test OS 1", "alpha": "1.0"},
        "environment_digest": OLD.digest,
        "chip": "Test Chip",
        "memory_bytes": 2**34,
    }
    name = f"{values.get('machine', 'box')}-{night}-{cell}-{repeat}"
    return make_run(re.sub(r"[^a-z0-9-]+", "-", name), **(own | values))


def fill(
    results: Path,
    make_run: MakeRun,
    numbers: Iterable[int],
    cells: Sequence[str] = CELLS,
    repeats: int = 3,
    slow: Callable[[int, str], float] = lambda number, cell: 1.0,
    **values: Any,
) -> None:
    """Store the nights of these numbers; `slow` says by how much a cell's rate falls."""
    environments.keep(results, OLD)
    environments.keep(results, NEW)
    for number in numbers:
        for cell in cells:
            for repeat in range(repeats):
                run = stored_run(make_run, label(number), cell, repeat, **values)
                rate = (run.tokens_per_s or 0) / slow(number, cell)
                store.append(results, stored_run(make_run, label(number), cell, repeat, **{"tokens_per_s": rate, **values}))


def contents(folder: Path) -> dict[str, bytes]:
    """What asv reads: every file of it, and the commits of the ledger in their order."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted((folder / "recorded").rglob("*.json"))}
    return files | {"commits": git(folder / "ledger", "log", "--format=raw", "nights").encode()}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={folder / '.git'}", *arguments], capture_output=True, text=True, check=True)
    return done.stdout
