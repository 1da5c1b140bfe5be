"""Geometric means, and intervals that cover as often as they say."""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from bench import intervals

STEPS = 11
TRUTH = 1000.0
EQUAL_SIDES = [(3, 2000), (5, 2000), (10, 2000), (30, 1000)]


def test_ratio_and_interval_are_welchs() -> None:
    above, below = (200.0, 210.0, 190.0), (100.0, 105.0, 101.0)
    found = intervals.ratio_interval(above, below)
    welch = stats.ttest_ind(np.log(above), np.log(below), equal_var=False).confidence_interval()
    assert found == pytest.approx((np.exp(np.log(above).mean() - np.log(below).mean()), np.exp(welch.low), np.exp(welch.high)))


def test_the_interval_is_students_below_ten_runs() -> None:
    values = [100.0, 103.0, 98.0, 101.0]
    logs = np.log(values)
    bounds = stats.ttest_1samp(logs, 0).confidence_interval()
    assert intervals.interval(values) == pytest.approx((np.exp(logs.mean()), np.exp(bounds.low), np.exp(bounds.high)))


def repeated(seed: int, count: int, n: int, spread: float) -> NDArray[np.float64]:
    """(count, n): medians of steps; a run has an effect of its own, and each of its steps noise as large again."""
    random = np.random.default_rng(seed)
    steps = random.normal(0, spread, (count, n, 1)) + random.normal(0, spread, (count, n, STEPS))
    return TRUTH * np.exp(np.median(steps, axis=2))


def coverage(found: Iterable[tuple[float, float, float] | None], truth: float) -> float:
    return float(np.mean([low <= truth <= high for _, low, high in filter(None, found)]))


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1])
@pytest.mark.parametrize(("n", "count"), EQUAL_SIDES)
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int, count: int, spread: float) -> None:
    found = map(intervals.interval, repeated(1, count, n, spread))
    assert 0.93 <= coverage(found, TRUTH) <= 0.97


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.1])
@pytest.mark.parametrize(("n", "count"), EQUAL_SIDES)
def test_the_ratios_interval_covers_the_truth_as_often_as_it_says(n: int, count: int, spread: float) -> None:
    found = map(intervals.ratio_interval, repeated(2, count, n, spread), repeated(3, count, n, spread))
    assert 0.93 <= coverage(found, 1) <= 0.97


@pytest.mark.parametrize(
    ("above", "below"), [((3, 0.03), (5, 0.03)), ((3, 0.1), (10, 0.01)), ((10, 0.1), (10, 0.01)), ((10, 0.03), (30, 0.03))]
)
def test_the_ratios_interval_covers_with_unequal_sides(above: tuple[int, float], below: tuple[int, float]) -> None:
    found = map(intervals.ratio_interval, repeated(4, 1500, *above), repeated(5, 1500, *below))
    assert 0.93 <= coverage(found, 1) <= 0.97


def test_a_plain_percentile_bootstrap_of_ten_would_not_cover() -> None:
    random = np.random.default_rng(6)
    logs = random.normal(0, 0.03, (500, 10))
    means = [random.choice(each, (500, 10)).mean(axis=1) for each in logs]
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    assert np.mean((low <= 0) & (high >= 0)) < 0.93


def test_from_ten_runs_a_lopsided_sample_has_a_lopsided_interval() -> None:
    nine = [*[100.0] * 4, *[101.0] * 4, 150.0]
    mean, low, high = np.log(intervals.interval(nine))
    assert high - mean == pytest.approx(mean - low)
    mean, low, high = np.log(intervals.interval([*nine, 100.0]))
    assert high - mean > 2 * (mean - low)


def test_one_outlying_run_does_not_make_the_interval_absurd() -> None:
    mean, low, high = intervals.interval([100.0 + 0.01 * number for number in range(9)] + [80.0])
    assert mean * 0.88 < low < mean < high < mean * 1.05


