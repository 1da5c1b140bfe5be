"""The probability that a cell fits."""

import math

import pytest

from bench.predict.capacity import fit_probability
from bench.predict.prediction import PARTS, Memory, verdict


def held(value, low, high):
    zero = dict.fromkeys(PARTS, 0)
    return Memory(
        parts=zero, peak_bytes=value, peak_low_bytes=low, peak_high_bytes=high,
        held_bytes=value, held_low_bytes=low, held_high_bytes=high, how="rules",
    )  # fmt: skip


def test_the_ends_of_the_interval_are_the_bounds_of_the_verdict():
    memory = held(10**10, 9 * 10**9, 12 * 10**9)
    assert fit_probability(memory, 10**10) == pytest.approx(0.5)
    assert fit_probability(memory, 12 * 10**9) == pytest.approx(0.9)
    assert fit_probability(memory, 9 * 10**9) == pytest.approx(0.1)
    assert [verdict(fit_probability(memory, at)) for at in (12_000_000_001, 10**10, 8_999_999_999)] == ["yes", "tight", "no"]


def test_each_side_has_its_own_width():
    memory = held(10**10, 5 * 10**9, 11 * 10**9)
    above, below = (fit_probability(memory, round(10**10 * math.exp(away))) for away in (0.05, -0.05))
    assert above - 0.5 > 0.5 - below


def test_an_interval_without_width_is_no_certainty_at_the_value_itself():
    memory = held(10**10, 10**10, 10**10)
    assert fit_probability(memory, 10**10) == pytest.approx(0.5)
    assert fit_probability(memory, 11 * 10**9) == pytest.approx(1.0)


def test_no_capacity_fits_nothing():
    assert fit_probability(held(10**10, 9 * 10**9, 12 * 10**9), 0) == pytest.approx(0.0)
