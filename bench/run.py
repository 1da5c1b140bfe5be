"""Cells to runs: the sweep.

In: a suite, this machine, a results folder. Out: one stored run for every process started and one row for every hole, whatever
the outcome. The machine is held and kept awake for the whole sweep; each run is a fresh process; what is stored is never lost to
a kill.

    hold the machine -> enter what a killed sweep left behind -> plan -> enter the holes -> see the machine at rest
      -> measure, append, one after another -> where a precision was asked for, again, until intervals are that narrow
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Protocol

from bench import environments, precision, store
from bench.events import Event
from bench.limits import Limit, refuse_above_capacity
from bench.plan import Entry, Plan, plan
from bench.predict.answer import foreteller
from bench.provenance import provenance
from bench.record import FAILED_OUTCOMES, MAX_FAILURES, Machine, Outcome, Run, begun_night
from bench.spec import BadInput, Cell, Suite
from bench.sweep import inflight
from bench.sweep.awake import kept_awake
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.sweep.lock import hold_machine, lock_path
from bench.sweep.measuring import Measuring, new_run_id, now
from bench.sweep.rows import Context, run_row
from bench.sweep.summary import Summary
from bench.sweep.watchdog import DEFAULT_SHARE, means
from bench.tallies import tallies
from bench.trust.flags import spoils


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much of the suite to run, how precisely, and where the rows go.

    `precision` is the half-width wanted of each cell's 95% interval, as a share of its rate. `strict` makes a flagged run taint
    the sweep. `wall_meter` is the CSV file that a wall meter's logger writes. `limit` is the memory that a run may have, and
    `watchdog_share` the share of the computer's that may be in use (None: any). `parts` asks for the parts of each run's memory.
    `try_anyway` runs what is predicted not to fit; under a limit that is done anyhow, for its runs are made to show what fits.
    `night` is the night that the runs are made for: those of that night alone count then, and without one those of no night.
    """

    results: Path
    only: str | None = None
    repeats: int | None = None
    precision: float | None = None
    budget_s: float | None = None
    resume: bool = True
    strict: bool = False
    wall_meter: Path | None = None
    limit: Limit | None = None
    watchdog_share: float | None = DEFAULT_SHARE
    parts: bool = False
    try_anyway: bool = False
    night: str | None = None


