"""What a suite comes to on a machine: cells to run, cells that are done, and holes with their reason.

In: a suite, a machine, and what is known of each cell so far. Out: one `Entry` for every cell, never an absent one, and the order
of the runs to make. Repeats are interleaved: every cell once in a seeded order, then every cell again in another, so that heat
and other drifts fall on all alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Literal

from bench.backends.interface import BACKENDS, load_backend
from bench.expand import cells_of, exclusion_of
from bench.reading.strict import printable, shown
from bench.record import FAILED_OUTCOMES, FINAL_OUTCOMES, MAX_FAILURES, Machine, Outcome
from bench.spec import BackendName, BadInput, Cell, Device, Suite

Action = Literal["run", "skip", "done"]
ACTIONS: tuple[Action, ...] = ("run", "skip", "done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Why a cell cannot be measured here. `refused`: the backend cannot do it on any machine; else `remedy` may help."""

    reason: str
    remedy: str | None = None
    refused: bool = False

    def __str__(self) -> str:
        return self.reason if self.remedy is None else f"{self.reason}; {self.remedy}"


Capabilities = Callable[[Cell, Machine], Hole | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One cell of the plan. `missing` counts the runs still wanted; `reason` says why none is, where that needs saying."""

    cell: Cell
    action: Action
    reason: str | None = None
    missing: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Every cell in the suite's order, and the runs to make in the order in which to make them."""

    entries: tuple[Entry, ...]
    order: tuple[Cell, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `plan --json`. Nothing is predicted yet."""
        return {"cells": [_entry_json(entry) for entry in self.entries], "totals": self.totals}

    @property
    def totals(self) -> dict[str, int]:
        """Cells by action, and `runs`: the processes to start."""
        counts = Counter(entry.action for entry in self.entries)
        return {**{action: counts[action] for action in ACTIONS}, "runs": len(self.order)}


def plan(
    suite: Suite,
    machine: Machine,
    tallies: Mapping[str, Counter[Outcome]],
    *,
    only: str | None = None,
    repeats: int | None = None,
    capabilities: Capabilities | None = None,
) -> Plan:
    """The plan of a suite on a machine.

    `tallies` counts the outcomes so far by `Cell.key`; `only` is a glob on cell ids; `repeats` replaces the suite's.
    Raises BadInput where `only` matches no cell.
    """
    able = capabilities or hole
    cells = [cell for cell in cells_of(suite, lambda name: preferred_device(name, machine)) if _wanted(cell, only)]
    if not cells:
        raise BadInput(_no_match("*" if only is None else only, suite, machine))
    wanted = repeats or suite.repeats
    entries = tuple(_entry(suite, cell, machine, tallies.get(cell.key, Counter()), wanted, able) for cell in cells)
    return Plan(entries, tuple(_interleaved(entries, suite.measure.order_seed)))


def preferred_device(name: BackendName, machine: Machine) -> Device:
    """The first of a backend's devices that the machine has; its first device where the machine has none of them."""
    if name not in BACKENDS:
        return machine.devices[0]
    devices = load_backend(name).devices
    return next((device for device in devices if device in machine.devices), devices[0])


def hole(cell: Cell, machine: Machine) -> Hole | None:
    """Why this machine with this environment cannot measure the cell; None if it can."""
    found = refusal(cell, machine)
    if found is not None:
        return found
    backend = load_backend(cell.backend)
    missing = backend.missing(cell.device)
    if not missing:
        return None
    extra = backend.extras.get(cell.device)
    verb = "is" if len(missing) == 1 else "are"
    reason = f"{cell.backend} is not installed in this environment: {', '.join(missing)} {verb} missing"
    return Hole(reason=reason, remedy=f"pip install '.[{extra}]'" if extra else None)


def refusal(cell: Cell, machine: Machine) -> Hole | None:
    """Why that machine could not measure the cell whatever were installed on it; None if it could."""
    if cell.backend not in BACKENDS:
        return Hole(reason=f"this version of Wingspan has no {cell.backend} backend", remedy="a later one will")
    backend = load_backend(cell.backend)
    if cell.device not in backend.devices:
        choices = ", ".join(f"{cell.backend}@{device}" for device in backend.devices)
        return Hole(reason=f"{cell.backend} does not run on {cell.device}", remedy=f"use {choices}", refused=True)
    refused = backend.refuses(cell)
    if refused is not None:
        return Hole(reason=refused, refused=True)
    if cell.device not in machine.devices:
        return Hole(reason=f"{machine.name} has no {cell.device}; it has {', '.join(machine.devices)}")
    return None


def _wanted(cell: Cell, only: str | None) -> bool:
    return only is None or fnmatchcase(cell.id, only)


def _no_match(only: str, suite: Suite, machine: Machine) -> str:
    ids = [cell.id for cell in cells_of(suite, lambda name: preferred_device(name, machine))]
    close = get_close_matches(only, ids, n=3, cutoff=0.3) or ids[:3]
    return f"--only {shown(only)} matches none of the {len(ids)} cells of {suite.name}; near it: {', '.join(close)}"


def _entry(
    suite: Suite, cell: Cell, machine: Machine, tally: Counter[Outcome], repeats: int, capabilities: Capabilities
) -> Entry:
    exclusion = exclusion_of(suite, cell)
    if exclusion is not None:
        return Entry(cell=cell, action="skip", reason=exclusion.reason)
    missing = max(0, repeats - _final(tally))
    if missing == 0:
        return Entry(cell=cell, action="done")
    failed = {outcome: tally[outcome] for outcome in sorted(FAILED_OUTCOMES) if tally[outcome]}
    if sum(failed.values()) >= MAX_FAILURES:
        what = ", ".join(f"{count} × {outcome}" for outcome, count in failed.items())
        return Entry(cell=cell, action="done", reason=f"failed {MAX_FAILURES} times ({what}); --no-resume tries again")
    found = capabilities(cell, machine)
    if found is not None:
        return Entry(cell=cell, action="skip", reason=str(found), refused=found.refused)
    return Entry(cell=cell, action="run", missing=missing)


def _final(tally: Counter[Outcome]) -> int:
    """Runs that answered. A `skipped` row marks a hole; where the hole has been filled since, it answers nothing."""
    return sum(tally[outcome] for outcome in FINAL_OUTCOMES - {"skipped"})


def _interleaved(entries: tuple[Entry, ...], seed: int) -> Iterator[Cell]:
    """Round after round, each in an order of its own, of the cells that still miss a run."""
    random = Random(seed)  # noqa: S311  # an order to repeat, no secret
    for number in range(max((entry.missing for entry in entries), default=0)):
        cells = [entry.cell for entry in entries if entry.missing > number]
        random.shuffle(cells)
        yield from cells


def _entry_json(entry: Entry) -> dict[str, Any]:
    cell = entry.cell
    return {
        "cell": cell.id,
        "model": cell.workload.model.name,
        "method": cell.workload.method,
        "backend": cell.backend,
        "device": cell.device,
        "action": entry.action,
        "reason": entry.reason,
        "predicted": None,
        "missing": entry.missing,
        "workload_digest": cell.workload.digest,
        "cell_key": cell.key,
    }


def describe(planned: Plan) -> str:
    """The plan for a reader: one line a cell, then the totals."""
    totals = planned.totals
    lines = [_line(entry) for entry in planned.entries]
    end = f"{totals['runs']} runs of {totals['run']} cells to make; {totals['done']} cells done, {totals['skip']} skipped"
    return "\n".join([*lines, end])


def _line(entry: Entry) -> str:
    count = f" × {entry.missing}" if entry.missing else ""
    reason = f": {entry.reason}" if entry.reason else ""
    return printable(f"{entry.action:<5} {entry.cell.id}{count}{reason}")
