"""Edges found by measuring: every cell tried is a run like any other.

In: a suite with a `[frontier]`, this machine, a results folder, a way to predict. Out: an `Edge` for each question, and a stored
run for every process started. What earlier calls stored under the same limit is known from the start, so the same command goes
on where it stopped.

    hold the machine -> enter what a killed sweep left behind -> enter the holes -> learn from stored runs
      -> question after question: predict, try, confirm
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench import store
from bench.backends.interface import load_backend
from bench.expand import exclusion_of
from bench.frontier.known import Known
from bench.frontier.question import MODEL, Question, at, questions
from bench.frontier.search import Answer, Chance, Edge, Stopped, predicted, search
from bench.holes import Capabilities, hole
from bench.limits import refuse_above_capacity
from bench.plan import Entry, Plan, chosen
from bench.predict.answer import Foreteller
from bench.provenance import provenance
from bench.record import FAILED_OUTCOMES, MAX_FAILURES, Machine, Outcome, Run
from bench.run import Observer, Options, enter_holes, keep_environment, recover
from bench.spec import BadInput, Cell, Frontier, Suite
from bench.sweep.awake import kept_awake
from bench.sweep.evidence import MEMORY_OUTCOMES
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.sweep.lock import hold_machine, lock_path
from bench.sweep.measuring import Measuring, now
from bench.sweep.rows import Context
from bench.sweep.summary import Summary
from bench.sweep.watchdog import means
from bench.tallies import under, watched

NO_FIT = frozenset({"swapping", "spilled"})
"""Flags of an ok run that lives on memory which is not the device's: it works, and does not fit."""
GROWING = frozenset({"growing", "memory-growing"})
LEGEND = (
    "predicted: the largest that fits more likely than not (from the largest that fits with a probability of 90%, "
    "to the largest with 10%)"
)
TYPICAL_RUNS = 6
"""An edge takes about so many; said before the first is found, to tell how long it may take."""
_COLUMNS = (
    *("run_id", "started_at", "machine_id", "suite", "cell_key", "model", "method", "backend", "device", "outcome", "reason"),
    *("flags", "tier", "capacity_bytes", "steps", "warmup_steps", "batch_size", "sequence_length", "prompt_tokens"),
    *("memory_limit", "device_settings"),
)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The edges in the order of the questions, the cells of which none could be asked, and what the runs came to."""

    edges: tuple[Edge, ...]
    holes: tuple[Entry, ...]
    summary: Summary = field(default_factory=Summary)

    def to_json(self) -> dict[str, Any]:
        """The document of `frontier --json`."""
        holes = [{"cell": entry.cell.id, "reason": entry.reason} for entry in self.holes]
        return {"edges": [edge.to_json() for edge in self.edges], "holes": holes, **self.summary.to_json()}

    def __str__(self) -> str:
        holes = [f"{hole.cell.id}: skipped: {hole.reason}" for hole in self.holes]
        legend = [LEGEND] if any(edge.predicted for edge in self.edges) else []
        return "\n".join([*(f"{edge}" for edge in self.edges), *holes, *legend])


def asked(
    suite: Suite, machine: Machine, only: str | None = None, capabilities: Capabilities = hole
) -> tuple[tuple[Question, ...], tuple[Entry, ...]]:
    """The suite's questions on a machine, and the cells that cannot be tried there. Raises BadInput where it asks none."""
    frontier = _frontier(suite)
    cells = chosen(suite, machine, only)
    holes = [entry for cell in cells if (entry := _hole(suite, machine, cell, capabilities)) is not None]
    skipped = {entry.cell.key for entry in holes}
    return questions(frontier, [cell for cell in cells if cell.key not in skipped]), tuple(holes)


def foretell(suite: Suite, machine: Machine, chance: Chance, only: str | None = None, capabilities: Capabilities = hole) -> Found:
    """The edges as they are predicted; nothing is run or stored."""
    wanted, holes = asked(suite, machine, only, capabilities)
    return Found(tuple(predicted(question, chance) for question in wanted), holes)


