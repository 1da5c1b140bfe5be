"""SIGKILL at many moments: no corrupt visible file, no acknowledged run lost, and the same command completes the suite."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from survival_stage import Telling

from bench import store
from bench.machine import this_machine
from bench.run import Options, sweep
from bench.suite import read_suite
from bench.sweep.inflight import FOLDER
from bench.sweep.lock import MachineBusy, hold_machine, lock_path

STAGE = Path(__file__).parent / "survival_stage.py"


@dataclass(frozen=True)
class Moment:
    """Kill `victim` a little after the `nth` mark of `phase`."""

    phase: str
    victim: str
    nth: int
    delay_s: float

    def __str__(self) -> str:
        return f"{self.phase}-{self.victim}-{self.nth}-{self.delay_s * 1000:.0f}ms"


PHASES = [
    ("plan", "parent", 2),
    ("load", "parent", 4),
    ("load", "child", 2),
    ("step", "parent", 6),
    ("step", "child", 4),
    ("append", "parent", 4),
    ("before-link", "parent", 6),
    ("after-link", "parent", 6),
    ("report", "parent", 5),
]


def moments(each: int, seed: int) -> list[Moment]:
    """`each` moments per phase and victim, the same every time."""
    generator = random.Random(seed)
    return [
        Moment(phase, victim, 1 + index % marks, generator.uniform(0, 0.08))
        for phase, victim, marks in PHASES
        for index in range(each)
    ]


@pytest.fixture
def suite(write_suite: Callable[..., Path]) -> Path:
    plays = {"load_s": 0.1, "step_s": 0.05}
    return write_suite({"a": plays, "b": plays})


@pytest.mark.parametrize("moment", moments(1, seed=1), ids=str)
def test_a_kill(moment: Moment, suite: Path, tmp_path: Path) -> None:
    survive(moment, suite, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("moment", moments(23, seed=2), ids=str)
def test_a_kill_at_one_of_200_moments(moment: Moment, suite: Path, tmp_path: Path) -> None:
    survive(moment, suite, tmp_path)


def survive(moment: Moment, suite: Path, tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "reports"
    if moment.phase == "report":
        survive_in_report(moment, suite, results, out)
        return
    acknowledged = play(["run", str(suite), str(results)], moment)
    wait_for_the_machine()
    assert_nothing_lost(results, acknowledged)
    summary = sweep(read_suite(suite), this_machine("survivor"), Options(results=results), Telling())
    assert summary.left == 0
    assert_nothing_lost(results, acknowledged | {run.run_id for run in summary.runs})
    assert completed(results) == {"a": 1, "b": 1}
    assert not list((results / FOLDER).glob("*"))
    assert not list(results.rglob("._*"))


def survive_in_report(moment: Moment, suite: Path, results: Path, out: Path) -> None:
    sweep(read_suite(suite), this_machine("survivor"), Options(results=results), Telling())
    before = {path: path.read_bytes() for path in results.rglob("*.parquet")}
    play(["report", str(results), str(out)], moment)
    page = out / "lesson.html"
    assert not page.exists() or page.read_text().rstrip().endswith("</html>")
    assert {path: path.read_bytes() for path in results.rglob("*.parquet")} == before
    subprocess.run([sys.executable, STAGE, "report", results, out], check=True, stdout=subprocess.DEVNULL)
    assert page.read_text().rstrip().endswith("</html>")


def play(arguments: list[str], moment: Moment) -> set[str]:
    """Start the stage, kill at the moment, and return the acknowledged run ids. A moment that never comes kills nothing."""
    stage = subprocess.Popen([sys.executable, STAGE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    acknowledged, marks = set(), 0
    with stage:
        for line in stage.stdout or ():
            kind, _, what = line.strip().partition(" ")
            if kind == "ACK":
                acknowledged.add(what)
            if (kind, what) == ("MARK", moment.phase):
                marks += 1
                if marks == moment.nth:
                    time.sleep(moment.delay_s)
                    kill(stage.pid, moment.victim)
    if moment.victim == "child":
        assert stage.returncode in (0, 3)
    return acknowledged


def kill(stage: int, victim: str) -> None:
    if victim == "parent":
        os.kill(stage, signal.SIGKILL)
        return
    for child in psutil.Process(stage).children():
        child.kill()


def wait_for_the_machine() -> None:
    """A worker whose parent was killed holds the machine until its present step is over."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "waiting", "since": "now"}):
                return
        except MachineBusy:
            assert time.monotonic() < deadline_s, "an orphaned worker still holds the machine"
            time.sleep(0.05)


def assert_nothing_lost(results: Path, acknowledged: set[str]) -> None:
    found = set()
    for table in ("runs", "steps"):
        read = store.read(results, table)
        assert read.damaged == ()
        if table == "runs":
            found = set(read.rows.column("run_id").to_pylist())
    assert acknowledged <= found


def completed(results: Path) -> Counter[str]:
    runs = store.read(results, "runs").rows.to_pylist()
    return Counter(row["model"] for row in runs if row["outcome"] == "ok")
