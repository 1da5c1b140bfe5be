"""What is told of a history besides its shifts."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd
from night_rows import CELL, FIRST, judged, marks, night, rows, since, step

from bench.history.acknowledged import Acknowledgement

FAILS = {"outcome": "crashed", "reason": "signal 11"}
SLOWER = rows(step(14, 4, 0.9))


def states(verdict):
    return {each.series.metric: each.state for each in verdict.series}


HOTTER = [1.0] * 15 + [1.2] * 14


def scoped(levels, scopes):
    """Energy a token, on some nights of another scope than that of the board."""
    nights = {at: {"power_scope": scope} for at, scope in scopes.items()}
    return rows(levels, metric="j_per_token", power_scope="gpu-board", nights=nights)


def test_a_regression_of_energy_stays_red_until_the_new_scope_can_be_judged():
    for nights in range(1, 9):
        verdict = judged(scoped(HOTTER + [2.0] * nights, dict.fromkeys(range(29, 29 + nights), "soc")))
        assert (nights, verdict.red) == (nights, nights < 7)
        (change,) = verdict.rescoped
        assert (change.before, change.after, change.last, change.night) == ("gpu-board", "soc", night(28), night(29))
        assert [(each.metric, each.night) for each in change.open] == [("j_per_token", night(15))]


def test_one_odd_night_in_between_neither_clears_it_nor_is_a_change_of_scope():
    verdict = judged(scoped([*HOTTER, 2.0, 1.2], {29: "soc"}))
    assert (marks(verdict), verdict.rescoped) == ([(CELL, "j_per_token", night(15))], ())


def test_an_accepted_shift_of_the_scope_before_is_none_that_stands():
    said = Acknowledgement("box", CELL, "j_per_token", night(15), "known")
    for nights in (1, 9):
        verdict = judged(scoped(HOTTER + [2.0] * nights, dict.fromkeys(range(29, 29 + nights), "soc")), [said])
        assert (verdict.red, verdict.rescoped[0].open, verdict.unmatched) == (False, (), ())


def test_older_nights_that_are_not_compared_are_told_for_some_nights():
    def changes(nights):
        return judged(scoped([1.0] * 15 + [1.2] * nights, dict.fromkeys(range(15, 15 + nights), "soc"))).rescoped

    assert [len(changes(nights)) for nights in (1, 10, 14, 15)] == [1, 1, 1, 0]


def test_runs_that_fail_among_good_ones_are_told():
    frame = rows([1000.0] * 24, repeats=6)
    bad = (frame["night"] >= night(20)) & ~frame["run_id"].str.endswith("-0")
    frame.loc[bad, ["outcome", "reason", "tokens_per_s"]] = ["oom_device", "no room", None]
    verdict = judged(frame)
    (each,) = verdict.failing
    assert (verdict.red, each.failed, each.runs, each.nights, each.ever_ran) == (False, 20, 24, 4, True)
    assert each.reason == "oom_device: no room"


def test_a_cell_that_never_ran_is_told_and_one_whose_failure_is_a_finding_not_twice():
    good, bad = rows([500.0] * 30), {"cell": "never/lora/hf@cpu", "cell_key": "b"}
    verdict = judged(pd.concat([good, rows([1.0] * 30, nights=dict.fromkeys(range(30), FAILS), **bad)]))
    (each,) = verdict.failing
    assert (each.track.cell, each.ever_ran, each.nights, each.reason) == ("never/lora/hf@cpu", False, 30, "crashed: signal 11")
    assert not verdict.red
    assert judged(rows([1000.0] * 12, nights={10: FAILS, 11: FAILS})).failing == ()
    assert judged(good).failing == ()


def test_a_cell_that_is_gone_is_told_for_some_nights_but_a_regression_that_stood_for_ever():
    def ended(frame, nights):
        return judged(pd.concat([frame, rows([500.0] * (18 + nights), cell="other/lora/hf@cpu", cell_key="b")])).gaps

    assert [len(ended(rows([1000.0] * 18), nights)) for nights in (1, 7, 37, 38)] == [1, 1, 1, 0]
    assert len(ended(SLOWER, 90)) == 1


def test_nights_whose_runs_are_all_flagged_are_told_as_not_measured():
    frame = rows([1000.0] * 12, nights=since(10, 12, {"flags": ("cpu-contention",)}))
    (gap,) = judged(frame).gaps
    assert (gap.metrics, gap.why, gap.nights, gap.last) == (("tokens_per_s",), "flagged", 2, night(9))


def test_a_cell_of_which_every_run_was_flagged_ever_is_not_measured_and_a_metric_that_is_not_there_is_no_series():
    verdict = judged(rows([1000.0] * 3, flags=("slept",)))
    assert states(verdict) == {"tokens_per_s": "not measured"}
    assert verdict.gaps[0].last is None


def test_nights_without_the_cell_are_told_and_a_cell_that_is_gone_turns_nothing_red():
    other = rows([500.0] * 30, cell="other/lora/hf@cpu", cell_key="b")
    verdict = judged(pd.concat([SLOWER, other[other["night"] <= night(19)]]))
    (gap,) = verdict.gaps
    assert (verdict.red, gap.why, gap.nights, gap.last, gap.ended) == (True, "not run", 2, night(17), False)
    verdict = judged(pd.concat([SLOWER, other]))
    (gap,) = verdict.gaps
    assert (verdict.red, gap.ended, [each.night for each in gap.open]) == (False, True, [night(14)])
    assert [each.state for each in verdict.series] == ["steady", "ended"]


def test_a_suite_that_the_machine_no_longer_runs_turns_nothing_red():
    other = rows([None] * 18 + [500.0] * 30, suite="other", cell_key="b")
    assert judged(pd.concat([SLOWER, other[other["night"] < night(47)]])).red
    verdict = judged(pd.concat([SLOWER, other]))
    (gap,) = verdict.gaps
    assert (verdict.red, gap.ended, gap.nights, gap.last) == (False, True, 30, night(17))


def test_a_machine_that_fell_silent_is_told_and_stays_green():
    frame = pd.concat([rows([1.0] * 20), rows([1.0] * 12, machine="pc", machine_id="ffff")])
    verdict = judged(frame)
    assert [(each.machine, each.last, each.days) for each in verdict.silent] == [("pc", night(11), 8)]
    assert not verdict.red
    later = judged(frame, as_of=FIRST + timedelta(days=25)).silent
    assert [(each.machine, each.days) for each in later] == [("box", 6), ("pc", 14)]
