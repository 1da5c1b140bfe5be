"""Factors between rungs: those that stand, and those that are refused."""

import math

import pandas as pd
import pytest
from ladder_rows import VERSIONS, rung_row, whole_ladder

from bench import ladder


def factors(rows: list[dict], metric: str = "tokens_per_s") -> dict[tuple[str, str], dict]:
    found = ladder.factors(ladder.rungs(pd.DataFrame(rows)), metric)
    return {(row["above"], row["below"]): row for row in found.to_dict("records")}


def test_every_rung_stands_against_every_other_with_interval_and_n():
    found = factors(whole_ladder())
    assert {pair: round(row["ratio"], 3) for pair, row in found.items()} == {
        ("2-sdpa", "1-eager"): 2.0,
        ("8-unsloth", "1-eager"): 4.0,
        ("8-unsloth", "2-sdpa"): 2.0,
    }
    for row in found.values():
        assert row["low"] < row["ratio"] < row["high"] < 1.04 * row["ratio"]
        assert (row["n_above"], row["n_below"], row["refused"]) == (3, 3, "")
        assert (row["machine"], row["work"]) == ("pc-rtx-4090", "llama-3.1-8b/qlora")


def test_memory_is_divided_in_the_same_way():
    found = factors(whole_ladder(), "framework_peak_bytes")
    assert found["8-unsloth", "2-sdpa"]["ratio"] == pytest.approx(0.5)
    assert found["8-unsloth", "1-eager"]["ratio"] == pytest.approx(5 / 12)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"versions": sorted((VERSIONS | {"torch": "2.15.0"}).items())},
            "the versions of torch differ (2.15.0 against 2.14.1)",
        ),
        (
            {"versions": sorted((VERSIONS | {"transformers": "5.24.0"}).items())},
            "the versions of transformers differ (5.24.0 against 5.17.0)",
        ),
        ({"versions": [("python", "3.12.3")]}, "the version of torch was not recorded on both sides"),
        ({"tokens_digest": "0e0e"}, "they were given different tokens"),
        ({"steps": 13}, "they took different numbers of measured steps (10 against 20)"),
        ({"trainable_parameters": 20_000_000}, "trainable parameters differ by 52.32% (20,000,000 against 41,943,040)"),
        ({"outcome": "crashed"}, "unsloth@cuda on pc-rtx-4090 has no clean run (3 crashed)"),
        ({"flags": ["throttled"]}, "unsloth@cuda on pc-rtx-4090 has no clean run (3 ok (3 flagged))"),
    ],
)
def test_what_is_no_rung_of_the_same_ladder_is_refused(fields, reason):
    found = factors(whole_ladder(**fields))
    assert found["2-sdpa", "1-eager"]["refused"] == ""
    for below in ("1-eager", "2-sdpa"):
        row = found["8-unsloth", below]
        assert row["refused"] == reason
        assert all(math.isnan(row[name]) for name in ("ratio", "low", "high"))


def test_other_work_under_the_same_name_is_refused_and_not_pooled():
    rows = whole_ladder() + [rung_row("8-unsloth", index, workload_digest="fedcba9876543210") for index in range(3)]
    found = factors(rows)
    assert {pair[0] for pair in found} == {"2-sdpa #012345", "8-unsloth #012345", "8-unsloth #fedcba"}
    assert found["8-unsloth #fedcba", "2-sdpa #012345"]["refused"].startswith("the work differs")
    assert found["8-unsloth #012345", "2-sdpa #012345"]["ratio"] == pytest.approx(2, rel=1e-3)


def test_a_rung_that_was_done_in_two_ways_is_refused():
    rows = [*whole_ladder(), rung_row("2-sdpa", 3, implementation=[("attention", "eager")])]
    found = factors(rows)
    assert found["8-unsloth", "2-sdpa"]["refused"] == "2-sdpa: its runs were done in 2 different ways"
    assert found["8-unsloth", "1-eager"]["refused"] == ""


def test_machines_are_ladders_of_their_own():
    rows = whole_ladder() + [rung_row("2-sdpa", index, machine="h200", machine_id="9") for index in range(3)]
    assert set(factors(rows)) == set(factors(whole_ladder()))


def test_a_run_without_an_implementation_neither_hides_nor_splits_its_rung():
    """It ended before its model stood."""
    rows = [*whole_ladder(), rung_row("2-sdpa", 3, outcome="oom_device", implementation=[], versions=[])]
    found = factors(rows)
    assert found["8-unsloth", "2-sdpa"]["refused"] == ""
    assert found["8-unsloth", "2-sdpa"]["n_below"] == 3


@pytest.mark.parametrize("fields", [{"cell": "llama-3.1-8b/qlora/hf@cuda"}, {"tier": "stand-in"}])
def test_what_is_no_measured_arm_is_no_rung(fields):
    assert ladder.rungs(pd.DataFrame([rung_row("2-sdpa", **fields)])).empty


def test_two_ladders_that_call_the_same_work_by_different_names_are_one():
    other = [{**rung_row("8-unsloth", index), "cell": "8b/qlora/unsloth@cuda/rank=16/arm=8-unsloth"} for index in range(3)]
    found = factors([*(rung_row("1-eager", index) for index in range(3)), *other])
    assert {pair: (round(row["ratio"], 3), row["refused"]) for pair, row in found.items()} == {
        ("8-unsloth", "1-eager"): (4.0, "")
    }
