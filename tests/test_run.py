"""Sweeps with the fake backend through real processes and real files."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench import environments, store
from bench.catalog import catalogue
from bench.events import Event
from bench.limits import Limit
from bench.plan import Plan
from bench.predict.prediction import Prediction, Speed
from bench.predict.rules import uncalibrated
from bench.record import Machine, Run, Step
from bench.run import Options, Summary, new_run_id, sweep
from bench.spec import BadInput, Cell, Suite, workload
from bench.suite import read_suite
from bench.sweep import child, inflight
from bench.sweep.lock import MachineBusy, hold_machine, lock_path


class Watching:
    """An observer that remembers, and may interfere."""

    def __init__(self, on_event: Callable[[Event], None] | None = None) -> None:
        self.runs: list[Run] = []
        self.cells: list[str] = []
        self.notes: list[str] = []
        self.totals: list[int] = []
        self._on_event = on_event

    def planned(self, plan: Plan) -> None:
        self.plan = plan

    def run_started(self, cell: Cell, number: int, total: int) -> None:
        self.cells.append(cell.workload.model.name)
        self.totals.append(total)

    def event(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def run_ended(self, run: Run) -> None:
        self.runs.append(run)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def measure_suite(results: Path, machine: Machine) -> Callable[..., tuple[Summary, Watching]]:
    def measured(path: Path, watching: Watching | None = None, **options: Any) -> tuple[Summary, Watching]:
        seen = watching or Watching()
        return sweep(read_suite(path), machine, Options(results=results, **options), seen), seen

    return measured


def rows(results: Path) -> list[dict[str, Any]]:
    return list(store.read(results, "runs").rows.to_pylist())


def outcomes(results: Path) -> Counter[tuple[str, str]]:
    return Counter((row["model"], row["outcome"]) for row in rows(results))


Measured = Callable[..., tuple[Summary, Watching]]


def test_a_suite_is_measured_stored_and_then_done(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {}, "b": {}}, repeats=2)
    summary, watching = measure_suite(suite)
    assert summary.exit_code == 0
    assert outcomes(results) == {("a", "ok"): 2, ("b", "ok"): 2}
    assert sorted(watching.cells[:2]) == ["a", "b"]
    assert sorted(watching.cells[2:]) == ["a", "b"]
    steps = store.read(results, "steps").rows.to_pylist()
    assert Counter(row["run_id"] for row in steps) == {run.run_id: 6 for run in summary.runs}
    again, _ = measure_suite(suite)
    assert again.runs == []
    assert len(rows(results)) == 4


def test_a_row_answers_who_what_where(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    measure_suite(write_suite({"a": {"peak_bytes": 0}}))
    (row,) = rows(results)
    assert row["suite"] == "probe"
    assert row["question"] == "Does it?"
    assert row["cell"] == "a/lora/fake@cpu"
    assert row["machine"] == "test-machine"
    assert row["tier"] == "measured"
    assert row["framework_peak_bytes"] == 0
    assert row["cache_peak_bytes"] is None
    assert row["host_peak_bytes"] > 0
    assert 0 <= row["parent_cpu_share"] < 1
    assert row["tokens_per_s"] > 0
    assert row["environment_digest"]
    assert (results / "logs" / f"{row['run_id']}.log").exists()


def test_out_of_memory_is_a_result(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    suite = write_suite({"a": {"fail": "oom_host"}, "b": {}}, repeats=2)
    summary, _ = measure_suite(suite)
    assert summary.exit_code == 0
    assert outcomes(results) == {("a", "oom_host"): 2, ("b", "ok"): 2}
    again, _ = measure_suite(suite)
    assert again.runs == []


def test_a_failing_cell_is_tried_twice_and_the_sweep_goes_on(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {"fail": "exit"}, "b": {}}, repeats=3)
    summary, _ = measure_suite(suite)
    assert summary.exit_code == 3
    assert outcomes(results) == {("a", "crashed"): 2, ("b", "ok"): 3}
    again, _ = measure_suite(suite)
    assert (again.runs, again.exit_code, again.failed_before) == ([], 3, 1)
    anew, _ = measure_suite(suite, resume=False)
    assert Counter(run.outcome for run in anew.runs) == {"crashed": 2, "ok": 3}


def test_a_hole_is_a_row_entered_once(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    suite = write_suite({"a": {}})
    text = suite.read_text().replace('["fake"]', '["fake", "hf@cuda"]')
    suite.write_text(text + '[[exclude]]\nbackend = "fake"\nreason = "only the holes"\n')
    for _ in range(2):
        summary, watching = measure_suite(suite)
        assert summary.runs == []
        assert summary.exit_code == 0
    found = {row["cell"]: (row["outcome"], row["reason"]) for row in rows(results)}
    assert len(rows(results)) == 2
    assert found["a/lora/fake@cpu"] == ("skipped", "only the holes")
    assert found["a/lora/hf@cuda"][0] == "skipped"
    assert "cuda" in found["a/lora/hf@cuda"][1]
    assert [entry.action for entry in watching.plan.entries] == ["skip", "skip"]


def test_a_second_sweep_is_refused_at_once(measure_suite: Measured, write_suite: Callable[..., Path]) -> None:
    suite = write_suite({"a": {}})
    holder = {"pid": os.getpid(), "suite": "other", "since": "now"}
    with hold_machine(lock_path(), holder), pytest.raises(MachineBusy, match="suite other"):
        measure_suite(suite)
    assert measure_suite(suite)[0].exit_code == 0


def test_an_interrupt_ends_the_sweep_and_the_next_goes_on(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {"step_s": 0.3}, "b": {"step_s": 0.3}})

    def stop(event: Event) -> None:
        if isinstance(event, Step):
            os.kill(os.getpid(), signal.SIGINT)

    summary, _ = measure_suite(suite, Watching(stop))
    assert summary.exit_code == 130
    assert (summary.left, summary.left_because) == (2, "interrupted")
    assert [row["outcome"] for row in rows(results)] == ["interrupted"]
    again, _ = measure_suite(suite)
    assert [run.outcome for run in again.runs] == ["ok", "ok"]


def test_a_spent_budget_starts_nothing_more(measure_suite: Measured, write_suite: Callable[..., Path]) -> None:
    suite = write_suite({"a": {"step_s": 0.2}, "b": {"step_s": 0.2}})
    summary, _ = measure_suite(suite, budget_s=0.3)
    assert len(summary.runs) == 1
    assert (summary.left, summary.left_because, summary.exit_code) == (1, "the time budget is spent", 0)


@pytest.mark.parametrize(
    ("boot", "outcome"), [(None, "interrupted"), ("an earlier boot", "machine_lost")], ids=["harness killed", "machine down"]
)
def test_a_run_that_vanished_gets_its_row(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, machine: Machine, boot: str | None, outcome: str
) -> None:
    suite = write_suite({"a": {}})
    cell = read_only_cell(read_suite(suite), machine)
    marker = inflight.Marker(
        run_id=new_run_id(),
        started_at=datetime(2026, 11, 30, 1, tzinfo=UTC),
        machine="its-old-name",
        machine_id=machine.machine_id,
        suite="probe",
        question="Did it?",
        boot=boot or inflight.boot_id(),
        cell=cell,
    )
    with pytest.raises(InterruptedError), inflight.under_way(results, marker):
        raise InterruptedError
    _, watching = measure_suite(suite)
    found = {row["run_id"]: row for row in rows(results)}
    assert found[marker.run_id]["outcome"] == outcome
    assert found[marker.run_id]["started_at"].isoformat() == "2026-11-30T01:00:00+00:00"
    assert (found[marker.run_id]["machine"], found[marker.run_id]["question"]) == ("its-old-name", "Did it?")
    assert outcomes(results)["a", "ok"] == 1
    assert watching.notes
    assert not list((results / inflight.FOLDER).iterdir())


def read_only_cell(suite: Suite, machine: Machine) -> Cell:
    from bench.plan import plan

    return plan(suite, machine, {}).entries[0].cell


def test_a_marker_whose_row_is_stored_is_only_forgotten(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, machine: Machine
) -> None:
    suite = write_suite({"a": {}})
    summary, _ = measure_suite(suite)
    cell = read_only_cell(read_suite(suite), machine)
    marker = inflight.Marker(
         run_id=summary.runs[0].run_id,
        started_at=datetime(2026, 11, 30, 1, tzinfo=UTC),
        machine="another-name",
        machine_id=machine.machine_id,
        suite="probe",
        question="?",
        boot="x",
        cell=cell,
    )  # fmt: skip
    with pytest.raises(InterruptedError), inflight.under_way(results, marker):
        raise InterruptedError
    measure_suite(suite)
    assert outcomes(results) == {("a", "ok"): 1}


def test_what_cannot_be_stored_is_invalid_and_the_sweep_goes_on(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.append

    def particular(folder: Path, run: Run, *rest: Any) -> None:
        if run.cell.startswith("a/") and run.outcome == "ok":
            raise OverflowError("a value does not fit")
        append(folder, run, *rest)

    monkeypatch.setattr(store, "append", particular)
    summary, _ = measure_suite(write_suite({"a": {}, "b": {}}))
    assert {run.reason for run in summary.runs if run.outcome != "ok"} == {
        "what the worker told cannot be stored: a value does not fit"
    }
    assert outcomes(results) == {("a", "invalid"): 2, ("b", "ok"): 1}
    assert summary.exit_code == 3
    assert not list((results / inflight.FOLDER).iterdir())


def test_the_count_of_runs_to_come_never_promises_what_will_not_be_made(
    measure_suite: Measured, write_suite: Callable[..., Path]
) -> None:
    summary, watching = measure_suite(write_suite({"a": {"fail": "exit"}}, repeats=5))
    assert len(summary.runs) == 2
    assert watching.totals == [5, 6]


def test_damaged_results_are_named_and_exit_4(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    suite = write_suite({"a": {}})
    measure_suite(suite)
    victim = next((results / "runs").rglob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:100])
    summary, watching = measure_suite(suite)
    assert summary.exit_code == 4
    assert any(victim.name in note for note in watching.notes)


def test_an_interrupt_stops_the_entering_of_holes(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite({name: {} for name in "abcdef"})
    suite.write_text(suite.read_text() + '[[exclude]]\nbackend = "fake"\nreason = "all holes"\n')
    append = store.append

    def interrupting(*arguments: Any) -> None:
        append(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(store, "append", interrupting)
    summary, _ = measure_suite(suite)
    assert len(rows(results)) == 1
    assert summary.exit_code == 130


def test_two_sweeps_under_different_locks_do_not_take_each_others_runs(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite = write_suite({"a": {"step_s": 0.3}})
    inner: list[Summary] = []

    def sweep_again(event: Event) -> None:
        if isinstance(event, Step) and not inner:
            monkeypatch.setenv("WINGSPAN_LOCK", str(tmp_path / "another.lock"))
            inner.append(measure_suite(suite)[0])

    outer, _ = measure_suite(suite, Watching(sweep_again))
    assert [run.outcome for run in (*outer.runs, *inner[0].runs)] == ["ok", "ok"]
    assert outcomes(results) == {("a", "ok"): 2}


def test_run_ids_sort_by_time_and_never_repeat() -> None:
    made = [new_run_id() for _ in range(100)]
    assert len(set(made)) == 100
    assert [each[:16] for each in made] == sorted(each[:16] for each in made)


def test_a_summary_in_words(results: Path, fake_cell: Callable[..., Cell]) -> None:
    assert Summary().describe(results) == "nothing left to do"
    left = replace(Summary(), left=2, left_because="interrupted")
    assert left.describe(results) == "nothing measured; 2 runs left: interrupted (the same command goes on)"


def test_a_real_ctrl_c_exits_130_and_loses_nothing(write_suite: Callable[..., Path], results: Path) -> None:
    suite = write_suite({"a": {"step_s": 0.5}})
    command = [sys.executable, "-m", "bench", "run", str(suite), "--results", str(results)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    markers = results / inflight.FOLDER
    deadline_s = time.monotonic() + 30
    while not list(markers.glob("*.json")) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert [row["outcome"] for row in rows(results)] == ["interrupted"]


def test_a_limit_is_another_question(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    """A suite that is done without a limit is not done under one, and the other way round; each is, once it was measured."""
    suite = write_suite({"fits": {"peak_bytes": 1000}, "not": {"peak_bytes": [1000, 3000]}})
    limit = Limit(2000)
    assert measure_suite(suite)[0].exit_code == 0
    limited, _ = measure_suite(suite, limit=limit)
    assert limited.exit_code == 0
    assert {run.workload["model"]: (run.outcome, run.failed_at) for run in limited.runs} == {
        "fits": ("ok", None),
        "not": ("over_limit", "later step"),
    }
    assert {run.memory_limit for run in limited.runs} == {"accounting"}
    assert [measure_suite(suite)[0].runs, measure_suite(suite, limit=limit)[0].runs] == [[], []]
    assert len(measure_suite(suite, limit=Limit(2000, "pc-rtx-4090"))[0].runs) == 2
    assert len(measure_suite(suite, limit=Limit(4000))[0].runs) == 2
    assert len(rows(results)) == 8


def test_a_hole_is_entered_for_each_limit(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    suite = write_suite({"a": {}})
    suite.write_text(suite.read_text() + '[[exclude]]\nbackend = "fake"\nreason = "too dear"\n')
    for _ in range(2):
        measure_suite(suite)
        measure_suite(suite, limit=Limit(2000))
    found = sorted((row["outcome"], row["reason"], tuple(row["flags"])) for row in rows(results))
    assert found == [("skipped", "too dear", ()), ("skipped", "too dear", ("limited",))]


def test_a_limit_that_was_asked_for_taints_nothing(measure_suite: Measured, write_suite: Callable[..., Path]) -> None:
    suite = write_suite({"a": {"peak_bytes": 10}})
    summary, _ = measure_suite(suite, limit=Limit(2000), strict=True)
    assert [run.flags for run in summary.flagged if set(run.flags) == {"limited"}] == []
    assert all("limited" in run.flags for run in summary.runs)


def test_a_limit_above_what_there_is_measures_nothing(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {}})
    with pytest.raises(BadInput, match="asks for 17,179,869,185 bytes, and cpu of test-machine has 17,179,869,184"):
        measure_suite(suite, limit=Limit(16 * 2**30 + 1))
    with pytest.raises(BadInput, match="leave one out"):
        measure_suite(suite, limit=Limit(2000), precision=0.02)
    assert rows(results) == []


def test_a_run_that_a_kill_left_behind_keeps_its_limit(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, machine: Machine
) -> None:
    suite = write_suite({"a": {"peak_bytes": 10}})
    (cell,) = (entry.cell for entry in measure_suite(suite)[1].plan.entries)
    left = inflight.Marker(
        run_id=new_run_id(), started_at=datetime.now(UTC), machine=machine.name, machine_id=machine.machine_id, suite="probe",
        question="Does it?", boot=inflight.boot_id(), cell=cell, limit=Limit(2000, "pc-rtx-4090"),
    )  # fmt: skip
    with suppress(KeyboardInterrupt), inflight.under_way(results, left):
        raise KeyboardInterrupt
    measure_suite(suite)
    (row,) = (row for row in rows(results) if row["outcome"] == "interrupted")
    assert (row["tier"], row["capacity_bytes"], row["flags"]) == ("stand-in", 2000, ["limited"])


def test_a_computer_that_a_run_fills_ends_the_run_and_the_sweep_goes_on(
    measure_suite: Measured, write_suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "resident_bytes", lambda pid: 2**62)
    summary, _ = measure_suite(write_suite({"a": {}, "b": {}}), watchdog_share=1e-6)
    assert [(run.outcome, run.memory_limit) for run in summary.runs] == [("over_limit", "watchdog 0.0001%")] * 2
    assert all("of the computer's memory were in use" in (run.reason or "") for run in summary.runs)
    assert summary.exit_code == 0


def test_a_computer_that_others_fill_answers_nothing(measure_suite: Measured, write_suite: Callable[..., Path]) -> None:
    summary, _ = measure_suite(write_suite({"a": {}}), watchdog_share=1e-6)
    assert [run.outcome for run in summary.runs] == ["invalid"] * 2
    assert all("other programs the rest" in (run.reason or "") for run in summary.runs)
    assert summary.exit_code == 3


def test_parts_of_memory_are_stored_where_they_are_asked_for(
    write_suite: Callable[..., Path], measure_suite: Measured, results: Path
) -> None:
    """In long form, beside the meters' readings; the framework of this cell has no counter of its own, so they make its peak."""
    path = write_suite({"a": {"parts": {"weights": 700, "logits": 300}}})
    measure_suite(path, parts=True)
    (row,) = rows(results)
    told = [each for each in store.read(results, "readings").rows.to_pylist() if each["meter"] == "parts"]
    assert {each["scope"]: (each["quantity"], each["value"]) for each in told} == {
        "weights": ("part_bytes", 700.0),
        "logits": ("part_bytes", 300.0),
    }
    assert row["framework_peak_bytes"] == 1000
    assert dict(row["device_settings"])["framework_peak"] == "played"


