"""Changes of level: what is found on which night, what is confirmed by what, and what is left alone."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.history.changes import LEAST_EFFECT, Change
from bench.history.past import changes as detect

STEADY = [100.0, 101.0, 99.5, 100.5, 99.0, 100.2, 101.2, 99.1, 100.0, 100.8, 99.4, 100.1]


def confirmed(levels: list[float | None]) -> list[Change]:
    return [change for change in detect(levels) if change.confirmed]


def noisy(seed: int, nights: int, noise: float = 0.01) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, noise, nights))


def test_a_steady_level_has_no_changes() -> None:
    assert detect(STEADY) == ()


def test_a_step_is_suspected_on_its_first_night_and_confirmed_on_its_second() -> None:
    (first,) = detect([*STEADY, 80.0])
    assert (first.at, first.confirmed, first.gradual) == (12, False, False)
    (second,) = detect([*STEADY, 80.0, 80.5])
    assert (second.at, second.confirmed, second.gradual) == (12, True, False)
    assert second.ratio == pytest.approx(0.8025, rel=0.002)
    assert second.low < second.ratio < second.high < 1


def test_both_directions_are_alike() -> None:
    """A level and its reciprocal (tokens a second, seconds a token) give the same changes, turned over."""
    levels = [*STEADY, 110.0, 111.0, 109.0]
    (up,), (down,) = detect(levels), detect([1 / level for level in levels])
    assert (down.at, down.confirmed) == (up.at, up.confirmed) == (12, True)
    assert [down.ratio, down.low, down.high] == pytest.approx([1 / up.ratio, 1 / up.high, 1 / up.low])


def test_one_odd_night_never_alarms_however_odd() -> None:
    for odd in (50.0, 80.0, 120.0, 200.0):
        for place in range(len(STEADY) + 1):
            levels = [*STEADY[:place], odd, *STEADY[place:]]
            for tonight in range(len(levels) + 1):
                assert not confirmed(levels[:tonight]), (odd, place, tonight)


def test_an_odd_night_beside_a_true_step_does_not_hide_it() -> None:
    levels = [*STEADY[:6], 130.0, *STEADY[6:], 90.0, 90.5, 89.8]
    assert [change.at for change in confirmed(levels)] == [13]


def test_an_odd_last_night_does_not_confirm_the_night_before_it() -> None:
    """One night a little high, the next one very: together they are no level."""
    assert not confirmed([*STEADY, 101.5, 125.0])


def test_two_nights_have_to_show_the_new_level() -> None:
    """Of two, the mean of which would pass, one is hardly off."""
    assert not confirmed([*STEADY, 103.0, 112.0])
    assert confirmed([*STEADY, 107.0, 108.0])


def test_nights_that_were_not_measured_are_no_evidence_and_keep_their_place() -> None:
    gaps = [*STEADY[:5], None, None, *STEADY[5:], None, 80.0, None]
    assert [(change.at, change.confirmed) for change in detect(gaps)] == [(15, False)]
    assert [(change.at, change.confirmed) for change in detect([*gaps, 80.3])] == [(15, True)]


def test_five_nights_before_and_two_after_are_needed() -> None:
    assert detect([5e9] * 4 + [6e9] * 2) == ()
    assert not confirmed([5e9] * 4 + [6e9] * 3), "four nights are not yet a level"
    (change,) = detect([5e9] * 5 + [6e9] * 2)
    assert (change.at, change.confirmed) == (5, True)
    assert detect([]) == () == detect([None] * 40)


def test_equal_bytes_every_night_then_others() -> None:
    """Peaks are the same to the byte: without noise any change is certain, and the size alone decides."""
    assert [each.at for each in confirmed([10_000_000_000] * 20 + [10_400_000_000] * 2)] == [20]
    assert not confirmed([10_000_000_000] * 20 + [10_250_000_000] * 10)
    (small,) = detect([10_000_000_000] * 20 + [10_250_000_000] * 10)
    assert small.at == 20
    assert small.ratio == pytest.approx(1.025)


def test_what_is_below_the_least_effect_is_told_and_not_confirmed() -> None:
    levels = noisy(1, 60, 0.004)
    levels[30:] *= 1.02
    (change,) = detect(list(levels))
    assert abs(change.at - 30) <= 1
    assert 1 < change.low < change.high < LEAST_EFFECT
    assert not change.confirmed


def test_the_return_from_a_short_spell_is_no_change_to_alarm_about() -> None:
    """Two lucky nights end: the level is what it was."""
    levels = [*STEADY, 80.0, 80.5, *STEADY]
    assert [change.at for change in detect(levels)] == [12, 14]
    assert [change.at for change in confirmed(levels)] == [12]


def test_worse_and_worse_again_within_a_few_nights_is_seen_twice() -> None:
    levels = [*STEADY, 110.0, 111.0, 110.5, 125.0, 124.0, 126.0, 125.5]
    assert [change.at for change in confirmed(levels)] == [12, 15]


def test_a_regression_and_its_repair_are_two_changes() -> None:
    levels = [*STEADY, *(0.9 * level for level in STEADY), *STEADY]
    assert [change.at for change in confirmed(levels)] == [12, 24]
    assert [change.ratio > 1 for change in confirmed(levels)] == [False, True]


def test_a_change_stays_on_its_night_as_nights_are_added() -> None:
    levels = noisy(2, 60)
    levels[20:] *= 1.06
    for tonight in range(23, 61):
        assert [change.at for change in confirmed(list(levels[:tonight]))] == [20], tonight


def test_a_drift_is_one_gradual_change_with_the_whole_way() -> None:
    levels = noisy(3, 80) * 1.001 ** np.arange(80)
    (change,) = detect(list(levels))
    assert change.gradual
    assert change.confirmed
    assert change.low < 1.001**79 < change.high


def test_a_step_is_not_gradual() -> None:
    levels = noisy(4, 60)
    levels[30:] *= 1.05
    assert [change.gradual for change in detect(list(levels))] == [False]


def test_small_steps_one_way_add_up() -> None:
    """Thrice 1.5%, each too small: the level is 4.5% worse, and that is told as one."""
    levels = noisy(5, 60, 0.003) * np.repeat([1.0, 1.015, 1.03, 1.046], [30, 10, 10, 10])
    (change,) = detect(list(levels))
    assert (change.confirmed, change.gradual) == (True, True)
    assert abs(change.at - 30) <= 1
    assert change.ratio == pytest.approx(1.046, rel=0.01)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_level_that_is_no_positive_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        detect([*STEADY, bad])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.none() | st.floats(1e-3, 1e12), max_size=40))
def test_any_series_gives_sound_changes(levels: list[float | None]) -> None:
    found = detect(levels)
    assert [change.at for change in found] == sorted({change.at for change in found})
    for change in found:
        assert levels[change.at] is not None
        assert change.low <= change.ratio <= change.high
        if change.confirmed:
            assert max(change.ratio, 1 / change.ratio) >= LEAST_EFFECT * (1 - 1e-12)


def test_the_unit_does_not_matter() -> None:
    random.seed(6)
    levels = [random.gauss(100, 1) for _ in range(20)] + [random.gauss(93, 1) for _ in range(5)]
    (one,), (other,) = detect(levels), detect([level * 1024**3 for level in levels])
    assert (one.at, one.confirmed) == (other.at, other.confirmed)
    assert other.ratio == pytest.approx(one.ratio)


def test_the_interval_covers() -> None:
    """Of 400 steps of 8% at a known night the 95% interval holds the truth as often as it says, give or take chance."""
    held, asked = 0, 0
    for seed in range(400):
        levels = noisy(seed + 100, 40)
        levels[25:] *= 1.08
        steps = [change for change in detect(list(levels)) if change.at == 25]
        asked += len(steps)
        held += sum(change.low <= 1.08 <= change.high for change in steps)
    assert asked > 380
    assert 0.92 <= held / asked <= 0.98
