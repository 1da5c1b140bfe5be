"""Changes of long series."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.history.changes import judged, measured_logs
from bench.history.past import WINDOW_NIGHTS, changes
from bench.history.stretches import settled

RANDOM = np.random.default_rng(11)


def noisy(levels):
    return [level * float(np.exp(noise)) for level, noise in zip(levels, RANDOM.normal(0, 0.005, len(levels)), strict=True)]


def in_the_last_window(levels):
    """What one window shows, the latest; every night is measured."""
    _, logs = measured_logs(levels[-WINDOW_NIGHTS:])
    return tuple(judged(logs, *settled(logs)))


def confirmed(levels):
    return [each.at for each in changes(levels) if each.confirmed]


def test_a_short_series_is_what_the_detector_says():
    levels = noisy([100.0] * 20 + [90.0] * 10)
    assert changes(levels) == in_the_last_window(levels)
    assert changes([]) == ()


def test_a_change_is_not_forgotten_when_the_window_has_moved_on():
    levels = noisy([100.0] * 20 + [90.0] * 400)
    assert [each.at for each in in_the_last_window(levels) if each.confirmed] == []
    assert confirmed(levels) == [20]


def test_every_change_is_told_once_wherever_it_falls():
    for at in range(35, 2 * WINDOW_NIGHTS, 13):
        assert confirmed(noisy([100.0] * at + [80.0] * (3 * WINDOW_NIGHTS - at))) == [at]


def test_old_changes_stay_what_they_were_as_nights_are_added():
    levels = noisy([100.0] * 60 + [90.0] * 70 + [80.0] * 200)
    settled = changes(levels[:250])[0]
    assert all(changes(levels[:nights])[0] == settled for nights in range(250, 330, 10))


def test_nights_without_a_level_are_no_nights_of_the_window_and_keep_their_index():
    levels = noisy([100.0] * 160 + [90.0] * 160)
    thinned = [each for level in levels for each in (level, None)]
    assert confirmed(thinned) == [2 * at for at in confirmed(levels)] == [320]


def test_a_drift_that_outlasts_a_window_is_told_whole():
    levels = noisy([100.0 * 0.998**at for at in range(330)])
    found = changes(levels)
    assert all(each.gradual and each.confirmed for each in found)
    assert math.prod(each.ratio for each in found) == pytest.approx(0.998**329, rel=0.05)
    assert [each.at for each in found] == sorted({each.at for each in found})


def made(*parts, noise=0.0, seed=0):
    """Levels from (nights, factor), with noise."""
    random = np.random.default_rng(seed)
    return [1000 * factor * float(np.exp(random.normal(0, noise))) for nights, factor in parts for _ in range(nights)]


def worse(levels, every=1):
    """After how many nights a change for the worse (up) is first confirmed, and whether one is ever after."""
    asked = range(every, len(levels) + 1, every)
    red = [nights for nights in asked if any(each.confirmed and each.ratio > 1 for each in changes(levels[:nights]))]
    return red[0], red == list(asked)[-len(red) :]


@pytest.mark.parametrize("between", [2, 3, 4])
def test_a_second_shift_soon_after_the_first_is_a_change_of_its_own(between):
    levels = made((20, 1.0), (between, 1.05), (12, 1.102))
    assert confirmed(levels) == [20, 20 + between]
    assert [each.ratio for each in changes(levels)] == pytest.approx([1.05, 1.102 / 1.05])


@pytest.mark.parametrize(("at", "seed"), [(132, 132), (80, 0), (103, 1), (126, 2)])
def test_once_red_a_step_stays_red_wherever_the_windows_end(at, seed):
    first, stayed = worse(made((at, 1.0), (100, 1.05), noise=0.005, seed=seed))
    assert stayed
    assert at + 2 <= first <= at + 4


@pytest.mark.parametrize("noise", [0.0, 0.003])
@pytest.mark.parametrize("way", [0.2, 0.5, 0.8])
def test_an_upgrade_in_the_middle_of_a_night_is_one_change_that_stays(noise, way):
    levels = made((30, 1.0), (1, 1 + way * 0.1), (40, 1.1), noise=noise)
    first, stayed = worse(levels)
    assert stayed
    assert 32 <= first <= 34
    (change,) = changes(levels)
    assert abs(change.at - 30) <= 1
    assert change.ratio == pytest.approx(1.1, rel=0.005)


def test_a_slowdown_with_a_night_half_way_stays_red_through_noise():
    for seed in range(12):
        first, stayed = worse(made((30, 1.0), (1, 1.025), (60, 1.05), noise=0.01, seed=seed))
        assert stayed, seed
        assert first <= 36


@pytest.mark.parametrize("nights", [10, 60, 90, 150])
def test_stairs_add_up_however_slowly(nights):
    """Each step of 2.5% is too small; two are not, and the whole way is told without counting a step twice."""
    levels = [1000 * 1.025 ** (night // nights) for night in range(5 * nights)]
    first, stayed = worse(levels, every=max(1, nights // 15))
    assert stayed
    assert first <= 2 * nights + 12
    found = changes(levels)
    assert confirmed(levels)[0] == nights
    assert math.prod(each.ratio for each in found) == pytest.approx(1.025**4, rel=1e-6)


@pytest.mark.parametrize("nights", [10, 40])
def test_a_ratchet_is_caught(nights):
    """Two and a half worse, a little better, again and again."""
    factors = np.cumprod([1.0, *[1.025, 0.993] * 4])
    levels = [1000 * float(factor) for factor in factors for _ in range(nights)]
    first, stayed = worse(levels, every=nights // 10)
    assert stayed
    assert first <= 3 * nights + 4
    assert math.prod(each.ratio for each in changes(levels)) == pytest.approx(factors[-1], rel=1e-6)


def test_a_spell_beyond_the_new_level_does_not_hide_it():
    first, stayed = worse(made((20, 1.0), (2, 1.12), (60, 1.05), noise=0.01, seed=3))
    assert stayed
    assert first <= 24


def test_a_level_that_comes_back_in_full_is_not_red_for_what_came_before_the_spell():
    levels = made((20, 1.0), (3, 0.95), (30, 1.01))
    assert [each.at for each in changes(levels) if each.confirmed and each.ratio > 1] == []
