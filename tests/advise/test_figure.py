"""Figures: their arithmetic, and how far their intervals say that they may be off."""

import math

import pytest

from bench.advise.figure import LONE_SPREAD, Z95, Figure
from bench.predict.capacity import Z80

RATE = Figure(value=100.0, low=80.0, high=125.0, tier="predicted", evidence=("rules",))


def test_how_long_a_total_takes_turns_the_interval_over() -> None:
    found = RATE.dividing(1000.0)
    assert (found.low, found.value, found.high) == (8.0, 10.0, 12.5)


def test_times_a_factor() -> None:
    found = RATE.times(2.0)
    assert (found.low, found.value, found.high) == (160.0, 200.0, 250.0)


@pytest.mark.parametrize(("tier", "z"), [("predicted", Z80), ("measured", Z95)])
def test_the_spread_is_read_from_the_interval_by_its_level(tier, z) -> None:
    found = Figure(value=100.0, low=100 / math.exp(z * 0.3), high=100 * math.exp(z * 0.3), tier=tier, evidence=())
    assert found.spread == pytest.approx(0.3)


def test_a_lone_run_has_an_assumed_spread() -> None:
    assert Figure(value=1.0, low=None, high=None, tier="measured", evidence=("r",)).spread == LONE_SPREAD
