"""Runs that have begun and not yet ended, so that none of them can vanish.

In: a run's skeleton, before its worker starts. Out: after a crash of the harness or of the machine, the skeletons of the runs
that were under way, for the next sweep to enter as `interrupted` or `machine_lost`. A marker is a small JSON file in
`results/.inflight/`, removed once the run's row is stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.files.atomic import adopted, publish, staged, sweep

FOLDER = ".inflight"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Marker:
    """One run under way: which, since when, of which machine, in which life of its operating system."""

    run_id: str
    started_at: str
    machine_id: str
    suite: str
    boot: str
    cell: dict[str, Any]

    def path(self, results: Path) -> Path:
        return results / FOLDER / f"{self.run_id}.json"


def boot_id() -> str:
    """What tells one boot of this system from the next; without /proc, the time of boot in whole minutes."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        import psutil

        return str(round(psutil.boot_time() / 60))


@contextmanager
def under_way(results: Path, marker: Marker) -> Iterator[None]:
    """Mark the run for the block. The marker is on disk when the block begins, and goes with its end, but stays after an error.

    It stays locked meanwhile, so that no other sweep takes a run that is being measured for one that was left behind.
    """
    path = marker.path(results)
    with staged(path, json.dumps(asdict(marker)).encode()) as temporary:
        publish(temporary, path)
        temporary.unlink()
        yield
        forget(results, marker.run_id)


def forget(results: Path, run_id: str) -> None:
    """The run's row is stored: remove its marker."""
    (results / FOLDER / f"{run_id}.json").unlink(missing_ok=True)


def left_behind(results: Path, machine_id: str) -> Iterator[Marker]:
    """Markers of this machine whose harness is gone, oldest first, each held against other sweeps while it is dealt with.

    An unreadable marker names no run and is removed, and so are the temporary files of killed writers.
    """
    sweep(results / FOLDER)
    for path in sorted((results / FOLDER).glob("*.json")):
        with adopted(path) as ours:
            marker = _read(path) if ours else None
            if marker is not None and marker.machine_id == machine_id:
                yield marker


def _read(path: Path) -> Marker | None:
    try:
        marker = Marker(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        path.unlink(missing_ok=True)
        return None
    return marker
