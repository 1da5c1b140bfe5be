"""When a cell has been run often enough for the precision asked for."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import precision
from bench.intervals import interval

NARROW = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8, 100.1]
WIDE = [80.0, 125.0, 95.0, 110.0, 130.0, 75.0, 100.0]


def stopped(rates: NDArray[np.float64], wanted: float) -> int:
    """After how many of these runs a sweep stops that makes as many as it is told to, up to the ceiling."""
    n = 0
    while n < precision.MOST_RUNS and (more := precision.missing(list(rates[:n]), wanted)):
        n = min(precision.MOST_RUNS, n + more)
    return n


def simulate(count: int, spread: float, wanted: float) -> tuple[float, float]:
    """(coverage of the reported interval at stopping, mean runs); log-normal rates around 1000."""
    paths = 1000 * np.exp(np.random.default_rng(1).normal(0, spread, (count, precision.MOST_RUNS)))
    runs = [stopped(path, wanted) for path in paths]
    found = [interval(path[:n]) for path, n in zip(paths, runs, strict=True)]
    return float(np.mean([low <= 1000 <= high for _, low, high in found])), float(np.mean(runs))


@pytest.mark.parametrize(
    ("count", "spread", "wanted", "most"),
    [(1000, 0.005, 0.05, 7.5), (1000, 0.005, 0.01, 9), (1000, 0.01, 0.01, 12.5), (800, 0.03, 0.02, 17), (400, 0.1, 0.05, 25)],
)
def test_the_interval_at_stopping_covers_as_often_as_it_should_at_the_cost_stated(
    count: int, spread: float, wanted: float, most: float
) -> None:
    covered, runs = simulate(count, spread, wanted)
    assert covered >= 0.93
    assert runs <= most


def test_stopping_at_the_first_narrow_interval_would_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "IN_A_ROW", 1)
    monkeypatch.setattr(precision, "FEWEST_RUNS", 2)
    covered, _ = simulate(800, 0.03, 0.02)
    assert covered < 0.92


def test_what_stopped_is_as_narrow_as_asked() -> None:
    rates = 1000 * np.exp(np.random.default_rng(2).normal(0, 0.03, precision.MOST_RUNS))
    n = stopped(rates, 0.02)
    mean, low, high = interval(rates[:n])
    assert precision.IN_A_ROW < n < precision.MOST_RUNS
    assert mean * 0.98 <= low <= high <= mean * 1.02


def test_runs_that_agree_are_enough_after_seven() -> None:
    assert [precision.missing(NARROW[:n], 0.02) for n in range(8)] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_one_wide_interval_starts_the_count_again() -> None:
    assert precision.missing([*NARROW, 120.0], 0.02) == precision.IN_A_ROW


def test_equal_rates_are_precise() -> None:
    assert precision.missing([100.0] * 7, 0.001) == 0
    assert precision.needed([100.0] * 2, 0.001) == precision.missing([100.0] * 2, 0.001) == 5


def test_what_is_no_rate_does_not_count() -> None:
    assert precision.missing([*NARROW[:3], 0.0, math.nan, -1.0, math.inf], 0.02) == precision.missing(NARROW[:3], 0.02) == 4
    assert precision.needed([0.0, math.nan, 100.0], 0.02) is None


@pytest.mark.parametrize("rates", [[], [100.0]])
def test_nothing_can_be_estimated_from_fewer_than_two(rates: list[float]) -> None:
    assert precision.needed(rates, 0.02) is None
    assert precision.missing(rates, 0.02) > 0


def test_nothing_more_is_needed_when_it_is_precise() -> None:
    assert precision.needed(NARROW, 0.02) == 0


def test_beyond_the_ceiling_a_wide_cell_still_tells_how_many_more_it_would_need() -> None:
    rates = [*WIDE * 8]
    assert len(rates) > precision.MOST_RUNS
    assert precision.missing(rates, 0.01) > 0
    needs = precision.needed(rates, 0.01)
    spread = np.log(rates).std(ddof=1)
    assert needs == pytest.approx((1.96 * spread / 0.01) ** 2 - len(rates), rel=0.03)


def test_the_estimate_is_what_runs_of_that_spread_do_need() -> None:
    rates = [float(rate) for rate in 1000 * np.exp(np.random.default_rng(3).normal(0, 0.03, 400))]
    needs = precision.needed(rates[:40], 0.01)
    assert needs is not None
    n = next(n for n in range(2, 400) if precision.missing(rates[:n], 0.01) == 0)
    assert 40 + needs == pytest.approx(n, rel=0.35)
