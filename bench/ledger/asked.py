"""Which night asv's benchmarks are asked about: three environment variables, since asv calls them with nothing else.

In: `WINGSPAN_RESULTS`, `WINGSPAN_MACHINE` and `WINGSPAN_NIGHT`. Out: the cells of that results folder, and what that night saw of
one. `asv run` sets nothing itself, so whoever calls it sets them; recording all nights in one process sets them in turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from bench.ledger import stored
from bench.ledger.nights import Seen

RESULTS, MACHINE, NIGHT = "WINGSPAN_RESULTS", "WINGSPAN_MACHINE", "WINGSPAN_NIGHT"


class CellFailed(RuntimeError):
    """Every run of the cell failed that night; the message says how the last one did."""


@lru_cache(maxsize=1)
def known(results: Path) -> stored.Stored:
    """The nights of a folder, read once: `known.cache_clear()` before a new look."""
    return stored.read(results)


def cells() -> tuple[str, ...]:
    """The cells of all nights and machines of the results folder, sorted."""
    return tuple(sorted({cell for night in known(_results()).nights for cell in night.cells}))


def seen(cell: str) -> Seen:
    """What that machine and night saw of a cell. Raises NotImplementedError where it did not run, CellFailed where it failed."""
    machine, label = os.environ.get(MACHINE, ""), os.environ.get(NIGHT, "")
    night = known(_results()).by_name.get((machine, label))
    if night is None:
        raise LookupError(f"{_results()} has no night {label!r} of {machine!r}: set {MACHINE} and {NIGHT} to one that it has")
    found = night.cells.get(cell)
    if found is None:
        raise NotImplementedError(f"{cell} did not run in the night of {label}")
    if found.failed:
        raise CellFailed(found.failed)
    return found


@contextmanager
def about(**variables: str) -> Iterator[None]:
    """These environment variables set for a block, and as before after it."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def _results() -> Path:
    return Path(os.environ.get(RESULTS, "results"))
