"""Traces kept on disk: what was predicted of a cell, by everything that the prediction depends on.

In: a cell. Out: its `Memory`, if it was traced before by the same code under the same versions. A file that cannot be read, or
is not what it should be, counts as absent and is written anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

from bench.backends.hf import PACKAGES
from bench.files.atomic import republish, staged
from bench.model import digest_of
from bench.predict.prediction import PARTS, How, Memory
from bench.spec import Cell

SOURCES = ("predict/trace*.py", "predict/allocator.py", "backends/hf*.py", "backends/storages.py", "backends/timeline.py")
"""Code whose change may change a trace."""


def folder() -> Path:
    """`~/.cache/wingspan/trace`, or under XDG_CACHE_HOME where that is set."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wingspan" / "trace"


def path_of(cell: Cell) -> Path:
    """Where the cell's trace is kept: named by the cell's key, the versions of the stack and the code."""
    versions = {name: version(name) for name in PACKAGES}
    return folder() / f"{digest_of([cell.key, versions, code_digest()])}.json"


def read(cell: Cell) -> Memory | None:
    """The cell's trace, or None."""
    try:
        return _memory(json.loads(path_of(cell).read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):  # absent, or damaged in any way
        return None


def write(cell: Cell, memory: Memory) -> None:
    """Keep it. A folder that cannot be written to costs the next one its time, no more."""
    path = path_of(cell)
    try:
        with staged(path, json.dumps(asdict(memory)).encode()) as temporary:
            republish(temporary, path)
    except OSError:
        return


@cache
def code_digest() -> str:
    """16 hex digits over the code that traces."""
    here = Path(__file__).resolve().parents[1]
    files = sorted(path for pattern in SOURCES for path in here.glob(pattern))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _memory(stored: dict[str, Any]) -> Memory:
    """Raises TypeError or ValueError where it is no whole memory."""
    memory = Memory(**{**stored, "notes": tuple(stored["notes"])})
    peak = (memory.peak_low_bytes, memory.peak_bytes, memory.peak_high_bytes)
    held = (memory.held_low_bytes, memory.held_bytes, memory.held_high_bytes)
    counts = [*memory.parts.values(), *peak, *held]
    whole = all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts)
    ordered = sorted(peak) == [*peak] and sorted(held) == [*held] and memory.peak_bytes > 0
    named = set(memory.parts) == set(PARTS) and memory.how in get_args(How)
    if not (whole and ordered and named) or sum(memory.parts.values()) != memory.peak_bytes:
        raise ValueError("not what was written")
    return memory
