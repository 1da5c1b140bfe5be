"""One night after another: measured, judged, published; a slowdown is found; what fails or is killed spoils no history."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from nightly_stage import no_processor_times

from bench import nightly as nights
from bench import store
from bench.commands.exits import EXIT_BAD_INPUT, EXIT_REGRESSION
from bench.history.gather import gate
from bench.ledger.record import Recorded
from bench.machine import this_machine
from bench.nightly import Asked, Night, default_suite, nightly
from bench.record import Run
from bench.report.page import Written
from bench.spec import BadInput
from bench.suite import read_suite
from bench.sweep.lock import MachineBusy, hold_machine, lock_path
from bench.sweep.summary import Summary

STAGE = Path(__file__).parent / "nightly_stage.py"
STEP_S, SLOWER = 0.05, 2.0
NOISE = (1.0, 0.96, 1.03, 0.98, 1.04, 0.97, 1.02)
"""Of the rates of nights that are stored and not measured, for the computer that runs these tests may be busy with others."""


class Silent:
    """An observer that is told everything and says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: None


def label(number: int) -> str:
    """The night that many days after the first."""
    return (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)).date().isoformat()


@pytest.fixture
def pace(tmp_path: Path) -> Path:
    """How long a step of model a lasts: what a release of a stack may change, and no declaration says."""
    file = tmp_path / "pace"
    file.write_text(str(STEP_S))
    return file


@pytest.fixture
def asked(write_suite: Callable[..., Path], tmp_path: Path, pace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Asked]:
    """A night of two cells, of which a keeps `pace`; keywords are fields of `Asked`."""
    monkeypatch.setattr(psutil, "cpu_times", no_processor_times)
    plays = {"step_s": STEP_S, "peak_bytes": 10**6}
    suite = read_suite(write_suite({"a": {**plays, "step_s": str(pace)}, "b": plays}, steps=6))
    folders = {"results": tmp_path / "results", "out": tmp_path / "reports"}

    def ask(number: int, **values: Any) -> Asked:
        own = {"suite": suite, "machine": this_machine("box"), "night": label(number), **folders, "publish": False}
        return Asked(**(own | values))

    return ask


def repeated(asked: Asked, runs: Iterable[Run], numbers: range) -> None:
    """Store these runs for other nights too, with some noise."""
    for number in numbers:
        begun = datetime.fromisoformat(label(number)).replace(hour=2, tzinfo=UTC)
        for at, run in enumerate(runs):
            noisy = (run.tokens_per_s or 0.0) * NOISE[number % len(NOISE)]
            own = {"run_id": f"night-{number}-{at}", "night": label(number), "started_at": begun, "tokens_per_s": noisy}
            store.append(asked.results, replace(run, **own))


def told(night: Night) -> list[tuple[str, str, str]]:
    """The confirmed regressions: cell, metric, night."""
    assert night.judged is not None
    return [(each.finding.track.cell, each.finding.metric, each.finding.night) for each in night.judged.verdict.regressions]


def test_a_slowdown_turns_the_second_night_red_names_the_cell_and_the_night_and_is_on_asvs_page(asked, pace, tmp_path):
    """The first night and the last are measured."""
    first = nightly(asked(0), Silent(), lambda text: None)
    assert (first.exit_code, told(first)) == (0, [])
    a, b = sorted(first.measured.runs, key=lambda run: run.cell)
    repeated(first.asked, [a, b], range(1, 7))
    repeated(first.asked, [replace(a, tokens_per_s=a.tokens_per_s / SLOWER), b], range(7, 8))
    suspected = nightly(asked(7, measure=False), Silent(), lambda text: None)
    assert (suspected.exit_code, told(suspected)) == (0, [])
    pace.write_text(str(STEP_S * SLOWER))
    said: list[str] = []
    red = nightly(asked(8, publish=True, summary=tmp_path / "summary.md"), Silent(), said.append)
    assert told(red) == [("a/lora/fake@cpu", "tokens_per_s", label(7))]
    assert red.exit_code == EXIT_REGRESSION
    assert any("REGRESSION   a/lora/fake@cpu on box" in text for text in said)
    assert (tmp_path / "summary.md").read_text().startswith("## Nightly: regression")
    shows_the_slowdown(tmp_path / "reports" / "asv", slow=7, nights=9)
    assert {path.name for path in red.published} == {"index.html", "lesson.html", "lesson.md"}
    assert all(path.is_file() for path in red.published)
    assert {path.parent.name for path in red.published} == {"asv", "nights"}, "what git ignores"
    document = json.loads(json.dumps(red.to_json()))
    assert document["verdict"]["regressions"][0]["night"] == label(7)
    assert (document["exit_code"], document["damaged"], document["faults"]) == (1, [], [])


