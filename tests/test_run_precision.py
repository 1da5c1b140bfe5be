"""`--precision`: rounds of further runs until intervals are narrow, or word of how many more it would take. `--strict`."""

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_run import Watching

from bench import precision, store
from bench.record import Machine, Run
from bench.run import Options, Summary, sweep
from bench.spec import Cell
from bench.suite import read_suite
from bench.sweep.measuring import Measuring, new_run_id, now
from bench.sweep.rows import run_row

FEWEST = precision.IN_A_ROW + 1
Sweep = Callable[..., tuple[Summary, Watching]]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, machine: Machine, write_suite: Callable[..., Path]) -> Sweep:
    """A sweep whose runs take no time: each stores the next rate of its model's spread, flagged where said."""
    random_ = random.Random(5)

    def play(spreads: dict[str, float], flags: tuple[str, ...] = (), outcome: str = "ok", **options: Any) -> Any:
        def run(self: Measuring, cell: Cell) -> Run:
            rate = 1000.0 * math.exp(random_.gauss(0, spreads[cell.workload.model.name]))
            row = run_row(self.context, cell, new_run_id(), now(), outcome, None)  # type: ignore[arg-type]
            made = row.__class__(**{**{name: getattr(row, name) for name in row.__slots__}, "tokens_per_s": rate, "flags": flags})
            store.append(self.results, made)
            return made

        monkeypatch.setattr(Measuring, "run", run)
        path = write_suite({name: {} for name in spreads}, repeats=3)
        watching = Watching()
        return sweep(read_suite(path), machine, Options(results=tmp_path / "results", **options), watching), watching

    return play


def test_without_a_precision_the_suites_repeats_are_made(played: Sweep) -> None:
    summary, watching = played({"a": 0.5, "b": 0.001})
    assert Counter(watching.cells) == {"a": 3, "b": 3}
    assert summary.wide == {}


def test_runs_are_added_until_each_interval_is_narrow(played: Sweep) -> None:
    summary, watching = played({"quiet": 0.001, "loud": 0.03}, precision=0.02)
    counts = Counter(watching.cells)
    assert counts["quiet"] == FEWEST
    assert FEWEST < counts["loud"] < precision.MOST_RUNS
    assert summary.wide == {}
    assert (summary.left, summary.exit_code) == (0, 0)
    assert Counter(watching.cells[6:14]) == {"quiet": 4, "loud": 4}  # round by round, not one cell after the other


def test_a_second_call_asks_for_no_more_than_is_missing(played: Sweep) -> None:
    played({"a": 0.001})
    _, watching = played({"a": 0.001}, precision=0.02)
    assert len(watching.cells) == FEWEST - 3
    assert played({"a": 0.001}, precision=0.02)[1].cells == []


def test_what_stays_wide_says_how_many_more_it_would_need(played: Sweep) -> None:
    summary, watching = played({"wild": 0.5}, precision=0.01)
    assert len(watching.cells) == precision.MOST_RUNS
    assert list(summary.wide) == ["wild/lora/fake@cpu"]
    assert (summary.wide["wild/lora/fake@cpu"] or 0) > 1000
    assert summary.exit_code == 0


def test_a_spent_budget_says_it_too(played: Sweep) -> None:
    played({"a": 0.03})
    summary, watching = played({"a": 0.03}, precision=0.02, budget_s=0.0)
    assert watching.cells == []
    assert summary.left == 1
    assert (summary.wide["a/lora/fake@cpu"] or 0) >= FEWEST - 3


def test_runs_that_are_always_flagged_are_given_up_and_named(played: Sweep) -> None:
    summary, watching = played({"a": 0.001}, flags=("cpu-contention",), precision=0.02)
    assert len(watching.cells) == FEWEST
    assert summary.wide == {"a/lora/fake@cpu": None}
    again, watching = played({"a": 0.001}, flags=("cpu-contention",), precision=0.02)
    assert watching.cells == []
    assert again.wide == {"a/lora/fake@cpu": None}


def test_one_flagged_run_at_the_start_does_not_end_the_search(played: Sweep) -> None:
    played({"a": 0.001}, flags=("cpu-contention",), repeats=1)
    summary, watching = played({"a": 0.001}, repeats=1, precision=0.02)
    assert len(watching.cells) == FEWEST
    assert summary.wide == {}


def test_flags_that_spoil_energy_alone_leave_the_rate_clean(played: Sweep) -> None:
    _, watching = played({"a": 0.001}, flags=("short-energy-window",), precision=0.02)
    assert len(watching.cells) == FEWEST


def test_a_cell_without_a_rate_is_not_measured_again(played: Sweep) -> None:
    _, watching = played({"a": 0.001}, outcome="oom_device", precision=0.02)
    assert len(watching.cells) == 3


@pytest.mark.parametrize(("flags", "code"), [(("slept",), 4), ((), 0)])
def test_strict_taints_a_sweep_with_flagged_runs(played: Sweep, flags: tuple[str, ...], code: int) -> None:
    assert played({"a": 0.001}, flags=flags, strict=True)[0].exit_code == code
    again, watching = played({"a": 0.001}, strict=True)
    assert watching.cells == []
    assert again.exit_code == code  # what was stored flagged stays doubtful
    assert ("3 flagged before" in again.describe(Path("results"))) is bool(flags)
    assert played({"a": 0.001})[0].exit_code == 0
