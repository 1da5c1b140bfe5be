"""What a suite comes to on a machine: cells to run, cells that are done, and holes with their reason.

In: a suite, a machine, and what is known of each cell so far. Out: one `Entry` for every cell, never an absent one, and the order
of the runs to make. Repeats are interleaved: every cell once in a seeded order, then every cell again in another, so that heat
and other drifts fall on all alike. What is predicted not to fit is skipped; within a round, what may not fit comes after all that
does, so that a sweep that is cut short has its answers, and one that brings a machine to its knees does so last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Literal

from bench.catalog import machine_profiles
from bench.estimate import Estimate, estimate, hub_bytes
from bench.expand import cells_of, exclusion_of
from bench.holes import Capabilities, hole, preferred_device
from bench.predict.answer import Foreteller
from bench.predict.prediction import Prediction
from bench.predict.told import foretold, shortage
from bench.reading.strict import printable, shown
from bench.record import FAILED_OUTCOMES, FINAL_OUTCOMES, MAX_FAILURES, Machine, Outcome
from bench.spec import BadInput, Cell, Suite

Action = Literal["run", "skip", "done"]
ACTIONS: tuple[Action, ...] = ("run", "skip", "done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One cell of the plan. `missing` counts the runs still wanted; `reason` says why none is, where that needs saying.

    `prediction` is None where nothing was predicted, as of fake work.
    """

    cell: Cell
    action: Action
    reason: str | None = None
    missing: int = 0
    refused: bool = False
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Every cell in the suite's order, the runs to make in the order in which to make them, and by `Cell.key` what one takes."""

    entries: tuple[Entry, ...]
    order: tuple[Cell, ...]
    estimates: Mapping[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The document of `plan --json`."""
        return {"cells": [_entry_json(entry) for entry in self.entries], "totals": self.totals}

    @property
    def totals(self) -> dict[str, int | float | None]:
        """Cells by action, `runs` (the processes to start), and roughly what these take.

        `duration_s` covers the runs of which something is known (None: of none is), `unknown_runs` counts the others.
        `disk_bytes` holds results and downloaded weights, no environments.
        """
        counts = Counter(entry.action for entry in self.entries)
        each = [self.estimates[cell.key] for cell in self.order if cell.key in self.estimates]
        known = [one.duration_s for one in each if one.duration_s is not None]
        return {
            **{action: counts[action] for action in ACTIONS},
            "runs": len(self.order),
            "duration_s": sum(known) if known or not self.order else None,
            "unknown_runs": len(self.order) - len(known),
            "disk_bytes": sum(one.disk_bytes for one in each) + hub_bytes(self.order),
        }


def plan(
    suite: Suite,
    machine: Machine,
    tallies: Mapping[str, Counter[Outcome]],
    *,
    only: str | None = None,
    repeats: int | None = None,
    capabilities: Capabilities | None = None,
    durations: Mapping[str, Sequence[float]] | None = None,
    foretell: Foreteller | None = None,
    try_anyway: bool = False,
) -> Plan:
    """The plan of a suite on a machine.

    `tallies` counts the outcomes so far by `Cell.key`, `durations` are the seconds that its runs took; `only` is a glob on cell
    ids, or several joined by `&`; `repeats` replaces the suite's. `foretell` predicts (None: nothing is predicted), and what it
    says does not fit is skipped unless `try_anyway`, or it ran already. Raises BadInput where `only` matches no cell.
    """
    able = capabilities or hole
    cells = chosen(suite, machine, only)
    wanted = repeats or suite.repeats
    told = {cell.key: tallies.get(cell.key, Counter()) for cell in cells}
    known = durations or {}
    ran = {key for key, tally in told.items() if tally["ok"] or known.get(key)}
    entries = tuple(
        _foretold(_entry(suite, cell, machine, told[cell.key], wanted, able), foretell, try_anyway or cell.key in ran)
        for cell in cells
    )
    profile = next((each for each in machine_profiles() if each.name == machine.name), None)
    estimates = {
        entry.cell.key: estimate(entry.cell, suite.measure, profile, known.get(entry.cell.key, ()), _step_s(entry))
        for entry in entries
        if entry.missing
    }
    return Plan(entries, tuple(_interleaved(entries, suite.measure.order_seed)), estimates)


def chosen(suite: Suite, machine: Machine, only: str | None) -> list[Cell]:
    """The suite's cells on a machine that `only`, a glob or several joined by `&`, lets through. Raises BadInput for none."""
    cells = [cell for cell in cells_of(suite, lambda name: preferred_device(name, machine)) if _wanted(cell, only)]
    if not cells:
        raise BadInput(_no_match("*" if only is None else only, suite, machine))
    return cells


def _wanted(cell: Cell, only: str | None) -> bool:
    """`&` joins globs that must all match; no id holds one."""
    return only is None or all(fnmatchcase(cell.id, glob) for glob in only.split("&"))


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


def _foretold(entry: Entry, foretell: Foreteller | None, try_anyway: bool) -> Entry:
    """The entry with its prediction, and not run where that says that it cannot fit."""
    if foretell is None:
        return entry
    prediction = foretell(entry.cell)
    if prediction is not None and prediction.fits == "no" and entry.action == "run" and not try_anyway:
        return Entry(cell=entry.cell, action="skip", reason=shortage(prediction), prediction=prediction)
    return replace(entry, prediction=prediction)


def _step_s(entry: Entry) -> float | None:
    """Predicted seconds of a step, or of a batch of requests; none where it is tried although it will not fit."""
    found = entry.prediction
    if found is None:
        return None
    return 0.0 if found.fits == "no" else sum(found.speed.seconds.values()) if found.speed.seconds else None


def _final(tally: Counter[Outcome]) -> int:
    """Runs that answered. A `skipped` row marks a hole; where the hole has been filled since, it answers nothing."""
    return sum(tally[outcome] for outcome in FINAL_OUTCOMES - {"skipped"})


def _interleaved(entries: tuple[Entry, ...], seed: int) -> Iterator[Cell]:
    """Round after round, each in an order of its own, of the cells that still miss a run; what may not fit comes last in each."""
    random = Random(seed)  # noqa: S311  # an order to repeat, no secret
    for number in range(max((entry.missing for entry in entries), default=0)):
        round_ = [entry for entry in entries if entry.missing > number]
        random.shuffle(round_)
        yield from (entry.cell for entry in sorted(round_, key=_doubt))


def _doubt(entry: Entry) -> int:
    """0 where the cell fits, as far as anything is known; the rest after it."""
    fits = entry.prediction.fits if entry.prediction else None
    return {"tight": 1, "no": 2}.get(fits or "yes", 0)


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
        "predicted": entry.prediction.to_json() if entry.prediction else None,
        "missing": entry.missing,
        "workload_digest": cell.workload.digest,
        "cell_key": cell.key,
    }