def shows_the_slowdown(page: Path, slow: int, nights: int) -> None:
    """asv's page: a night each, cell a slower from the night `slow` on, cell b as ever."""
    graph = page / "graphs" / "branch-nights" / "machine-box" / "track_ms_per_1000_tokens.json"
    series = json.loads(graph.read_text())
    assert [revision for revision, _ in series] == list(range(nights))
    for number, (a, b) in enumerate(values for _, values in series):
        assert a / series[0][1][0] == pytest.approx(SLOWER if number >= slow else 1, rel=0.35)
        assert b / series[0][1][1] == pytest.approx(1, rel=0.35)


def test_the_same_night_goes_on_and_the_next_starts_anew(asked, write_suite):
    suite = read_suite(write_suite({"a": {}}))
    for number, made in ((0, 1), (0, 0), (1, 1)):
        night = nightly(asked(number, suite=suite, judge=False), Silent(), lambda text: None)
        assert len(night.measured.runs) == made
    rows = store.read(asked(0).results, "runs").rows.to_pylist()
    assert Counter(row["night"] for row in rows) == {label(0): 1, label(1): 1}


def test_a_night_is_its_machines_and_as_of_its_date(asked, make_run):
    own = asked(0, measure=False)
    for name, machine_id in (("box", own.machine.machine_id), ("other", "9" * 12)):
        run = make_run(name, machine=name, machine_id=machine_id, night=label(0), tokens_per_s=100.0)
        store.append(own.results, run)
    night = nightly(own, Silent(), lambda text: None)
    assert {each.track.machine for each in night.judged.verdict.series} == {"box"}
    assert night.judged.verdict.as_of == label(0)


def test_a_failed_cell_is_judged_and_exits_with_3(asked, write_suite):
    suite = read_suite(write_suite({"a": {"fail": "exit"}, "b": {}}))
    night = nightly(asked(0, suite=suite), Silent(), lambda text: None)
    assert night.exit_code == 3
    assert {each.track.cell for each in night.judged.verdict.series} >= {"b/lora/fake@cpu"}


