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
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from bench import store
from bench.plan import Entry, Plan, plan
from bench.provenance import provenance
from bench.record import FAILED_OUTCOMES, MAX_FAILURES, Event, Machine, Outcome, Run, Step
from bench.spec import Cell, Suite
from bench.sweep import inflight
from bench.sweep.child import Job, watch
from bench.sweep.evidence import judge
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.sweep.lock import hold_machine, lock_path
from bench.sweep.rows import Context, run_row

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 3, 130


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
    """What a sweep did: the runs it made, and the runs left undone with the reason."""

    runs: list[Run] = field(default_factory=list)
    left: int = 0
    left_because: str | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if any(run.outcome in FAILED_OUTCOMES for run in self.runs) else EXIT_DONE

    def describe(self, results: Path) -> str:
        """The sweep in a line or two."""
        counts = Counter(run.outcome for run in self.runs)
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing left to do"
        left = f"; {self.left} runs left: {self.left_because} (the same command goes on)" if self.left else ""
        logs = f"; logs in {results / 'logs'}" if set(counts) & FAILED_OUTCOMES else ""
        return f"{len(self.runs)} runs: {told}{left}{logs}" if self.runs else f"{told}{left}"

    def to_json(self) -> dict[str, Any]:
        """For `run --json`."""
        keys = ("run_id", "cell", "outcome", "reason", "tokens_per_s", "framework_peak_bytes", "host_peak_bytes")
        rows = [{key: getattr(run, key) for key in keys} for run in self.runs]
        return {"runs": rows, "left": self.left, "left_because": self.left_because, "exit_code": self.exit_code}


def sweep(suite: Suite, machine: Machine, options: Options, observer: Observer) -> Summary:
    """Measure what the suite still wants. Raises MachineBusy at once where another sweep holds the machine."""
    holder = {"pid": os.getpid(), "suite": suite.name, "since": _now().isoformat(timespec="seconds")}
    with hold_machine(lock_path(), holder) as lock, catch_interrupts() as interrupt:
        context = Context(suite.name, suite.question, machine, provenance(machine))
        store.sweep_leftovers(options.results)
        _recover(context, options.results, observer)
        tallies = store.tallies(options.results, machine.machine_id, suite.name)
        known: dict[str, Counter[Outcome]] = tallies if options.resume else {}
        planned = plan(suite, machine, known, only=options.only, repeats=options.repeats)
        observer.planned(planned)
        _enter_holes(context, planned, tallies, options.results)
        return _Sweep(suite, context, options, observer, interrupt, lock, known).run(planned)


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

    def run(self, planned: Plan) -> Summary:
        queue = deque(planned.order)
        summary = Summary()
        failures = {key: sum(counts[outcome] for outcome in FAILED_OUTCOMES) for key, counts in self.tallies.items()}
        deadline_s = time.monotonic() + self.options.budget_s if self.options.budget_s is not None else None
        while queue:
            if self.interrupt.requested or (deadline_s is not None and time.monotonic() >= deadline_s):
                break
            cell = queue.popleft()
            if failures.get(cell.key, 0) >= MAX_FAILURES:
                continue
            self.observer.run_started(cell, len(summary.runs) + 1, len(summary.runs) + 1 + len(queue))
            run = self._measure(cell)
            summary.runs.append(run)
            self.observer.run_ended(run)
            if run.outcome in FAILED_OUTCOMES:
                failures[cell.key] = failures.get(cell.key, 0) + 1
                queue.append(cell)
        return self._closed(summary, queue, failures)

    def _closed(self, summary: Summary, queue: deque[Cell], failures: dict[str, int]) -> Summary:
        summary.interrupted = self.interrupt.requested
        summary.left = sum(failures.get(cell.key, 0) < MAX_FAILURES for cell in queue)
        if summary.left:
            summary.left_because = "interrupted" if summary.interrupted else "the time budget is spent"
        return summary

    def _measure(self, cell: Cell) -> Run:
        """One run, from its marker to its stored row."""
        run_id, started_at = new_run_id(), _now()
        with inflight.under_way(self.options.results, _marker(self.context, cell, run_id, started_at)):
            run, steps = self._observe(cell, run_id, started_at)
            store.append(self.options.results, run, steps)
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
    for marker in inflight.left_behind(results, context.machine.machine_id):
        if not store.has_run(results, context.machine.name, marker.run_id):
            rebooted = marker.boot != inflight.boot_id()
            outcome: Outcome = "machine_lost" if rebooted else "interrupted"
            reason = "the machine went down during the run" if rebooted else "the harness was killed during the run"
            own = Context(marker.suite, context.question, context.machine, context.provenance)
            cell, started_at = Cell.from_json(marker.cell), datetime.fromisoformat(marker.started_at)
            store.append(results, run_row(own, cell, marker.run_id, started_at, outcome, reason))
            observer.note(f"{cell.id}: entered as {outcome}: {reason} ({marker.started_at})")
        inflight.forget(results, marker.run_id)


def _enter_holes(context: Context, planned: Plan, tallies: dict[str, Counter[Outcome]], results: Path) -> None:
    """One row for every cell that the plan skips, so that a hole is never an absent row; entered once."""
    for entry in planned.entries:
        if entry.action == "skip" and not tallies.get(entry.cell.key, Counter())[hole_outcome(entry)]:
            row = run_row(context, entry.cell, new_run_id(), _now(), hole_outcome(entry), entry.reason)
            store.append(results, row)


def hole_outcome(entry: Entry) -> Outcome:
    """`unsupported` where the backend cannot do the cell anywhere, `skipped` where it was excluded or cannot run here."""
    return "unsupported" if entry.refused else "skipped"


def _marker(context: Context, cell: Cell, run_id: str, started_at: datetime) -> inflight.Marker:
    return inflight.Marker(
        run_id=run_id,
        started_at=started_at.isoformat(),
        machine_id=context.machine.machine_id,
        suite=context.suite,
        boot=inflight.boot_id(),
        cell=cell.to_json(),
    )


def new_run_id() -> str:
    """Sortable by time, unique without coordination: `20261130T021500Z-` and 8 hex digits."""
    return f"{_now():%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def _now() -> datetime:
    return datetime.now(UTC)
