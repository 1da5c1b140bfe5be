"""How a sweep tells people where it stands.

In: what `bench.run` observes. Out, on standard error: on a terminal a line that is redrawn, with the time left; elsewhere one
plain line per run. Nothing is drawn while nothing happens, so that the parent stays idle while a child measures.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from bench.events import Event
from bench.plan import Plan
from bench.reading.strict import printable
from bench.record import Run, Step
from bench.spec import Cell


@contextmanager
def observer(stream: TextIO | None = None) -> Iterator[Plain | Live]:
    """The fitting one for this stream (standard error by default); the terminal is put right again at the end."""
    with ExitStack() as stack:
        out = stream or sys.stderr or stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        watching = Live(out) if out.isatty() else Plain(out)
        stack.callback(watching.close)
        yield watching


@dataclass
class TimeLeft:
    """An estimate of the time left: the median run so far times the runs to come. Nothing is said before the first run."""

    number: int = 0
    total: int = 0
    _durations_s: list[float] = field(default_factory=list)
    _began_s: float = 0.0

    def begin(self, number: int, total: int) -> None:
        self.number, self.total = number, total
        self._began_s = time.monotonic()

    def end(self) -> None:
        self._durations_s.append(time.monotonic() - self._began_s)

    def text(self) -> str:
        if not self._durations_s:
            return "time left unknown"
        left_s = statistics.median(self._durations_s) * (self.total - self.number)
        return f"about {duration_text(left_s)} left"


@dataclass
class Plain:
    """One line per run: for logs, pipes and CI."""

    out: TextIO
    _left: TimeLeft = field(default_factory=TimeLeft)

    def planned(self, plan: Plan) -> None:
        self._say(plan_line(plan))

    def run_started(self, cell: Cell, number: int, total: int) -> None:
        self._left.begin(number, total)

    def event(self, event: Event) -> None:
        return None

    def run_ended(self, run: Run) -> None:
        self._left.end()
        self._say(f"[{self._left.number}/{self._left.total}] {run_line(run)} · {self._left.text()}")

    def note(self, text: str) -> None:
        self._say(text)

    def close(self) -> None:
        return None

    def _say(self, text: str) -> None:
        with suppress(OSError):  # nobody reads any more (a closed pipe, a full disk): no reason to stop measuring
            print(text, file=self.out, flush=True)


class Live:
    """A redrawn line on a terminal, with finished runs scrolling above it. Redrawn on events only, never by a timer."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = Console(file=out, highlight=False)
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
        self._progress = Progress(*columns, console=self._console, auto_refresh=False)
        self._task = self._progress.add_task("", total=None, left="")
        self._left = TimeLeft()
        self._cell = ""

    def planned(self, plan: Plan) -> None:
        self.note(plan_line(plan))
        self._progress.start()

    def run_started(self, cell: Cell, number: int, total: int) -> None:
        self._progress.start()  # a second time changes nothing
        self._left.begin(number, total)
        self._cell = printable(cell.id)
        self._draw("starting")

    def event(self, event: Event) -> None:
        self._draw(f"step {event.step}" if isinstance(event, Step) else type(event).__name__.lower())

    def run_ended(self, run: Run) -> None:
        self._left.end()
        self.note(run_line(run))

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def close(self) -> None:
        self._progress.stop()

    def _draw(self, what: str) -> None:
        from rich.markup import escape

        self._progress.update(
            self._task,
            completed=self._left.number - 1,
            total=self._left.total,
            left=self._left.text(),
            description=escape(f"{self._cell}: {what}"),
            refresh=True,
        )


def duration_text(duration_s: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`."""
    if duration_s < 90:
        return f"{duration_s:.0f} s"
    minutes = round(duration_s / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def bytes_text(value: int) -> str:
    """`12.3 MB` or `7.25 GB` (powers of ten)."""
    return f"{value / 1e9:.2f} GB" if value >= 1e8 else f"{value / 1e6:.1f} MB"


def plan_line(plan: Plan) -> str:
    """How much there is to do."""
    actions = [entry.action for entry in plan.entries]
    counts = {action: actions.count(action) for action in ("run", "done", "skip")}
    return f"{len(plan.order)} runs of {counts['run']} cells; {counts['done']} cells done, {counts['skip']} skipped"


def run_line(run: Run) -> str:
    """One run in a line: its cell, its outcome, and its rate and peak or its reason."""
    cell = printable(run.cell)
    if run.outcome != "ok":
        return f"{cell}: {run.outcome}: {printable(run.reason or '')}"
    rate = f"{run.tokens_per_s:,.0f} tokens/s" if run.tokens_per_s is not None else "no rate"
    if run.prefill_tokens_per_s is not None:
        rate += f" decoded, {run.prefill_tokens_per_s:,.0f} prefilled"
    peaks = [("framework", run.framework_peak_bytes), ("device", run.device_peak_bytes), ("host", run.host_peak_bytes)]
    memory = ", ".join(f"{name} peak {bytes_text(value)}" for name, value in peaks if value is not None)
    power = f", {run.power_w:.0f} W ({run.power_scope})" if run.power_w is not None else ""
    flags = f" · flagged: {', '.join(run.flags)}" if run.flags else ""
    return f"{cell}: ok, {rate}, {memory or 'no peak'}{power}{flags}"