def find(suite: Suite, machine: Machine, options: Options, predict: Foreteller, observer: Observer) -> Found:
    """The edges as measuring finds them, one question after another.

    Of the options those count that say which cells, where, how long and under which limit. Raises MachineBusy at once where a
    sweep holds the machine, BadInput where the suite asks nothing or for a limit that this machine lacks.
    """
    frontier = _frontier(suite)
    wanted, holes = asked(suite, machine, options.only)
    devices = {question.bases[0].device for question in wanted}
    if options.limit:
        refuse_above_capacity(options.limit, machine, devices)
    holder = {"pid": os.getpid(), "suite": suite.name, "since": now().isoformat(timespec="seconds")}
    with hold_machine(lock_path(), holder) as lock, catch_interrupts() as interrupt:
        context = Context(suite.name, suite.question, machine, provenance(machine), options.limit, predict)
        store.sweep_leftovers(options.results)
        keep_environment(context, options.results, observer)
        recover(context, options.results, observer)
        rows, damaged = _stored(context, options)
        tallies: dict[str, Counter[Outcome]] = {}
        for row in rows:
            tallies.setdefault(row["cell_key"], Counter())[row["outcome"]] += 1
        enter_holes(context, Plan(holes, ()), tallies, options.results, interrupt)
        measuring = Measuring(
            context, options.results, suite.measure, interrupt, lock, observer.event, observer.note,
            watchdog_share=options.watchdog_share,
        )  # fmt: skip
        probing = _Probing(measuring, frontier, options.budget_s, observer, interrupt, Summary(damaged=damaged), len(wanted))
        if options.resume:
            probing.learn(rows, wanted)
        with kept_awake(observer.note):
            measuring.rest(devices)
            edges = tuple(probing.edge(question, chance_by(predict)) for question in wanted)
        return Found(edges, holes, probing.account(edges))


def chance_by(predict: Foreteller) -> Chance:
    """The fit probability of whole predictions, which the rows of runs need anyway."""

    def chance(cell: Cell) -> float | None:
        found = predict(cell)
        return None if found is None else found.fit_probability

    return chance


def _frontier(suite: Suite) -> Frontier:
    if suite.frontier is None:
        raise BadInput(
            f"{suite.name} asks for no edge: give it a table [frontier], such as batch_size = {{from = 1, to = 64}}; "
            "suites/frontier.toml shows one"
        )
    return suite.frontier


def _hole(suite: Suite, machine: Machine, cell: Cell, capabilities: Capabilities) -> Entry | None:
    exclusion = exclusion_of(suite, cell)
    if exclusion is not None:
        return Entry(cell=cell, action="skip", reason=exclusion.reason)
    found = capabilities(cell, machine)
    return None if found is None else Entry(cell=cell, action="skip", reason=str(found), refused=found.refused)


