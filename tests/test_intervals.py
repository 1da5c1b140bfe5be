"""Geometric means, and intervals that cover as often as they say."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bench import intervals


def test_ratio_and_interval_are_welchs() -> None:
    above, below = (200.0, 210.0, 190.0), (100.0, 105.0, 101.0)
    found = intervals.ratio_interval(above, below)
    welch = stats.ttest_ind(np.log(above), np.log(below), equal_var=False).confidence_interval()
    assert found == pytest.approx((np.exp(np.log(above).mean() - np.log(below).mean()), np.exp(welch.low), np.exp(welch.high)))


def test_the_ratios_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    found = [intervals.ratio_interval(*np.exp(random.normal(0, 0.03, (2, 3)))) for _ in range(400)]
    assert 0.93 <= np.mean([low <= 1 <= high for _, low, high in found]) <= 0.99


@pytest.mark.parametrize(("above", "below"), [((), (1.0,)), ((1.0,), ()), ((0.0, 1.0), (1.0,)), ((1.0,), (-1.0, 2.0))])
def test_no_ratio_without_values_above_zero(above: tuple[float, ...], below: tuple[float, ...]) -> None:
    assert intervals.ratio_interval(above, below) is None


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
