"""A sweep, or a report, that says where it stands, so that a test can kill it there.

usage: survival_stage.py (run SUITE | report) RESULTS OUT

Prints on standard output `MARK <phase>` when a phase begins and `ACK <run id>` when a run is acknowledged as stored. Around each
phase it pauses for a moment, which widens the window that a kill must hit; nothing else is changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench.run
from bench import store
from bench.events import Event, Loaded, Progress
from bench.files import atomic
from bench.machine import this_machine
from bench.plan import Plan
from bench.record import Run, Step
from bench.run import Options, sweep
from bench.spec import Cell
from bench.suite import read_suite

PAUSE_S = 0.05


def say(text: str) -> None:
    print(text, flush=True)


def marked(phase_before: str, phase_after: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a mark and a pause before and after it."""

    def call(*arguments: Any, **options: Any) -> Any:
        say(f"MARK {phase_before}")
        time.sleep(PAUSE_S)
        result = function(*arguments, **options)
        say(f"MARK {phase_after}")
        time.sleep(PAUSE_S)
        return result

    return call


class Telling:
    """An observer that prints marks and acknowledgements."""

    def planned(self, plan: Plan) -> None:
        return None

    def run_started(self, cell: Cell, number: int, total: int) -> None:
        say("MARK start")

    def event(self, event: Event) -> None:
        phases = {Progress: "load", Loaded: "load", Step: "step"}
        if type(event) in phases:
            say(f"MARK {phases[type(event)]}")

    def run_ended(self, run: Run) -> None:
        say(f"ACK {run.run_id}")

    def note(self, text: str) -> None:
        return None


def run(suite: Path, results: Path) -> int:
    bench.run.plan = marked("plan", "plan", bench.run.plan)
    store.append = marked("append", "append", store.append)
    os.link = marked("before-link", "after-link", os.link)
    return sweep(read_suite(suite), this_machine("survivor"), Options(results=results), Telling()).exit_code


def report(results: Path, out: Path) -> int:
    from bench.report.page import write

    atomic.os.replace = os.replace = marked("report", "report", os.replace)
    say("MARK report")
    write(results, out)
    return 0


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    sys.exit(run(Path(rest[0]), Path(rest[1])) if what == "run" else report(Path(rest[0]), Path(rest[1])))
