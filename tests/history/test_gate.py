"""The gate's verdict."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from night_rows import CELL, FIRST, judged, marks, night, rows, since, step

from bench.history.acknowledged import Acknowledgement

FAILS = {"outcome": "crashed", "reason": "signal 11"}
SLOWER = rows(step(14, 4, 0.9))
SAID = Acknowledgement("box", CELL, "tokens_per_s", night(14), "known upstream")
FEW = settings(max_examples=5, deadline=None)


def states(verdict):
    return {each.series.metric: each.state for each in verdict.series}


def test_only_the_cell_that_shifted_is_red():
    other = rows([500.0] * 18, cell="other/lora/hf@cpu", cell_key="b")
    verdict = judged(pd.concat([SLOWER, other]))
    assert verdict.red
    assert marks(verdict) == [(CELL, "tokens_per_s", night(14))]
    assert [each.state for each in verdict.series] == ["steady", "regressed"]


def test_a_regression_comes_with_what_changed_then():
    verdict = judged(rows(step(14, 4, 0.9), nights=since(14, 18)))
    (told,) = verdict.regressions
    assert [str(each) for each in told.cause.steps[0].differences] == ["torch 2.13.0 -> 2.14.0"]


def test_a_suspicion_is_not_red():
    verdict = judged(rows(step(14, 1, 0.9)))
    assert (verdict.red, marks(verdict, "suspected")) == (False, [(CELL, "tokens_per_s", night(14))])
    assert states(verdict) == {"tokens_per_s": "suspected"}


def test_a_ratchet_is_red_once_its_steps_make_three_percent():
    """2.5% worse, 0.7% better, and again: no step counts by itself."""
    levels = [1000.0] * 20
    for _ in range(2):
        levels += [levels[-1] / 1.025] * 10
        levels += [levels[-1] * 1.007] * 10
    assert not judged(rows(levels[:38])).red
    verdict = judged(rows(levels))
    (told,) = verdict.regressions
    assert (told.finding.metric, told.finding.night, told.finding.gradual) == ("tokens_per_s", night(20), True)


def test_a_regression_stays_red_until_it_is_acknowledged():
    longer = rows(step(14, 200, 0.9))
    assert judged(longer).red
    verdict = judged(longer, [SAID])
    assert (verdict.red, marks(verdict, "acknowledged"), verdict.unmatched) == (False, [(CELL, "tokens_per_s", night(14))], ())
    assert verdict.acknowledged[0].acknowledged == SAID
    assert states(verdict) == {"tokens_per_s": "steady"}


def test_an_acknowledged_shift_is_the_new_level_and_the_next_one_is_red():
    verdict = judged(rows([1000.0] * 14 + [900.0] * 12 + [800.0] * 4), [SAID])
    assert marks(verdict) == [(CELL, "tokens_per_s", night(26))]


def test_until_it_recovers():
    verdict = judged(rows([1000.0] * 14 + [900.0] * 6 + [1000.0] * 6))
    assert (verdict.red, marks(verdict, "recovered")) == (False, [(CELL, "tokens_per_s", night(14))])
    assert verdict.improvements == ()  # it is told with what it made good


def test_an_acknowledgement_that_speaks_of_nothing_is_told():
    elsewhere = Acknowledgement("box", "no/such/hf@cpu", "tokens_per_s", night(14), "x")
    assert judged(SLOWER, [elsewhere]).unmatched == (elsewhere,)


def test_an_improvement_is_told_and_green():
    verdict = judged(rows(step(14, 4, 1.2)))
    assert (verdict.red, marks(verdict, "improvements")) == (False, [(CELL, "tokens_per_s", night(14))])
    assert verdict.improvements[0].recent
    assert not judged(rows(step(14, 40, 1.2))).improvements[0].recent


def test_a_cell_that_no_longer_runs_is_red_and_can_be_acknowledged():
    frame = rows([1000.0] * 12, nights={10: FAILS, 11: FAILS})
    verdict = judged(frame)
    assert marks(verdict) == [(CELL, "outcome", night(10))]
    assert states(verdict) == {"tokens_per_s": "regressed"}
    assert verdict.gaps == ()
    assert not judged(frame, [Acknowledgement("box", CELL, "outcome", night(10), "dropped upstream")]).red


def test_a_shift_that_was_accepted_stays_so_whatever_machine_and_cell_are_called_since():
    for name in ({"machine": "renamed"}, {"cell": "renamed/lora/hf@cpu"}):
        renamed = pd.concat([SLOWER, rows([None] * 18 + [900.0] * 4, **name)])
        verdict = judged(renamed, [SAID])
        assert (verdict.red, len(verdict.acknowledged), verdict.unmatched) == (False, 1, ())
        assert judged(renamed).red


def test_small_changes_are_told_and_green():
    verdict = judged(rows(step(20, 10, 1.01, 1e9), metric="host_peak_bytes", spread=0))
    assert (verdict.red, marks(verdict, "small"), marks(verdict, "suspected")) == (
        *(False, [(CELL, "host_peak_bytes", night(20))]),
        [],
    )
    assert verdict.small[0].recent
    assert not judged(rows(step(20, 31, 1.01, 1e9), metric="host_peak_bytes", spread=0)).small[0].recent
    better = judged(rows(step(20, 10, 0.99, 1e9), metric="host_peak_bytes", spread=0))
    assert (len(better.small), better.improvements) == (1, ())


def test_a_cell_that_fails_every_second_night_is_red_and_can_be_accepted_once_for_all():
    frame = rows([1000.0] * 24, nights=dict.fromkeys(range(14, 24, 2), FAILS))
    assert marks(judged(frame)) == [(CELL, "outcome", night(14))]
    assert not judged(frame, [Acknowledgement("box", CELL, "outcome", night(14), "flaky driver")]).red


def test_too_few_nights_say_how_many_more():
    (each,) = judged(rows([1000.0] * 3)).series
    assert (each.state, each.missing, each.last) == ("too short", 4, night(2))


def test_a_drift_has_no_cause():
    verdict = judged(rows([1000.0 * 0.99**at for at in range(40)]))
    assert verdict.regressions[0].cause is None


def test_no_night_no_verdict():
    verdict = judged(rows([1.0]).assign(night=None), as_of=date(2026, 1, 1))
    assert (verdict.red, verdict.series) == (False, ())


@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_and_copies_of_runs_do_not_matter(seed):
    frame = pd.concat([SLOWER, rows(step(9, 9, 1.1), metric="host_peak_bytes", cell="other/lora/hf@cpu", cell_key="b")])
    order = np.random.default_rng(seed).permutation(len(frame))
    shuffled = pd.concat([frame.iloc[order], frame.iloc[order[:5]]])
    assert judged(shuffled) == judged(frame)


@FEW
@given(levels=st.lists(st.floats(1.0, 1e6), min_size=1, max_size=20))
def test_runs_of_another_machine_change_nothing(levels):
    other = rows(list(levels), machine="pc", machine_id="ffff", nights=since(0, 20))
    alone, beside = judged(SLOWER, as_of=FIRST), judged(pd.concat([other, SLOWER]), as_of=FIRST)
    assert [each for each in beside.regressions if each.finding.track.machine == "box"] == list(alone.regressions)
    assert [each for each in beside.series if each.track.machine == "box"] == list(alone.series)
