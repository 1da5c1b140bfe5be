"""Made-up histories: they are what they say, and the same every time."""

import math

import numpy as np
import pytest

from bench.history.scenarios import FIRST_SLOW, LOUD_FROM, SCENARIOS, Scenario


def logs(scenario: Scenario, trials: int = 300) -> np.ndarray:
    """(trials, nights); NaN where nothing was measured."""
    every = [scenario.series(trial) for trial in range(trials)]
    return np.log(np.array([[math.nan if level is None else level for level in series] for series in every]))


def test_a_trial_is_always_the_same_and_no_two_are_alike() -> None:
    one, other = Scenario("a", 1), Scenario("b", 2)
    assert one.series(3) == Scenario("a", 1).series(3)
    assert len({tuple(each) for each in (one.series(3), one.series(4), other.series(3))}) == 3


def test_the_declared_scenarios_have_numbers_and_names_of_their_own() -> None:
    every = [scenario for group in SCENARIOS.values() for scenario in group]
    assert len({each.number for each in every}) == len({each.name for each in every}) == len(every)


@pytest.mark.parametrize(
    "scenario",
    [Scenario("", 1), Scenario("", 2, noise=0.03), Scenario("", 3, heavy_tails=True), Scenario("", 4, lingers=0.5)],
)
def test_noise_has_the_width_that_is_said(scenario: Scenario) -> None:
    assert logs(scenario).std() == pytest.approx(scenario.noise, rel=0.1)


def test_noise_that_grows_has_both_widths() -> None:
    made = logs(Scenario("", 1, noise=0.005, noise_later=0.03))
    assert made[:, :LOUD_FROM].std() == pytest.approx(0.005, rel=0.1)
    assert made[:, LOUD_FROM:].std() == pytest.approx(0.03, rel=0.1)


def test_noise_lingers_as_said() -> None:
    made = logs(Scenario("", 1, lingers=0.5))
    assert np.corrcoef(made[:, :-1].ravel(), made[:, 1:].ravel())[0, 1] == pytest.approx(0.5, abs=0.03)


def test_a_slowdown_a_drift_and_a_wave() -> None:
    step = logs(Scenario("", 1, slower=0.05)).mean(axis=0)
    assert step[FIRST_SLOW:].mean() - step[:FIRST_SLOW].mean() == pytest.approx(math.log(1.05), abs=0.001)
    assert step[FIRST_SLOW] > 0.04
    assert step[FIRST_SLOW - 1] < 0.01
    drift = logs(Scenario("", 1, drift=0.001)).mean(axis=0)
    assert drift[89] - drift[0] == pytest.approx(89 * math.log(1.001), abs=0.004)
    assert np.abs(logs(Scenario("", 1, noise=0, wobble=0.01))).max() == pytest.approx(0.01, rel=0.01)


def test_gaps_and_outliers() -> None:
    gaps = np.isnan(logs(Scenario("", 1, missing=0.2)))
    assert gaps.mean() == pytest.approx(0.2, abs=0.01)
    assert not gaps[:, FIRST_SLOW].any()
    outliers = logs(Scenario("", 1, outlier=0.2)) > 0.1
    assert (outliers.sum(axis=1) == 1).all()
    assert not outliers[:, :10].any()