def predicted_not_to_fit(machine: Machine, limit: Limit | None, results: Path) -> Callable[[Cell], Prediction]:
    """Stands in for `foreteller`: fake work, which is never predicted otherwise."""

    memory = uncalibrated(Cell(workload(model=catalogue().models["tiny-llama-xs"], method="lora"), "hf", "cpu"))

    def foretell(cell: Cell) -> Prediction:
        return Prediction(memory=memory, speed=Speed(tokens_per_s=9.5), capacity_bytes=10**6, fit_probability=0.0)

    return foretell


def test_what_is_predicted_not_to_fit_is_a_hole_with_its_prediction(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.run.foreteller", predicted_not_to_fit)
    summary, _ = measure_suite(write_suite({"a": {}}))
    (row,) = rows(results)
    assert (summary.runs, row["outcome"]) == ([], "skipped")
    assert row["reason"].startswith("needs about")
    assert (row["predicted_peak_bytes"] > 0, row["predicted_tokens_per_s"]) == (True, 9.5)


@pytest.mark.parametrize("how", [{"try_anyway": True}, {"limit": Limit(2**31)}])
def test_it_runs_where_somebody_insists_or_a_limit_asks_what_fits(
    measure_suite: Measured,
    write_suite: Callable[..., Path],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: dict[str, Any],
) -> None:
    monkeypatch.setattr("bench.run.foreteller", predicted_not_to_fit)
    measure_suite(write_suite({"a": {}}), **how)
    (row,) = rows(results)
    assert (row["outcome"], row["predicted_tokens_per_s"]) == ("ok", 9.5)


def nights(results: Path) -> Counter[tuple[str | None, str, str]]:
    return Counter((row["night"], row["model"], row["outcome"]) for row in rows(results))


def test_a_night_measures_anew_and_the_same_night_goes_on(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite, one, two = write_suite({"a": {}, "b": {}}), "2026-11-30", "2026-12-01"
    measure_suite(suite, night=one, only="a/*")
    measure_suite(suite, night=one)
    assert nights(results) == {(one, "a", "ok"): 1, (one, "b", "ok"): 1}
    assert measure_suite(suite, night=one)[0].runs == []
    measure_suite(suite, night=two, only="a/*")
    assert nights(results) == {(one, "a", "ok"): 1, (one, "b", "ok"): 1, (two, "a", "ok"): 1}
    assert len(measure_suite(suite, only="a/*")[0].runs) == 1, "no night's runs answer for what is asked without a night"
    assert measure_suite(suite, only="a/*")[0].runs == []
    assert len({row["epoch_digest"] for row in rows(results)}) == 1


def test_failures_of_one_night_do_not_give_a_cell_up_in_the_next(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {"fail": "exit"}})
    for night in ("2020-11-30", "2020-11-30", "2020-12-01"):
        measure_suite(suite, night=night)
    assert nights(results) == {("2020-11-30", "a", "crashed"): 2, ("2020-12-01", "a", "crashed"): 2}


def test_a_cell_that_ran_in_an_earlier_night_is_not_skipped_for_a_prediction(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write_suite({"a": {}})
    measure_suite(suite, night="2020-11-30")
    monkeypatch.setattr("bench.run.foreteller", predicted_not_to_fit)
    measure_suite(suite, night="2020-12-01")
    assert nights(results) == {("2020-11-30", "a", "ok"): 1, ("2020-12-01", "a", "ok"): 1}


def test_holes_are_entered_once_a_night(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.run.foreteller", predicted_not_to_fit)
    suite = write_suite({"a": {}})
    for night in ("2020-11-30", "2020-11-30", "2020-12-01"):
        measure_suite(suite, night=night)
    assert nights(results) == {("2020-11-30", "a", "skipped"): 1, ("2020-12-01", "a", "skipped"): 1}


def test_a_run_that_a_kill_left_behind_is_entered_for_its_own_night(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path, machine: Machine
) -> None:
    suite = write_suite({"a": {}})
    left = inflight.Marker(
        run_id=new_run_id(), started_at=datetime.now(UTC), machine=machine.name, machine_id=machine.machine_id, suite="probe",
        question="Does it?", boot=inflight.boot_id(), cell=read_only_cell(read_suite(suite), machine), night="2020-11-30",
    )  # fmt: skip
    with suppress(KeyboardInterrupt), inflight.under_way(results, left):
        raise KeyboardInterrupt
    measure_suite(suite, night="2020-12-01")
    assert nights(results) == {("2020-11-30", "a", "interrupted"): 1, ("2020-12-01", "a", "ok"): 1}


def test_a_run_under_way_bears_its_night(measure_suite: Measured, write_suite: Callable[..., Path], results: Path) -> None:
    seen: list[str] = []

    def look(_: Event) -> None:
        seen.extend(path.read_text() for path in (results / inflight.FOLDER).glob("*.json"))

    measure_suite(write_suite({"a": {}}), Watching(look), night="2020-11-30")
    assert seen
    assert all('"night": "2020-11-30"' in text for text in seen)


def test_a_night_that_is_no_date_is_refused_before_anything_is_touched(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    with pytest.raises(BadInput, match="'yesterday' is no night"):
        measure_suite(write_suite({"a": {}}), night="yesterday")
    assert not results.exists()


def test_a_sweep_keeps_the_list_of_packages_and_says_where_it_is_damaged(
    measure_suite: Measured, write_suite: Callable[..., Path], results: Path
) -> None:
    suite = write_suite({"a": {}})
    measure_suite(suite)
    (row,) = rows(results)
    found = environments.load(results, row["environment_digest"])
    assert found == environments.installed()
    path = environments.file_of(results, found.digest)
    path.write_text("{")
    summary, watching = measure_suite(suite, resume=False)
    assert summary.exit_code == 0
    note = f"{path}: is damaged: no list of packages (JSONDecodeError); remove it, and the next sweep writes it anew"
    assert note in watching.notes
