"""Which nights speak of today."""

from __future__ import annotations

from datetime import date
from random import Random

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.nights import latest

TODAY = date(2026, 11, 30)


def run(run_id: str, night: str | None, outcome: str = "ok", **other: str) -> dict[str, str | None]:
    return {"run_id": run_id, "machine_id": "m", "cell_key": "c", "tier": "measured", "night": night, "outcome": outcome} | other


def kept(*rows: dict[str, str | None]) -> list[str]:
    return list(latest(pd.DataFrame(list(rows)), TODAY)["run_id"])


def test_the_last_night_counts_and_so_does_what_no_night_made() -> None:
    assert kept(run("a", "2026-11-01"), run("b", "2026-11-02"), run("c", None), run("d", "2026-11-02")) == ["b", "c", "d"]


def test_each_cell_machine_and_tier_has_a_last_night_of_its_own() -> None:
    rows = [run("a", "2026-11-01"), run("b", "2026-11-02", cell_key="d"), run("e", "2026-11-03", machine_id="n")]
    assert kept(*rows, run("f", "2026-11-04", tier="stand-in")) == ["a", "b", "e", "f"]


@pytest.mark.parametrize("outcome", ["crashed", "skipped", "unsupported", "interrupted"])
def test_a_night_without_an_answer_does_not_replace_one_that_has_one(outcome: str) -> None:
    assert kept(run("a", "2026-11-01"), run("b", "2026-11-02", outcome)) == ["a"]
    assert kept(run("a", "2026-11-01", outcome), run("b", "2026-11-02", outcome)) == ["b"]


def test_running_out_of_memory_is_an_answer() -> None:
    assert kept(run("a", "2026-11-01"), run("b", "2026-11-02", "oom_device")) == ["b"]


def test_a_night_to_come_counts_where_a_cell_has_no_other() -> None:
    """From a clock that was wrong, or a slip of the hand; tomorrow's is no such night."""
    wrong = run("w", "2099-01-01")
    assert kept(run("a", "2026-11-29"), run("b", "2026-11-30"), wrong) == ["b"]
    assert kept(run("a", "2026-11-30"), run("b", "2026-12-01")) == ["b"]
    assert kept(run("a", "2026-12-01", "crashed"), wrong) == ["a"]
    assert kept(run("v", "2098-01-01"), wrong, run("c", None)) == ["w", "c"]
    assert kept(run("a", "2026-11-30"), run("x", "2099-01-01", cell_key="d")) == ["a", "x"]


def test_today_is_the_clocks_where_not_given() -> None:
    rows = pd.DataFrame([run("a", "2020-01-01"), run("w", "9999-01-01")])
    assert list(latest(rows)["run_id"]) == ["a"]


def test_runs_without_nights_are_left_alone() -> None:
    rows = pd.DataFrame([run("a", None), run("b", None)])
    pd.testing.assert_frame_equal(latest(rows), rows)
    old = rows.drop(columns="night")
    pd.testing.assert_frame_equal(latest(old), old)
    assert latest(pd.DataFrame()).empty


@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["ok", "crashed"]), st.sampled_from("cd")), min_size=1), st.randoms()
)
def test_the_order_of_rows_says_nothing(rows: list[tuple[int, str, str]], random: Random) -> None:
    made = [run(str(k), f"2026-11-0{night}", outcome, cell_key=cell) for k, (night, outcome, cell) in enumerate(rows)]
    shuffled = list(made)
    random.shuffle(shuffled)
    found = kept(*made)
    assert found
    assert sorted(found) == sorted(kept(*shuffled))