def _stored(context: Context, options: Options) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The runs of this suite on this machine under this limit, oldest first, and the files that could not be read."""
    table = store.read(options.results, "runs", _COLUMNS, quarantine=False)
    here, watchdog = (context.machine.machine_id, context.suite), means(options.watchdog_share)
    rows = [
        row
        for row in table.rows.sort_by("started_at").to_pylist()
        if (row["machine_id"], row["suite"]) == here and under(row, options.limit) and watched(row, watchdog)
    ]
    return rows, tuple(str(each) for each in table.damaged)


@dataclass
class _Probing:
    """The trying of cells: what is known is not tried again, and what failed without an answer once more."""

    measuring: Measuring
    frontier: Frontier
    budget_s: float | None
    observer: Observer
    interrupt: Interrupt
    summary: Summary
    open_questions: int
    known: Known = field(default_factory=Known)
    failures: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def learn(self, rows: Iterable[Row], wanted: Sequence[Question]) -> None:
        """Take in what earlier runs say of the questions' cells."""
        for row in rows:
            cell = next((cell for cell in _cells(row, wanted) if cell.key == row["cell_key"]), None)
            if cell is not None:
                self._take(self._answer(cell, row), row["outcome"])

    def edge(self, question: Question, chance: Chance) -> Edge:
        found = search(question, chance, self.ask)
        self.open_questions -= 1
        self.observer.note(str(found))
        return found

    def ask(self, cell: Cell, confirm: bool) -> Answer:
        """What is known of the cell, or what a run, or a second one after a failure, says of it. Raises Stopped."""
        known = self.known.answer(cell, long=confirm)
        refused = load_backend(cell.backend).refuses(cell) if known is None else None
        if refused is not None:
            return Answer(cell=cell, fits=None, why=f"unsupported at {cell.id}: {refused}")
        while known is None:
            if self.failures[cell.key] >= MAX_FAILURES:
                why = f"failed {MAX_FAILURES} times at {cell.id} ({self.reasons[cell.key]}); --no-resume tries again"
                return Answer(cell=cell, fits=None, why=why)
            run = self._measured(cell, confirm)
            answer = self._take(self._answer(cell, {name: getattr(run, name) for name in Run.__dataclass_fields__}), run.outcome)
            if run.outcome == "interrupted":
                raise Stopped("interrupted")
            known = None if run.outcome in FAILED_OUTCOMES else answer
        return known

    def _measured(self, cell: Cell, confirm: bool) -> Run:
        if self.interrupt.requested:
            raise Stopped("interrupted")
        if self.budget_s is not None and time.monotonic() - self.began_s >= self.budget_s:
            raise Stopped("the time budget is spent")
        number = len(self.summary.runs) + 1
        self.observer.run_started(cell, number, number + TYPICAL_RUNS * self.open_questions)
        measure = self.measuring.measure
        longer = replace(measure, steps=max(measure.steps, self.frontier.confirm_steps)) if confirm else measure
        run = replace(self.measuring, measure=longer).run(cell)
        self.summary.runs.append(run)
        self.observer.run_ended(run)
        return run

    def _answer(self, cell: Cell, row: Row) -> Answer:
        flags, outcome = frozenset(row["flags"] or ()), row["outcome"]
        fits = False if outcome in MEMORY_OUTCOMES or NO_FIT & flags else True if outcome == "ok" else None
        measured = (row["steps"] or 0) - (row["warmup_steps"] or 0)
        return Answer(
            cell=cell,
            fits=fits,
            run_id=row["run_id"],
            long=measured >= self.frontier.confirm_steps,
            growing=bool(GROWING & flags),
            why=f"{outcome} at {cell.id}: {row['reason']}" if fits is None else None,
        )

    def _take(self, answer: Answer, outcome: str) -> Answer:
        self.known.add(answer)
        if outcome in FAILED_OUTCOMES:
            self.failures[answer.cell.key] += 1
            self.reasons[answer.cell.key] = outcome
        return answer

    def account(self, edges: Sequence[Edge]) -> Summary:
        """The summary of the runs, with what is left undone."""
        left = [edge for edge in edges if edge.status == "left"]
        self.summary.left, self.summary.left_because = len(left), left[0].why if left else None
        self.summary.interrupted = self.interrupt.requested
        self.summary.failed_before = sum(count >= MAX_FAILURES for count in self.failures.values())
        return self.summary


def _cells(row: Row, wanted: Sequence[Question]) -> Iterator[Cell]:
    """The cells of the questions that a stored row may be of."""
    for question in wanted:
        for base in question.bases:
            names = (base.workload.model.name, base.workload.method, base.backend, base.device)
            if names == (row["model"], row["method"], row["backend"], row["device"]):
                yield base
                if question.axis != MODEL and row[question.axis] is not None:
                    yield at(base, question.axis, row[question.axis])
