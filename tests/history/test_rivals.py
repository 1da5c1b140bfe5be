"""The rivals do what is said of them: asv's own detector above all is asked as asv asks it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from asv.plugins.regressions import _GraphDataFilter
from scipy.stats import ttest_ind

from bench.history.rivals import ALLOWED, QUIET_NIGHTS, RIVALS, Levels, asv, medians, t_test, two_points

STEADY = [1.0, 1.01, 0.995, 1.005, 0.99, 1.002, 1.012, 0.991, 1.0, 1.008, 0.994, 1.001, 1.0, 0.999, 1.003, 1.002, 0.997]


def test_asv_tells_a_large_step_at_its_night_and_no_speedup() -> None:
    slower = [*STEADY, *(1.2 * level for level in STEADY)]
    assert asv(slower, 0.05) == (17,)
    assert asv(slower[::-1], 0.05) == ()
    assert asv([*slower[:5], None, *slower[5:]], 0.05) == (18,)


def test_asv_has_the_threshold_that_asv_has_itself() -> None:
    """Unless told otherwise, asv asks for 5%."""

    chooser = _GraphDataFilter.__new__(_GraphDataFilter)
    chooser.conf = SimpleNamespace(regressions_thresholds={})
    assert RIVALS["asv, 5%"].keywords == {"threshold": chooser._get_threshold(SimpleNamespace(params={}), {}, "")}
    small = [*STEADY, *(1.04 * level for level in STEADY)]
    assert RIVALS["asv, 5%"](small) == ()
    assert RIVALS["asv, 3%"](small) == (17,)


def test_two_points_compares_with_the_last_measured_night() -> None:
    assert two_points([1.0, 1.04]) == (1,)
    assert two_points([1.0, None, 1.04]) == (2,)
    assert two_points([1.0, 1.02]) == two_points([1.04, 1.0]) == two_points([1.0]) == two_points([]) == ()


def test_medians_are_of_three_nights_and_of_fourteen() -> None:
    assert medians([9.0, 9.0, *[1.0] * 14, 1.04, 1.04, 0.5]) == (16,)
    assert medians([*[1.0] * 14, 1.04, 1.02, 1.02]) == ()
    assert medians([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) == ()


@pytest.mark.parametrize("size", [0.0, 0.012, 0.016, 0.02, 0.03])
def test_the_t_test_is_students(size: float) -> None:
    levels: Levels = [*STEADY, *np.exp(np.array([0.001, -0.002, 0.0]) + size)]
    logs = np.log(np.array(levels, float))
    p = float(ttest_ind(logs[-3:], logs[:-3], alternative="greater").pvalue)
    assert bool(t_test(levels)) == (p < ALLOWED / QUIET_NIGHTS)
    assert not math.isclose(p, ALLOWED / QUIET_NIGHTS, rel_tol=0.05), "too near to tell"


@pytest.mark.parametrize("rival", RIVALS.values(), ids=RIVALS)
def test_all_are_silent_on_a_steady_level_and_speak_up_at_a_clear_step(rival: object) -> None:
    assert callable(rival)
    assert rival(STEADY) == ()
    spoken = {at for tonight in (18, 19, 20, 24) for at in rival([*STEADY, *[1.3] * (tonight - 17)])}
    assert spoken & {16, 17, 18}