def test_the_interval_depends_neither_on_order_nor_on_the_moment() -> None:
    values = [float(value) for value in repeated(7, 1, 12, 0.03)[0]]
    assert intervals.interval(values) == intervals.interval(values) == intervals.interval(values[::-1])
    other = [value * 2 for value in values]
    assert intervals.ratio_interval(values, other) == intervals.ratio_interval(values[::-1], sorted(other))


def test_two_sides_of_a_ratio_are_resampled_apart() -> None:
    values = repeated(8, 1, 12, 0.03)[0]
    ratio, low, high = intervals.ratio_interval(values, values) or (math.nan,) * 3
    assert ratio == 1
    assert low < 0.99
    assert high > 1.01


def test_a_ratio_is_bootstrapped_only_when_both_sides_have_ten() -> None:
    above, below = repeated(9, 1, 12, 0.03)[0], repeated(10, 1, 9, 0.03)[0]
    _, low, high = intervals.ratio_interval(above, below) or (math.nan,) * 3
    welch = stats.ttest_ind(np.log(above), np.log(below), equal_var=False).confidence_interval()
    assert (low, high) == pytest.approx((np.exp(welch.low), np.exp(welch.high)))


@pytest.mark.parametrize("n", [2, 3, 10, 30])
def test_equal_values_have_an_interval_without_width(n: int) -> None:
    assert intervals.interval([0.1] * n) == (0.1, 0.1, 0.1)
    assert intervals.ratio_interval([3.0] * n, [2.0] * n) == pytest.approx((1.5, 1.5, 1.5))


@pytest.mark.parametrize("n", [2, 10])
def test_a_ratio_to_a_side_that_does_not_spread_has_an_interval(n: int) -> None:
    ratio, low, high = intervals.ratio_interval([2.0] * n, [1.0, *[1.1] * (n - 1)]) or (math.nan,) * 3
    assert low < ratio < high


@pytest.mark.parametrize(
    ("values", "mean"),
    [([], math.nan), ([5.0], 5.0), ([math.nan, 5.0], 5.0), ([0.0, 5.0], 0.0), ([-1.0, 5.0], math.nan)],
)
def test_no_interval_of_too_little(values: list[float], mean: float) -> None:
    assert intervals.interval(values) == pytest.approx((mean, math.nan, math.nan), nan_ok=True)


def test_what_was_not_measured_does_not_count() -> None:
    assert intervals.interval([100.0, math.nan, 103.0]) == intervals.interval([100.0, 103.0])


@pytest.mark.parametrize(("above", "below"), [((), (1.0,)), ((1.0,), ()), ((0.0, 1.0), (1.0,)), ((1.0,), (-1.0, 2.0))])
def test_no_ratio_without_values_above_zero(above: tuple[float, ...], below: tuple[float, ...]) -> None:
    assert intervals.ratio_interval(above, below) is None


def test_a_single_run_on_a_side_gives_a_ratio_without_an_interval() -> None:
    assert intervals.ratio_interval([2.0], [1.0, 1.0]) == pytest.approx((2, math.nan, math.nan), nan_ok=True)


MEANS: list[tuple[list[float], float]] = [
    ([1.0, 100.0], 10.0),
    ([0.0, 5.0], 0.0),
    ([7.0], 7.0),
    ([math.nan, 3.0], 3.0),
    ([], math.nan),
    ([-1.0], math.nan),
]


@pytest.mark.parametrize(("values", "mean"), MEANS)
def test_geometric_means(values: list[float], mean: float) -> None:
    assert intervals.geometric_mean(pd.Series(values, dtype=float)) == pytest.approx(mean, nan_ok=True)


def test_the_t_quantile() -> None:
    assert intervals.t_quantile(3) == pytest.approx(4.3027, abs=1e-4)
    assert math.isnan(intervals.t_quantile(1))


def test_values_beyond_all_measure_bound_nothing_and_break_nothing() -> None:
    assert intervals.interval([1e-60, 1e60])[2] == math.inf
    found = intervals.ratio_interval([1e-60, 1e60], [1.0, 1.0])
    assert found is not None
    assert found[2] == math.inf
