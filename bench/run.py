"""Cells to runs: the sweep.

In: a suite, this machine, a results folder. Out: one stored run for every process started and one row for every hole, whatever
the outcome. The machine is held for the whole sweep; each run is a fresh process; what is stored is never lost to a kill.

    hold the machine -> enter what a killed sweep left behind -> plan -> enter the holes -> measure, append, one after another
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter, deque
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench import store
from bench.plan import Entry, Plan, plan
from bench.provenance import provenance
from bench.reading.strict import printable
from bench.record import FAILED_OUTCOMES, MAX_FAILURES, Event, Machine, Outcome, Run, Step
from bench.spec import Cell, Suite
from bench.sweep import inflight
from bench.sweep.child import Job, watch
from bench.sweep.evidence import judge
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.sweep.lock import hold_machine, lock_path
from bench.sweep.rows import Context, run_row

EXIT_DONE, EXIT_FAILED, EXIT_TAINTED, EXIT_INTERRUPTED = 0, 3, 4, 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much of the suite to run, and where the rows go."""

    results: Path
    only: str | None = None
    repeats: int | None = None
    budget_s: float | None = None
    resume: bool = True


class Observer(Protocol):
    """Who is told how the sweep goes."""

    def planned(self, plan: Plan) -> None: ...

    def run_started(self, cell: Cell, number: int, total: int) -> None: ...

    def event(self, event: Event) -> None: ...

    def run_ended(self, run: Run) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class Summary:
    """What a sweep did: the runs it made, what it left undone and why, and what stood in its way before.

    `failed_before` counts the cells that failed so often, in earlier sweeps, that they are not tried again; `damaged` names
    stored files that could not be read, and so were not counted as done.
    """

    runs: list[Run] = field(default_factory=list)
    left: int = 0
    left_because: str | None = None
    interrupted: bool = False
    failed_before: int = 0
    damaged: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.failed_before or any(run.outcome in FAILED_OUTCOMES for run in self.runs):
            return EXIT_FAILED
        return EXIT_TAINTED if self.damaged else EXIT_DONE

    def describe(self, results: Path) -> str:
        """The sweep in a line or two."""
        counts = Counter(run.outcome for run in self.runs)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        parts = [f"{len(self.runs)} runs: {told}" if self.runs else "nothing measured" if self.left else "nothing left to do"]
        if self.left:
            parts.append(f"{self.left} runs left: {self.left_because} (the same command goes on)")
        if self.failed_before:
            parts.append(f"{self.failed_before} cells failed {MAX_FAILURES} times before (--no-resume tries them again)")
        if set(counts) & FAILED_OUTCOMES:
            parts.append(f"logs in {results / 'logs'}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """For `run --json`."""
        keys = ("run_id", "cell", "outcome", "reason", "tokens_per_s", "framework_peak_bytes", "host_peak_bytes")
        return {
            "runs": [{key: getattr(run, key) for key in keys} for run in self.runs],
            "left": self.left,
            "left_because": self.left_because,
            "failed_before": self.failed_before,
            "damaged": list(self.damaged),
            "exit_code": self.exit_code,
        }


def sweep(suite: Suite, machine: Machine, options: Options, observer: Observer) -> Summary:
    """Measure what the suite still wants. Raises MachineBusy at once where another sweep holds the machine."""
    holder = {"pid": os.getpid(), "suite": suite.name, "since": _now().isoformat(timespec="seconds")}
    with hold_machine(lock_path(), holder) as lock, catch_interrupts() as interrupt:
        context = Context(suite.name, suite.question, machine, provenance(machine))
        store.sweep_leftovers(options.results)
        _recover(context, options.results, observer)
        stored = store.tallies(options.results, machine.machine_id, suite.name)
        for each in stored.damaged:
            observer.note(f"{each}")
        known = stored.by_cell if options.resume else {}
        planned = plan(suite, machine, known, only=options.only, repeats=options.repeats)
        observer.planned(planned)
        _enter_holes(context, planned, stored.by_cell, options.results, interrupt)
        summary = Summary(damaged=tuple(str(each) for each in stored.damaged))
        summary.failed_before = sum(entry.action == "done" and entry.reason is not None for entry in planned.entries)
        _Sweep(suite, context, options, observer, interrupt, lock, known).run(planned, summary)
        return summary


@dataclass
class _Sweep:
    """The measuring part of a sweep: one run after another, a failed one tried again at the end of the queue."""

    suite: Suite
    context: Context
    options: Options
    observer: Observer
    interrupt: Interrupt
    lock: int
    tallies: dict[str, Counter[Outcome]]

    def run(self, planned: Plan, summary: Summary) -> None:
        queue = deque(planned.order)
        failures = Counter({key: sum(counts[each] for each in FAILED_OUTCOMES) for key, counts in self.tallies.items()})
        deadline_s = time.monotonic() + self.options.budget_s if self.options.budget_s is not None else None
        while queue and not self.interrupt.requested and (deadline_s is None or time.monotonic() < deadline_s):
            cell = queue.popleft()
            number = len(summary.runs) + 1
            self.observer.run_started(cell, number, number + len(queue))
            run = self._measure(cell)
            summary.runs.append(run)
            self.observer.run_ended(run)
            queue = self._requeued(queue, cell, run, failures)
        summary.left = len(queue)
        summary.interrupted = self.interrupt.requested
        if queue:
            summary.left_because = "interrupted" if summary.interrupted else "the time budget is spent"

    def _requeued(self, queue: deque[Cell], cell: Cell, run: Run, failures: Counter[str]) -> deque[Cell]:
        """The queue after a run: an interrupted one comes first again, a failed one last, and no cell that failed too often."""
        if run.outcome == "interrupted":
            return deque([cell, *queue])
        if run.outcome not in FAILED_OUTCOMES:
            return queue
        failures[cell.key] += 1
        if failures[cell.key] < MAX_FAILURES:
            return deque([*queue, cell])
        return deque(each for each in queue if each.key != cell.key)

    def _measure(self, cell: Cell) -> Run:
        """One run, from its marker to its stored row."""
        run_id, started_at = new_run_id(), _now()
        results = self.options.results
        with inflight.under_way(results, _marker(self.context, cell, run_id, started_at)):
            run, steps = self._observe(cell, run_id, started_at)
            try:
                store.append(results, run, steps)
            except (ValueError, TypeError, OverflowError) as error:
                reason = printable(f"what the worker told cannot be stored: {error}")
                run = run_row(self.context, cell, run_id, started_at, "invalid", reason)
                store.append(results, run)
        return run

    def _observe(self, cell: Cell, run_id: str, started_at: datetime) -> tuple[Run, list[Step]]:
        """Watch one worker from its start to its end: the row and the steps to store."""
        job = Job(
            cell=cell.to_json(),
            measure=asdict(self.suite.measure),
            event_timeout_s=self.suite.measure.event_timeout_s,
            log=self.options.results / "logs" / f"{run_id}.log",
            inherit=(self.lock,),
        )
        cpu_before_s, began_s = time.process_time(), time.monotonic()
        trace, ending = watch(job, self.interrupt, self.observer.event)
        share = (time.process_time() - cpu_before_s) / (time.monotonic() - began_s)
        outcome, reason = judge(trace, ending)
        return run_row(self.context, cell, run_id, started_at, outcome, reason, trace, share), trace.steps


def _recover(context: Context, results: Path, observer: Observer) -> None:
    """Enter the runs that a killed sweep, or a machine that went down, left without a row."""
    for marker in inflight.left_behind(results, context.machine.machine_id, observer.note):
        if not store.has_run(results, marker.run_id):
            rebooted = marker.boot != inflight.boot_id()
            outcome: Outcome = "machine_lost" if rebooted else "interrupted"
            reason = "the machine went down during the run" if rebooted else "the harness was killed during the run"
            own = Context(marker.suite, marker.question, replace(context.machine, name=marker.machine), context.provenance)
            store.append(results, run_row(own, marker.cell, marker.run_id, marker.started_at, outcome, reason))
            observer.note(f"{marker.cell.id}: entered as {outcome}: {reason} ({marker.started_at:%Y-%m-%d %H:%M} UTC)")
        inflight.forget(results, marker.run_id)


def _enter_holes(
    context: Context, planned: Plan, tallies: dict[str, Counter[Outcome]], results: Path, interrupt: Interrupt
) -> None:
    """One row for every cell that the plan skips, so that a hole is never an absent row; entered once."""
    for entry in planned.entries:
        if interrupt.requested:
            return
        if entry.action == "skip" and not tallies.get(entry.cell.key, Counter())[hole_outcome(entry)]:
            row = run_row(context, entry.cell, new_run_id(), _now(), hole_outcome(entry), entry.reason)
            store.append(results, row)


def hole_outcome(entry: Entry) -> Outcome:
    """`unsupported` where the backend cannot do the cell anywhere, `skipped` where it was excluded or cannot run here."""
    return "unsupported" if entry.refused else "skipped"


def _marker(context: Context, cell: Cell, run_id: str, started_at: datetime) -> inflight.Marker:
    return inflight.Marker(
        run_id=run_id,
        started_at=started_at,
        machine=context.machine.name,
        machine_id=context.machine.machine_id,
        suite=context.suite,
        question=context.question,
        boot=inflight.boot_id(),
        cell=cell,
    )


def new_run_id() -> str:
    """Sortable by time, unique without coordination: `20261130T021500Z-` and 8 hex digits."""
    return f"{_now():%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def _now() -> datetime:
    return datetime.now(UTC)