class Observer(Protocol):
    """Who is told how the sweep goes."""

    def planned(self, plan: Plan) -> None: ...

    def run_started(self, cell: Cell, number: int, total: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def run_ended(self, run: Run) -> None: ...

    def note(self, text: str) -> None: ...


def sweep(suite: Suite, machine: Machine, options: Options, observer: Observer) -> Summary:
    """Measure what the suite still wants.

    Raises MachineBusy at once where another sweep holds the machine, BadInput for a limit on memory that this machine lacks or
    that leaves nothing to be precise about, and for a night that is no date or lies in the future.
    """
    if options.night is not None:
        begun_night(options.night, now().date())
    if options.limit and options.precision is not None:
        raise BadInput("--precision is of a rate, and a run under a memory limit gives none (flag limited): leave one out")
    holder = {"pid": os.getpid(), "suite": suite.name, "since": now().isoformat(timespec="seconds")}
    with hold_machine(lock_path(), holder) as lock, catch_interrupts() as interrupt:
        foretell = foreteller(machine, options.limit, options.results)
        context = Context(suite.name, suite.question, machine, provenance(machine), options.limit, foretell, options.night)
        store.sweep_leftovers(options.results)
        keep_environment(context, options.results, observer)
        recover(context, options.results, observer)
        stored = tallies(
            options.results, machine.machine_id, suite.name, options.limit, means(options.watchdog_share), options.night
        )
        for each in stored.damaged:
            observer.note(f"{each}")
        known = stored.by_cell if options.resume else {}
        planned = plan(
            suite, machine, known, only=options.only, repeats=options.repeats, durations=stored.durations, foretell=foretell,
            try_anyway=options.try_anyway or options.limit is not None,
        )  # fmt: skip
        if options.limit:
            refuse_above_capacity(options.limit, machine, {cell.device for cell in planned.order})
        observer.planned(planned)
        enter_holes(context, planned, stored.by_cell, options.results, interrupt)
        summary = Summary(damaged=tuple(str(each) for each in stored.damaged), strict=options.strict)
        summary.failed_before = sum(entry.action == "done" and entry.reason is not None for entry in planned.entries)
        if options.resume:
            wanted = {entry.cell.key for entry in planned.entries if entry.action != "skip"}
            summary.flagged_before = sum(count for key, count in stored.flagged.items() if key in wanted)
        measuring = Measuring(
            context, options.results, suite.measure, interrupt, lock, observer.event, observer.note,
            wall_meter=options.wall_meter, watchdog_share=options.watchdog_share, parts=options.parts,
        )  # fmt: skip
        rates = stored.rates if options.resume else {}
        with kept_awake(observer.note) if planned.order or options.precision else nullcontext():
            _Sweep(planned, measuring, options, observer, interrupt, known, rates, summary).run(suite.measure.order_seed)
        return summary


@dataclass
class _Sweep:
    """The measuring part of a sweep: one run after another, a failed one tried again at the end of the queue."""

    planned: Plan
    measuring: Measuring
    options: Options
    observer: Observer
    interrupt: Interrupt
    tallies: dict[str, Counter[Outcome]]
    rates: dict[str, list[float]]
    summary: Summary
    failures: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    ended_ok: Counter[str] = field(default_factory=Counter)

    def run(self, seed: int) -> None:
        """Everything planned, then what the precision asked for wants on top, until it is there or time is up."""
        began_s = time.monotonic()
        self.failures += Counter({key: sum(each[out] for out in FAILED_OUTCOMES) for key, each in self.tallies.items()})
        self.counts += Counter({key: sum(each.values()) for key, each in self.tallies.items()})
        self.ended_ok += Counter({key: each["ok"] for key, each in self.tallies.items()})
        queue = deque(self.planned.order) or deque(self._more(seed))
        self.measuring.rest({cell.device for cell in queue})
        while queue and not self._stopped(began_s):
            cell = queue.popleft()
            number = len(self.summary.runs) + 1
            self.observer.run_started(cell, number, number + len(queue))
            run = self.measuring.run(cell)
            self._count(cell, run)
            self.observer.run_ended(run)
            queue = self._requeued(queue, cell, run) or deque(self._more(seed + number))
        self._account(queue)

    def _stopped(self, began_s: float) -> bool:
        spent = self.options.budget_s is not None and time.monotonic() - began_s >= self.options.budget_s
        return self.interrupt.requested or spent

    def _count(self, cell: Cell, run: Run) -> None:
        self.summary.runs.append(run)
        self.counts[cell.key] += 1
        self.ended_ok[cell.key] += run.outcome == "ok"
        if run.outcome == "ok" and run.tokens_per_s and not spoils(run.flags, "time"):
            self.rates.setdefault(cell.key, []).append(run.tokens_per_s)

    def _requeued(self, queue: deque[Cell], cell: Cell, run: Run) -> deque[Cell]:
        """The queue after a run: an interrupted one comes first again, a failed one last, and no cell that failed too often."""
        if run.outcome == "interrupted":
            return deque([cell, *queue])
        if run.outcome not in FAILED_OUTCOMES:
            return queue
        self.failures[cell.key] += 1
        if self.failures[cell.key] < MAX_FAILURES:
            return deque([*queue, cell])
        return deque(each for each in queue if each.key != cell.key)

    def _more(self, seed: int) -> list[Cell]:
        """One further round: each cell whose interval is still too wide once, in an order of its own."""
        cells = [cell for cell in self._precise() if self._wants(cell)]
        Random(seed).shuffle(cells)  # noqa: S311  # an order to repeat, no secret
        return cells

    def _precise(self) -> Iterable[Cell]:
        """The cells of which a precision is wanted: those that ended ok, if only flagged, and have not failed too often."""
        if self.options.precision is None:
            return []
        cells = [entry.cell for entry in self.planned.entries if entry.action != "skip"]
        return [cell for cell in cells if self.ended_ok[cell.key] and self.failures[cell.key] < MAX_FAILURES]

    def _missing(self, cell: Cell) -> int:
        return precision.missing(self.rates.get(cell.key, []), self.options.precision or 1.0)

    def _wants(self, cell: Cell) -> bool:
        """Whether one more run of the cell is worth making.

        Flagged runs give no rate, but they count towards the ceiling; a cell whose runs are all flagged is given up much sooner.
        """
        most = precision.MOST_RUNS if self.rates.get(cell.key) else precision.FEWEST_RUNS
        return self._missing(cell) > 0 and self.counts[cell.key] < most

    def _account(self, queue: deque[Cell]) -> None:
        """Write down what is left undone."""
        summary = self.summary
        summary.left = len(queue)
        summary.interrupted = self.interrupt.requested
        if queue:
            summary.left_because = "interrupted" if summary.interrupted else "the time budget is spent"
        for cell in self._precise():
            if self._missing(cell):
                summary.wide[cell.id] = precision.needed(self.rates.get(cell.key, []), self.options.precision or 1.0)


def keep_environment(context: Context, results: Path, observer: Observer) -> None:
    """Write down once which packages are installed, so that two nights can be told apart by name."""
    if context.provenance.environment is not None:
        try:
            environments.keep(results, context.provenance.environment)
        except environments.NotKnown as fault:
            observer.note(f"{fault}; remove it, and the next sweep writes it anew")


def recover(context: Context, results: Path, observer: Observer) -> None:
    """Enter the runs that a killed sweep, or a machine that went down, left without a row."""
    for marker in inflight.left_behind(results, context.machine.machine_id, observer.note):
        if not store.has_run(results, marker.run_id):
            rebooted = marker.boot != inflight.boot_id()
            outcome: Outcome = "machine_lost" if rebooted else "interrupted"
            reason = "the machine went down during the run" if rebooted else "the harness was killed during the run"
            named = replace(context.machine, name=marker.machine)
            own = Context(marker.suite, marker.question, named, context.provenance, marker.limit, context.foretell, marker.night)
            store.append(results, run_row(own, marker.cell, marker.run_id, marker.started_at, outcome, reason))
            observer.note(f"{marker.cell.id}: entered as {outcome}: {reason} ({marker.started_at:%Y-%m-%d %H:%M} UTC)")
        inflight.forget(results, marker.run_id)


def enter_holes(
    context: Context, planned: Plan, tallies: dict[str, Counter[Outcome]], results: Path, interrupt: Interrupt
) -> None:
    """One row for every cell that the plan skips, so that a hole is never an absent row; entered once."""
    for entry in planned.entries:
        if interrupt.requested:
            return
        if entry.action == "skip" and not tallies.get(entry.cell.key, Counter())[hole_outcome(entry)]:
            row = run_row(context, entry.cell, new_run_id(), now(), hole_outcome(entry), entry.reason)
            store.append(results, row)


def hole_outcome(entry: Entry) -> Outcome:
    """`unsupported` where the backend cannot do the cell anywhere, `skipped` where it was excluded or cannot run here."""
    return "unsupported" if entry.refused else "skipped"