@pytest.fixture
def taken(asked, make_run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Which parts of a night were called, with a stand-in for each but the gate; those named fail in that way."""
    called: list[str] = []
    store.append(asked(0).results, make_run("r", machine="box", night=label(0), tokens_per_s=100.0))
    answers = {
        "sweep": lambda *arguments: Summary(),
        "gate": nights.gate,
        "record": lambda *arguments: Recorded(1, 1, None),
        "publish": lambda *arguments: Path("index.html"),
        "write": lambda *arguments: Written((Path("lesson.md"),), (), None),
    }

    def stand_in(name: str, failing: dict[str, Exception]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            called.append(name)
            if name in failing:
                raise failing[name]
            return answers[name](*arguments)

        return call

    def set_up(**failing: Exception) -> list[str]:
        for name in answers:
            monkeypatch.setattr(nights.dashboard if name == "publish" else nights, name, stand_in(name, failing))
        return called

    return set_up


FULL = OSError(28, "No space left on device", "disk")
FAILURES = {
    "bad input": (BadInput("told so"), EXIT_BAD_INPUT, "told so"),
    "the file system": (FULL, 4, "disk: No space left on device"),
    "what nobody foresaw": (ImportError("no such thing"), 70, "ImportError: no such thing"),
}


@pytest.mark.parametrize("failing", ["sweep", "gate", "record", "publish", "write"])
@pytest.mark.parametrize("how", FAILURES)
def test_a_step_that_fails_is_told_and_keeps_no_other_from_being_taken(failing, how, asked, taken):
    error, code, words = FAILURES[how]
    if (failing, how) == ("sweep", "bad input"):
        error, code, words = FAILURES["the file system"]  # else nothing is measured nor judged: see below
    called = taken(**{failing: error})
    said: list[str] = []
    night = nightly(asked(0, publish=True), Silent(), said.append)
    assert called == ["sweep", "gate", "record", *([] if failing == "record" else ["publish"]), "write"]
    ((found, message),) = night.faults
    assert (found, night.exit_code) == (code, code)
    assert message.endswith(words)
    assert message in said
    assert any("Traceback" in text for text in said) == (code == 70)


@pytest.mark.parametrize("refusal", [BadInput("no such cell"), MachineBusy("another sweep")])
def test_what_the_measuring_refuses_ends_the_night(refusal, asked, taken):
    called = taken(sweep=refusal)
    with pytest.raises(type(refusal)):
        nightly(asked(0, publish=True), Silent(), lambda text: None)
    assert called == ["sweep"]


def test_what_cannot_be_drawn_hides_no_regression(asked, make_run, taken):
    own = asked(10, publish=True)
    for number in range(11):
        values = {"night": label(number), "tokens_per_s": 100.0 if number < 9 else 70.0, "cell": "x/lora/hf@cpu", "cell_key": "x"}
        store.append(own.results, make_run(f"n{number}", machine="box", **values))
    taken(record=FULL, write=ImportError("no such thing"))
    night = nightly(own, Silent(), lambda text: None)
    assert told(night) == [("x/lora/hf@cpu", "tokens_per_s", label(9))]
    assert night.exit_code == EXIT_REGRESSION
    assert [code for code, _ in night.faults] == [4, 70]


def test_a_fault_in_what_is_acknowledged_does_not_keep_the_pages_from_being_drawn(asked, taken):
    called = taken()
    (asked(0).results / "acknowledged.toml").write_text("shifts = 3\n")
    night = nightly(asked(0, measure=False, publish=True), Silent(), lambda text: None)
    assert (night.exit_code, night.judged) == (EXIT_BAD_INPUT, None)
    assert "acknowledged.toml" in night.faults[0][1]
    assert called == ["gate", "record", "publish", "write"]


def test_a_path_that_is_no_text_can_be_told(asked, taken, tmp_path, monkeypatch):
    """A name in some other encoding, as Linux lets a folder have."""
    taken()
    judged = nights.gate
    monkeypatch.setattr(nights, "gate", lambda *given: replace(judged(*given), acknowledged=Path("r\udcff/acknowledged.toml")))
    said: list[str] = []
    night = nightly(asked(0, measure=False, summary=tmp_path / "summary.md"), Silent(), said.append)
    assert night.faults == []
    assert (tmp_path / "summary.md").read_text().startswith("## Nightly")
    "".join(said).encode()


def test_an_interrupted_night_is_not_judged(asked, monkeypatch):
    monkeypatch.setattr(nights, "sweep", lambda *arguments: Summary(interrupted=True, left=3, left_because="interrupted"))
    night = nightly(asked(0, publish=True), Silent(), lambda text: None)
    assert (night.exit_code, night.judged, night.published) == (130, None, [])


def test_a_held_machine_is_told_before_anything_is_done(asked):
    with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "other", "since": "now"}), pytest.raises(MachineBusy):
        nightly(asked(0), Silent(), lambda text: None)
    assert not asked(0).results.exists()


@pytest.mark.parametrize(
    ("measured", "red", "codes", "expected"),
    [
        (0, False, [], 0),
        (0, True, [4], 1),
        (0, True, [70], 1),
        (3, False, [70], 3),
        (0, False, [4, 70, 2], 70),
        (3, True, [2, 4], 1),
        (3, False, [4], 3),
        (4, False, [2], 4),
        (0, False, [2], 2),
        (130, False, [], 130),
    ],
)
def test_the_exit_code_is_the_most_telling_one(asked, measured, red, codes, expected):
    night = Night(asked(0), faults=[(code, "told") for code in codes])
    night.measured = type("Measured", (), {"exit_code": measured})()
    night.judged = type("Judged", (), {"verdict": type("Verdict", (), {"red": red})()})()
    assert night.exit_code == expected


def test_a_processor_alone_has_a_suite_of_its_own(machine):
    assert default_suite(machine) == "nightly-cpu"
    assert default_suite(replace(machine, devices=("cuda", "cpu"))) == "nightly"
    assert default_suite(replace(machine, devices=("metal", "mps", "cpu"))) == "nightly"


def test_a_night_that_is_no_date_is_refused(asked):
    with pytest.raises(BadInput, match="is no night"):
        nightly(asked(0, night="yesterday"), Silent(), lambda text: None)


def test_a_night_to_come_is_refused_and_nothing_is_measured(asked):
    """One row of it would stand for today until that date."""
    late = (datetime.now(UTC).date() + timedelta(days=3)).isoformat()
    with pytest.raises(BadInput, match=f"{late} is a night to come: give one up to"):
        nightly(asked(0, night=late), Silent(), lambda text: None)
    assert not asked(0).results.exists()


# Real processes from here on: nights one after another, and nights killed at any moment.


def start(suite: Path, folder: Path, number: int, *options: str) -> subprocess.Popen[str]:
    """A night as a process that leads a group of its own."""
    folders = ["--results", str(folder / "results"), "--out", str(folder / "reports"), "--machine-name", "box"]
    command = [sys.executable, str(STAGE), str(suite), "--night", label(number), *folders, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it said."""
    _, said = process.communicate(timeout=300)
    return process.returncode, said


@pytest.mark.slow
def test_twelve_nights_with_a_slowdown_at_the_eighth(write_suite, tmp_path, pace):
    """The slow cell turns the ninth night and all after it red, since the eighth; the steady one stays green throughout."""
    plays = {"peak_bytes": 10**6}
    suite = write_suite({"a": {**plays, "step_s": str(pace)}, "b": {**plays, "step_s": STEP_S}}, repeats=3, steps=6)
    codes = []
    for number in range(12):
        if number == 7:
            pace.write_text(str(STEP_S * SLOWER))
        code, said = ended(start(suite, tmp_path, number))
        codes.append(code)
        assert "Traceback" not in said
    assert codes == [0] * 8 + [1] * 4
    verdict = gate(tmp_path / "results").verdict
    (found,) = (each.finding for each in verdict.regressions)
    assert (found.track.cell, found.metric, found.night) == ("a/lora/fake@cpu", "tokens_per_s", label(7))
    assert found.ratio == pytest.approx(1 / SLOWER, rel=0.35)
    states = {each.state for each in verdict.series if each.track.cell == "b/lora/fake@cpu"}
    assert states == {"steady"}
    shows_the_slowdown(tmp_path / "reports" / "asv", slow=7, nights=12)


def two_cells(write_suite: Callable[..., Path]) -> Path:
    plays = {"step_s": 0.02, "load_s": 0.05}
    return write_suite({"a": plays, "b": plays}, steps=6)


def killed(process: subprocess.Popen[str], results: Path) -> None:
    """Kill a night, the whole group; what it stored is whole."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for_the_machine()
    for table in ("runs", "steps", "readings"):
        assert store.read(results, table).damaged == ()


def goes_well(suite: Path, folder: Path, last: int, *options: str) -> str:
    """The night after those that were killed: whole, no run twice, no leftover. What it said."""
    code, said = ended(start(suite, folder, last, *options))
    assert code == 0, said
    rows = [row for row in store.read(folder / "results", "runs").rows.to_pylist() if row["outcome"] == "ok"]
    done = Counter((row["night"], row["cell"]) for row in rows)
    assert set(done.values()) == {1}, "no run twice"
    assert sum(night == label(last) for night, _ in done) == 2
    assert {night for night, _ in done} <= {label(number) for number in range(last + 1)}
    assert not list((folder / "results").rglob("._*"))
    return said


def wait_for_the_machine() -> None:
    """A worker whose parent was killed holds the machine until its present step is over."""
    deadline_s = time.monotonic() + 60
    while True:
        try:
            with hold_machine(lock_path(), {"pid": os.getpid(), "suite": "waiting", "since": "now"}):
                return
        except MachineBusy:
            assert time.monotonic() < deadline_s, "a worker that was left behind still holds the machine"
            time.sleep(0.05)


def test_a_night_killed_among_its_runs_spoils_no_later_one(write_suite, tmp_path):
    suite, results = two_cells(write_suite), tmp_path / "results"
    process, deadline_s = start(suite, tmp_path, 0), time.monotonic() + 60
    while not list(results.glob("runs/**/*.parquet")):
        assert time.monotonic() < deadline_s, "no run was stored"
        time.sleep(0.02)
    killed(process, results)
    goes_well(suite, tmp_path, 1, "--no-publish")


@pytest.mark.slow
def test_nights_killed_at_twenty_moments(write_suite, tmp_path):
    """While they start, measure, judge and draw; each goes on from what the one before left."""
    generator, suite = random.Random(7), two_cells(write_suite)
    for number in range(20):
        process = start(suite, tmp_path, number)
        time.sleep(generator.uniform(0.2, 12))
        killed(process, tmp_path / "results")
    said = goes_well(suite, tmp_path, 20)
    graph = tmp_path / "reports" / "asv" / "graphs" / "branch-nights" / "machine-box" / "track_ms_per_1000_tokens.json"
    assert json.loads(graph.read_text())
    assert "lesson.md" in said
