"""Shifts of one cell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night_rows import night, rows, since, step, track

from bench.history.findings import OUTCOME, findings
from bench.history.series import GATED, tracks
from bench.metrics import METRICS

FAILS = {"outcome": "oom_device", "reason": "no room"}


def found(levels, **options):
    (track,) = tracks(rows(levels, **options))
    return findings(track)


def said(levels, **options):
    return [(each.metric, each.kind, each.confirmed, each.night) for each in found(levels, **options)]


@pytest.mark.parametrize("metric", GATED)
def test_each_metric_has_its_direction(metric):
    up, down = ("better", "worse") if METRICS[metric].higher_is_better else ("worse", "better")
    assert said(step(14, 3, 1.2), metric=metric) == [(metric, up, True, night(14))]
    assert said(step(14, 3, 0.8), metric=metric) == [(metric, down, True, night(14))]


def test_what_is_told_of_a_shift():
    (each,) = found(step(14, 4, 0.9), spread=0.002)
    assert (each.night, each.before, each.nights) == (night(14), night(13), 4)
    assert each.ratio == pytest.approx(0.9, rel=0.01)
    assert each.low < each.ratio < each.high
    assert (each.level_before, each.level_after) == (pytest.approx(1000, rel=0.01), pytest.approx(900, rel=0.01))
    assert each.recovered is None


def test_the_night_before_is_the_last_that_was_measured():
    (each,) = found([1000.0] * 12 + [None] * 3 + [800.0] * 3)
    assert (each.before, each.night) == (night(11), night(15))
    (each,) = found([1000.0] * 15 + [800.0] * 3, nights=since(12, 15, {"flags": ("slept",)}))
    assert (each.before, each.night) == (night(11), night(15))


def test_one_night_is_suspected_and_no_more():
    assert said(step(14, 1, 0.8)) == [("tokens_per_s", "worse", False, night(14))]
    assert said(step(14, 1, 1.2)) == []


def test_a_night_that_stood_alone_is_cleared_by_those_after_it():
    assert said([1000.0] * 14 + [700.0] + [1000.0] * 4) == []


def test_a_small_shift_is_told_as_such_and_never_confirmed():
    (each,) = found(step(20, 10, 0.985))
    assert (each.small, each.confirmed, each.kind, each.night) == (True, False, "worse", night(20))


@pytest.mark.parametrize("ratio", [1.005, 1.01, 1.029])
def test_a_small_step_of_exact_bytes_is_certain_after_ten_nights(ratio):
    (each,) = found(step(20, 10, ratio, 1e9), metric="host_peak_bytes", spread=0)
    assert (each.small, each.confirmed, each.kind, each.night) == (True, False, "worse", night(20))
    assert each.ratio == pytest.approx(ratio)


def test_what_is_not_certain_is_no_small_shift():
    assert found(step(20, 4, 1.01, 1e9), metric="host_peak_bytes", spread=0) == ()
    assert found([1000.0] * 60, spread=0.02) == ()


def test_a_regression_that_was_made_good_is_recovered():
    worse, better = found([1000.0] * 12 + [900.0] * 6 + [1000.0] * 6)
    assert (worse.kind, worse.recovered, better.kind, better.night) == ("worse", night(18), "better", night(18))


@pytest.mark.parametrize("slow", [2, 3, 4, 8])
def test_a_recovery_takes_two_nights_however_short_the_regression_was(slow):
    one, two = ([1000.0] * 14 + [850.0] * slow + [1000.0] * nights for nights in (1, 2))
    assert [each.recovered for each in found(one) if each.kind == "worse"] == [None]
    assert [each.recovered for each in found(two) if each.kind == "worse"] == [night(14 + slow)]


@pytest.mark.parametrize("back", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("ratio", [1.05, 1.1, 1.2])
def test_some_nights_back_at_the_old_level_do_not_silence_a_regression(back, ratio):
    for again in (2, 3, 4, 10, 60):
        levels = [1e9] * 20 + [ratio * 1e9] * 15 + [1e9] * back + [ratio * 1e9] * again
        shifts = findings(track(levels, "host_peak_bytes", spread=0))
        red = [each for each in shifts if each.confirmed and each.kind == "worse"]
        assert any(each.recovered is None for each in red)


@pytest.mark.parametrize("back", [2, 3, 4])
@pytest.mark.parametrize("ratio", [0.95, 0.8])
def test_nor_those_of_a_rate(back, ratio):
    slow = [1000.0 * ratio]
    first, *_ = findings(track([1000.0] * 20 + slow * 15 + [1000.0] * back + slow * 30))
    assert (first.night, first.recovered) == (night(20), None)


def test_noise_takes_no_level_away_that_had_settled_again_but_a_certain_loss_does():
    # each step is too small for a regression, what is lost since the first night is not
    def recovered(again):
        levels = [1e9] * 30 + [1.05e9] * 20 + [1.024e9] * 20 + [1.054e9] * again
        return [each.recovered for each in findings(track(levels, "host_peak_bytes", spread=0)) if each.confirmed]

    assert [recovered(again) for again in (0, 2, 10, 40)] == [[night(50)], [night(50)], [None], [None]]


def test_half_a_recovery_is_none():
    worse, _ = found([1000.0] * 12 + [800.0] * 8 + [900.0] * 8)
    assert worse.recovered is None


def test_a_new_regression_after_a_recovery_leaves_the_old_one_recovered():
    first, _, second = found([1000.0] * 12 + [900.0] * 8 + [1000.0] * 8 + [900.0] * 8)
    assert (first.recovered, second.recovered) == (night(20), None)


def test_what_two_scopes_show_is_one_shift():
    nights = {at: {"power_scope": "soc"} for at in range(0, 48, 2)}
    (each,) = found(step(24, 24, 1.2), metric="j_per_token", power_scope="gpu-board", nights=nights)
    assert (each.confirmed, each.scope, each.night) == (True, "gpu-board", night(25))


def test_a_drift_is_told_as_one():
    (each,) = found([1000.0 * 0.99**at for at in range(40)])
    assert (each.gradual, each.kind, each.confirmed) == (True, "worse", True)
    assert each.level_before is None


def test_a_cell_that_fails_two_nights_in_a_row_no_longer_runs():
    (each,) = found([1.0] * 5, nights={3: FAILS, 4: FAILS})
    assert (each.metric, each.confirmed, each.before, each.night, each.nights) == (OUTCOME, True, night(2), night(3), 2)
    assert (each.reason, each.ratio) == ("oom_device: no room", None)


def test_one_failed_night_is_suspected():
    (each,) = found([1.0] * 5, nights={4: FAILS})
    assert (each.metric, each.confirmed, each.night) == (OUTCOME, False, night(4))


def test_nights_on_which_it_was_not_run_do_not_come_between():
    (each,) = found([1.0] * 6, nights={3: FAILS, 4: {"outcome": "interrupted"}, 5: FAILS})
    assert (each.confirmed, each.night, each.nights) == (True, night(3), 2)


def test_one_that_fails_every_second_night_fails_and_since_the_first_of_them():
    for until in (7, 8, 13, 20):
        (each,) = found([1.0] * until, nights=dict.fromkeys(range(4, until, 2), FAILS))
        assert (each.metric, each.confirmed, each.before, each.night) == (OUTCOME, True, night(3), night(4))
        assert (each.nights, each.tried, each.reason) == (len(range(4, until, 2)), until - 4, "oom_device: no room")


def test_failed_nights_far_apart_are_not_one_failure():
    assert found([1.0] * 12, nights={3: FAILS, 7: FAILS}) == ()
    (each,) = found([1.0] * 12, nights={3: FAILS, 11: FAILS})
    assert (each.confirmed, each.night, each.nights) == (False, night(11), 1)


def test_a_cell_that_runs_again_is_red_until_one_of_four_nights_is_left_and_one_that_never_ran_is_no_finding():
    assert [len(found([1.0] * until, nights={3: FAILS, 4: FAILS})) for until in (6, 7, 8)] == [1, 1, 0]
    assert found([1.0] * 6, nights=dict.fromkeys(range(6), FAILS)) == ()


def test_an_upgrade_that_takes_support_away_is_a_failure_and_a_night_skipped_is_not():
    gone = {"outcome": "unsupported", "reason": "not installed"}
    assert said([1.0] * 5, nights={3: gone, 4: gone})[0][:3] == (OUTCOME, "worse", True)
    skipped = {"outcome": "skipped"}
    assert found([1.0] * 5, nights={3: skipped, 4: skipped}) == ()


@settings(max_examples=60, deadline=None)
@given(before=st.integers(8, 30), after=st.integers(1, 10), factor=st.floats(1.0, 9.0), metric=st.sampled_from(GATED))
def test_a_cell_that_gets_faster_or_less_hungry_never_alarms(before, after, factor, metric):
    ratio = factor if METRICS[metric].higher_is_better else 1 / factor
    assert [each for each in findings(track(step(before, after, ratio), metric)) if each.kind == "worse"] == []


@settings(max_examples=60, deadline=None)
@given(before=st.integers(8, 30), after=st.integers(3, 10), factor=st.floats(1.06, 9.0), metric=st.sampled_from(GATED))
def test_one_that_gets_slower_or_hungrier_alarms_on_its_night(before, after, factor, metric):
    ratio = 1 / factor if METRICS[metric].higher_is_better else factor
    (each,) = findings(track(step(before, after, ratio), metric))
    assert (each.kind, each.confirmed, each.night) == ("worse", True, night(before))


@settings(max_examples=40, deadline=None)
@given(exponent=st.integers(-9, 9), ratio=st.sampled_from([0.8, 0.95, 1.0, 1.3]))
def test_units_do_not_matter(exponent, ratio):
    plain, scaled = (findings(track([level * scale for level in step(12, 5, ratio)])) for scale in (1.0, 10.0**exponent))
    assert [(each.kind, each.night) for each in plain] == [(each.kind, each.night) for each in scaled]
    assert [each.ratio for each in plain] == pytest.approx([each.ratio for each in scaled], rel=1e-9)
