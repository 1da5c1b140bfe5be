"""Factors and spreads of peaks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from observed import CELL, memory, observation, ten_gb

from bench.predict.fit_memory import Residual, corrections, guess, residuals
from bench.predict.prediction import Memory
from bench.spec import Cell

Z80 = 1.2816


@pytest.mark.parametrize(
    ("quantity", "expected"), [("peak", 10e9), ("reserved", 15e9), ("held", 20e9), ("unstated", 200**0.5 * 1e9)]
)
def test_each_meter_compares_with_its_own_quantity(quantity: str, expected: float) -> None:
    assert math.exp(guess(observation(), quantity, ten_gb).log_bytes) == pytest.approx(expected)


def test_full_logits_take_what_their_loss_takes_of_each() -> None:
    logits = 2048 * 128_256
    standard = guess(observation(logit_bytes=14), "peak", ten_gb)
    fast = guess(observation(logit_bytes=8), "peak", ten_gb)
    assert math.exp(standard.log_bytes) == pytest.approx(20e9)
    assert math.exp(fast.log_bytes) == pytest.approx(20e9 - 6 * logits)


def test_a_loss_cannot_lower_the_peak_of_the_rest() -> None:
    def flat(cell: Cell, full_logits: bool) -> Memory:
        return memory(10 * 10**9)

    assert math.exp(guess(observation(logit_bytes=8), "peak", flat).log_bytes) == pytest.approx(10e9)


def test_open_conditions_widen() -> None:
    def by_batch(cell: Cell, full_logits: bool) -> Memory:
        return memory(cell.workload.batch_size * 10**10)

    twice = replace(CELL, workload=replace(CELL.workload, batch_size=4))
    found = guess(observation(cells=(CELL, twice)), "peak", by_batch)
    assert math.exp(found.log_bytes) == pytest.approx(20e9)
    assert found.open_spread == pytest.approx(math.log(2))
    assert found.rules_spread == pytest.approx(math.log(1.21) / (2 * Z80), rel=1e-3)


def test_meters_and_conditions_are_kept_apart() -> None:
    rows = [
        observation(peak_bytes=10**10),
        observation(id="a-2", meter="reserved", peak_bytes=10**10),
        observation(id="a-3", peak_bytes=10**10, missing=("rank",)),
        observation(id="a-4", peak_bytes=10**10, own=False),
        observation(id="a-5", peak_bytes=10**10, meter="process"),
    ]
    keys = [each.key[1] for each in residuals(rows, ten_gb)]
    assert keys == ["peak", "reserved", "peak, open conditions", "peak, another stack"]


def test_a_source_counts_once_by_its_rows_at_most_as_much_as_the_rules() -> None:
    """A source of one row weighs half of one that never ends, so that a single row cannot move every prediction."""
    key = ("hf", "peak")
    many = [Residual(key, "a", 0.2, 0.05) for _ in range(20)]
    found = corrections([*many, Residual(key, "b", -0.2, 0.05)])[key]
    total = 20 / 21 + 1 / 2 + 1
    middle = (20 / 21 - 1 / 2) * 0.2 / total
    squares = 20 / 21 * (0.2 - middle) ** 2 + 1 / 2 * (0.2 + middle) ** 2
    assert found.factor == pytest.approx(math.exp(middle), rel=1e-3)
    assert found.spread == pytest.approx(math.sqrt((0.05**2 + squares) / total), rel=1e-3)
    alone = corrections(many)[key]
    assert alone.factor == pytest.approx(math.exp(0.2 * (20 / 21) / (20 / 21 + 1)), rel=1e-3)
    assert (alone.rows, alone.sources) == (20, 1)


def test_agreement_narrows_and_never_to_nothing() -> None:
    key = ("hf", "peak")
    found = corrections([Residual(key, source, 0.0, 0.05) for source in "abcdefghijklmnop"])[key]
    assert found.spread == 0.02
