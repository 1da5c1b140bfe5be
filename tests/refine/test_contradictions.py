"""Claims against one another: planted clashes are found, and the lesson's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advised import MAC, PC
from claim_rows import claim

from bench.catalog import machine_profiles
from bench.claims.claim import Side
from bench.claims.reader import CLAIMS, read_claims
from bench.refine.contradictions import contradictions, table_fits

CARD, STUDIO = Side(machines=(PC,)), Side(machines=(MAC,))
EIGHT, FOURTEEN = "llama-3.1-8b", "qwen3-14b"


def cell(value: float, model: str = EIGHT, method: str = "qlora"):
    made = claim("value", quantity="peak_bytes", expected=(value, value), models=(model,), methods=(method,))
    return replace(made, id=f"cell.{method}.{model}")


def per(low: float, high: float):
    return claim("range", quantity="peak_bytes_per_parameter", expected=(low, high), models=(EIGHT, FOURTEEN), methods=("qlora",))


def fit(word: str, side: Side = CARD):
    return claim("fit", fits=word, sides=(side,), models=(EIGHT,), methods=("qlora",))


def winner(word: str):
    return claim("winner", winner=word, sides=(CARD, STUDIO), models=(EIGHT,), methods=("qlora",))


FASTER = claim("ratio", quantity="tokens_per_s", expected=(2, 4), sides=(CARD, STUDIO), models=(EIGHT,), methods=("qlora",))


def clashes(*claims):
    return contradictions(claims, machine_profiles())


@pytest.mark.parametrize(
    ("value", "found"),
    [(6.4e9, None), (4.8e9, None), (9.6e9, 1.5), (2.4e9, 2.0), (7.0e9, 1.09375)],
)
def test_a_cell_against_its_rule(value, found) -> None:
    """Of 8·10⁹ parameters, 0.6 to 0.8 bytes each."""
    clash = clashes(cell(value), per(0.6, 0.8))
    assert [each.factor for each in clash] == ([] if found is None else [pytest.approx(found)])
    assert all(each.tolerated == (found is not None and found <= 1.15) for each in clash)


@pytest.mark.parametrize(
    ("value", "word", "clash"),
    [
        (20e9, "yes", False), (30e9, "yes", True), (20e9, "no", True), (30e9, "no", False),
        (24e9, "tight", False), (12e9, "tight", True), (30e9, "tight", True), (12e9, "crash", True), (30e9, "slow", False),
    ],
)  # fmt: skip
def test_a_cell_against_a_fit(value, word, clash) -> None:
    found = clashes(cell(value), fit(word))
    assert bool(found) == clash
    assert all((each.clash, each.machine, each.work) == ("a cell and a fit", PC, "8b qlora") for each in found)


def test_a_winner_that_lacks_the_memory() -> None:
    (found,) = clashes(cell(100e9), winner("second"))
    assert (found.clash, found.machine, found.factor) == ("a cell and a winner", MAC, pytest.approx(100e9 / 77309411328))
    assert clashes(cell(50e9), winner("second")) == ()


@pytest.mark.parametrize("able", [cell(12e9), cell(24e9)])
def test_a_loser_that_can_do_it_too_and_faster(able) -> None:
    """By the cell, with room; or, where the cell leaves too little, by a claim of fit."""
    found = clashes(able, winner("second"), FASTER, fit("tight"))
    named = [each.claims for each in found if each.clash == "a winner and what both can do"]
    assert named == [("a.winner", "cell.qlora.llama-3.1-8b" if able.expected.low == 12e9 else "a.fit", "a.ratio")]


@pytest.mark.parametrize(
    "claims",
    [
        (cell(12e9), winner("second")),  # nobody says that the card is faster
        (cell(12e9), winner("first"), FASTER),
        (cell(12e9), winner("tie"), FASTER),
        (cell(24e9), winner("second"), FASTER),  # a cell that leaves a tenth says nothing
        (cell(12e9), winner("second"), replace(FASTER, sides=(STUDIO, CARD))),
    ],
)
def test_no_clash(claims) -> None:
    assert clashes(*claims) == ()


def test_a_planted_fixed_part_is_found_in_a_table() -> None:
    table = [
        cell(0.8e9 + 0.7 * size, name)
        for size, name in ((1e9, "llama-3.2-1b"), (8e9, EIGHT), (14e9, FOURTEEN), (32e9, "qwen3-32b"))
    ]
    (found,) = table_fits(table)
    assert found.with_fixed.fixed.value == pytest.approx(0.8e9)
    assert found.with_fixed.per_parameter.value == pytest.approx(0.7)
    assert found.better > 100
    assert table_fits(table[:2]) == ()


def test_the_lessons_own_contradictions() -> None:
    """Those that shared/lesson-claims.md names as leads, found by computing."""
    found = contradictions(read_claims(CLAIMS), machine_profiles())
    surely = {(each.clash, each.work) for each in found if not each.tolerated}
    assert {
        ("a cell and its rule", "1b lora"),
        ("a cell and its rule", "1b qlora"),
        ("a cell and its rule", "4b qlora"),
        ("a winner and what both can do", "14b qlora"),
        ("a winner and what both can do", "32b qlora"),
        ("a cell and a winner", "70b full"),
    } <= surely
    assert not any(work == "8b lora" for _, work in surely)


def test_a_fixed_part_describes_the_lessons_table_better_than_a_slope_alone() -> None:
    found = {each.method: each for each in table_fits(read_claims(CLAIMS))}
    assert found["lora"].better > 3
    assert found["qlora"].better > 3
    assert found["qlora"].with_fixed.fixed.low > 0
    assert found["full"].with_fixed.fixed.low < 0  # the full column is a slope alone, as far as its rounding tells
