"""One night: measure, judge, publish.

In: a suite, this machine, a results folder and the night's date. Out: the night's runs in the folder, the gate's verdict on this
machine's history with them, the report and asv's page; and what of it failed. One step's failure keeps none of the others from
being taken: a cell that crashed is judged, and a page that cannot be drawn hides no regression. Killed at any moment, the same
call goes on with the same night, and the next night is measured all the same.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.history import document, told
from bench.history.gather import Gated, gate
from bench.ledger import dashboard
from bench.ledger.record import record
from bench.reading.strict import printable
from bench.record import Machine
from bench.report.gate import markdown
from bench.report.page import write
from bench.run import Observer, Options, sweep
from bench.spec import BadInput, Suite
from bench.store import Damaged
from bench.sweep.lock import MachineBusy
from bench.sweep.summary import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TAINTED, Summary

EXIT_REGRESSION, EXIT_BAD_INPUT, EXIT_OWN_FAULT = 1, 2, 70
FIRST = (EXIT_INTERRUPTED, EXIT_REGRESSION, EXIT_FAILED)
"""The codes that are told before any other, the most telling one first; among the others the largest is."""
ASV, REPORT = "asv", "nights"
"""Folders of asv's page and of the report. What a night draws is git's to ignore: a clone that measures can still pull."""

Tell = Callable[[str], None]
Step = Callable[["Night", Tell], None]


def default_suite(machine: Machine) -> str:
    """The name of the suite for a machine's nights: one is sized for GPUs, the other for a processor."""
    return "nightly-cpu" if machine.devices == ("cpu",) else "nightly"


def tonight() -> str:
    """The night that begins now: today's date in UTC."""
    return datetime.now(UTC).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which night, and what of it.

    Without `measure` what is stored is judged and published; without `judge` and `publish` there is no verdict and no page: where
    a machine's stacks have an environment each, each measures, and one judges. `out` holds the folders of the pages. `only`,
    `repeats` and `budget_s` bound the measuring as those of `run`. The verdict is appended to the file `summary` as Markdown.
    """

    suite: Suite
    machine: Machine
    night: str
    results: Path
    out: Path
    only: str | None = None
    repeats: int | None = None
    budget_s: float | None = None
    acknowledged: Path | None = None
    summary: Path | None = None
    measure: bool = True
    judge: bool = True
    publish: bool = True


@dataclass(slots=True)
class Night:
    """What came of a night: None for a step that was not taken or failed. `faults` are (exit code, message) of failed steps."""

    asked: Asked
    measured: Summary | None = None
    judged: Gated | None = None
    published: list[Path] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def red(self) -> bool:
        """Whether a regression is confirmed."""
        return self.judged is not None and self.judged.verdict.red

    @property
    def exit_code(self) -> int:
        """130 where it was interrupted, 1 for a confirmed regression, else 3 where cells failed, else the largest other code."""
        codes = {code for code, _ in self.faults} | {EXIT_TAINTED if self.damaged else EXIT_DONE}
        codes |= {self.measured.exit_code} if self.measured else set()
        codes |= {EXIT_REGRESSION} if self.red else set()
        return next((code for code in FIRST if code in codes), max(codes))

    def to_json(self) -> dict[str, Any]:
        """For `nightly --json`; `verdict` is the document of `regress --json`."""
        judged = self.judged
        return {
            "night": self.asked.night,
            "suite": self.asked.suite.name,
            "machine": self.asked.machine.name,
            "measured": self.measured.to_json() if self.measured else None,
            "verdict": document.document(judged.verdict, judged.damaged) if judged else None,
            "published": [str(path) for path in self.published],
            "damaged": self.damaged,
            "faults": [message for _, message in self.faults],
            "exit_code": self.exit_code,
        }


def nightly(asked: Asked, observer: Observer, tell: Tell) -> Night:
    """Take the steps of a night, and `tell` each.

    Raises MachineBusy where another sweep holds the machine, and BadInput for what `run` refuses; then nothing was measured. An
    interrupted night ends after measuring: what is missing of it would be judged as missing. Where the file system ends the
    measuring, the history is judged and drawn all the same.
    """
    night = Night(asked)
    if asked.measure:
        tell(f"night of {asked.night}: measuring {asked.suite.name} on {asked.machine.name}")
        _step(night, tell, partial(_measure, observer=observer), refusals=(BadInput, MachineBusy))
        if night.measured and night.measured.interrupted:
            return night
    steps = [*([_judge] if asked.judge else []), *([_ledger, _report] if asked.publish else [])]
    for step in steps:
        _step(night, tell, step)
    return night


def _options(asked: Asked) -> Options:
    limits: dict[str, Any] = {"only": asked.only, "repeats": asked.repeats, "budget_s": asked.budget_s}
    return Options(results=asked.results, night=asked.night, **limits)


def _step(night: Night, tell: Tell, step: Step, refusals: tuple[type[Exception], ...] = ()) -> None:
    """Take a step; what the user can mend, the file system, or a fault of our own ends that step alone. `refusals` are raised."""
    try:
        step(night, tell)
    except refusals:
        raise
    except BadInput as error:
        night.faults.append((EXIT_BAD_INPUT, str(error)))
    except OSError as error:
        night.faults.append((EXIT_TAINTED, f"{error.filename or 'file system'}: {error.strerror or error}"))
    except Exception as error:  # ours, or a library's that we did not foresee: it must neither hide a verdict nor pass for one
        tell(traceback.format_exc())
        night.faults.append((EXIT_OWN_FAULT, f"a fault of Wingspan's own, traceback above: {type(error).__name__}: {error}"))
    else:
        return
    tell(night.faults[-1][1])


def _measure(night: Night, tell: Tell, observer: Observer) -> None:
    asked = night.asked
    night.measured = sweep(asked.suite, asked.machine, _options(asked), observer)
    tell(night.measured.describe(asked.results))


def _judge(night: Night, tell: Tell) -> None:
    """This machine's history, as of this night. In a folder with several machines each judges its own."""
    asked = night.asked
    found = gate(asked.results, asked.acknowledged, asked.machine.name, date.fromisoformat(asked.night))
    night.judged = found
    _note_damaged(night, found.damaged)
    acknowledged = printable(str(found.acknowledged))
    tell(told.describe(found.verdict, acknowledged))
    if asked.summary is not None:
        with asked.summary.open("a", encoding="utf-8") as file:
            file.write(markdown(found.verdict, acknowledged))


def _ledger(night: Night, tell: Tell) -> None:
    done = record(night.asked.results)
    _note_damaged(night, done.damaged)
    tell(done.describe())
    if done.nights:
        _published(night, [dashboard.publish(night.asked.results, night.asked.out / ASV)], tell)


def _report(night: Night, tell: Tell) -> None:
    written = write(night.asked.results, night.asked.out / REPORT)
    _note_damaged(night, written.damaged)
    _published(night, [path for path in written.paths if path.suffix in (".html", ".md")], tell)


def _note_damaged(night: Night, damaged: Sequence[Damaged]) -> None:
    """Each file once: the first reader sets it aside, the next may not meet it any more."""
    night.damaged += [text for text in map(str, damaged) if text not in night.damaged]


def _published(night: Night, paths: list[Path], tell: Tell) -> None:
    night.published += paths
    for path in paths:
        tell(printable(str(path)))