def describe(planned: Plan) -> str:
    """The plan for a reader: one line a cell, then the totals."""
    totals = planned.totals
    lines = [_line(entry) for entry in planned.entries]
    end = f"{totals['runs']} runs of {totals['run']} cells to make; {totals['done']} cells done, {totals['skip']} skipped"
    return "\n".join([*lines, end, *_effort(planned), *_without_rates(planned)])


def _without_rates(planned: Plan) -> list[str]:
    """Why no speed is predicted of what is to be run, each reason once; none where nothing could be said of it at all."""
    runs = [entry.prediction for entry in planned.entries if entry.action == "run" and entry.prediction]
    return list(
        dict.fromkeys(printable(note) for found in runs if found.speed.tokens_per_s is None for note in found.speed.notes)
    )


def _effort(planned: Plan) -> list[str]:
    """What the runs to make take, in a line; none where there are none."""
    totals = planned.totals
    if not totals["runs"]:
        return []
    disk = f"{(totals['disk_bytes'] or 0) / 1e6:.3g} MB of results and weights"
    if totals["duration_s"] is None:
        return [f"how long they take is not known yet; {disk}"]
    unknown = f", without {totals['unknown_runs']} runs of which nothing is known" if totals["unknown_runs"] else ""
    return [f"roughly {_span(totals['duration_s'])}{unknown}, good to a factor of 2 or 3 where nothing was run yet; {disk}"]


def _span(duration_s: float) -> str:
    """A time in its fitting unit, two digits of it."""
    scale, unit = (3600, "hours") if duration_s >= 7200 else (60, "minutes") if duration_s >= 120 else (1, "seconds")
    return f"{float(f'{duration_s / scale:.2g}'):g} {unit}"


def _line(entry: Entry) -> str:
    count = f" × {entry.missing}" if entry.missing else ""
    reason = f": {entry.reason}" if entry.reason else ""
    said = f" [{foretold(entry.prediction)}]" if entry.prediction else ""
    return printable(f"{entry.action:<5} {entry.cell.id}{count}{said}{reason}")
