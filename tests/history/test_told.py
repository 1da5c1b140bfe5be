"""The verdict in words."""

from __future__ import annotations

from datetime import date

import pandas as pd
import pytest
from night_rows import CELL, judged, night, rows, since, step

from bench.history import told
from bench.history.acknowledged import Acknowledgement

CRASHED = {"outcome": "crashed", "reason": "signal 11"}

SAID = Acknowledgement("box", CELL, "tokens_per_s", night(14), "known upstream")


def text(frame, said=(), **options):
    return told.describe(judged(frame, said, **options), "results/acknowledged.toml")


def test_a_regression_names_cell_machine_metric_size_night_and_what_changed():
    said = text(rows(step(14, 4, 0.9), nights=since(14, 18), spread=0.001))
    assert f"REGRESSION   {CELL} on box (nightly): tokens_per_s -10.0% (-10." in said
    assert f"since the night of {night(14)}" in said
    assert "before, 899" in said or "before, 900" in said
    assert f"changed between {night(13)} and {night(14)}: torch 2.13.0 -> 2.14.0" in said
    assert "put its table into results/acknowledged.toml" in said
    assert '[[acknowledged]]\nmachine = "box"\nsuite = "nightly"\n' in said
    assert said.splitlines()[-1].startswith("1 confirmed regression; 1 series of 1 cell on 1 machine: 1 regressed")


def test_without_any_change_it_says_so():
    assert f"nothing that is recorded changed between {night(13)} and {night(14)}" in text(rows(step(14, 4, 0.9)))


def test_a_change_one_night_away():
    said = text(rows(step(14, 4, 0.9), nights=since(15, 18)))
    assert f"a night away, changed between {night(14)} and {night(15)}: torch" in said


def test_a_suspicion_says_that_it_waits():
    said = text(rows(step(14, 1, 0.9)))
    assert "suspected" in said
    assert "not confirmed yet" in said
    assert "[[acknowledged]]" not in said


def test_a_cell_that_no_longer_runs_says_how_it_failed():
    said = text(rows([1.0] * 9, nights=since(7, 9, {"outcome": "oom_device", "reason": "needs\x1b[31m 30 GB"})))
    assert f"no longer runs; last ran on {night(6)}, failed on 2 nights from {night(7)} on" in said
    assert "oom_device: needs\\x1b[31m 30 GB" in said


def test_what_was_accepted_is_one_line():
    said = text(rows(step(14, 4, 0.9)), [SAID])
    assert len(said.splitlines()) == 2
    assert said.splitlines()[0].endswith(": known upstream")


def test_old_improvements_are_not_told_again():
    assert "improved" in text(rows(step(14, 4, 1.2)))
    assert "improved" not in text(rows(step(14, 40, 1.2)))


def test_gaps_silence_and_idle_acknowledgements_are_told():
    frame = pd.concat([rows([1.0] * 12), rows([1.0] * 3, cell="gone/lora/hf@cpu", cell_key="b")])
    frame = pd.concat([frame, rows([1.0] * 9, cell="late/lora/hf@cpu", cell_key="c")])
    said = text(frame, [SAID], as_of=date(2026, 1, 20))
    assert f"gone/lora/hf@cpu on box (nightly) is no longer measured, last measured {night(2)}" in said
    assert f"late/lora/hf@cpu on box (nightly) was not run on the last 3 nights, last measured {night(8)}" in said
    assert f"box: no night for 8 days, the last is {night(11)}" in said
    assert "no such shift is found" in said


def test_flags_that_spoilt_a_night_are_named():
    said = text(rows([1.0] * 12, nights=since(10, 12, {"flags": ("slept", "cpu-contention")})))
    assert f"every run is flagged (cpu-contention, slept) on the last 2 nights, last measured {night(9)}" in said


def test_a_cell_that_fails_now_and_then_says_how_often():
    said = text(rows([1.0] * 12, nights=dict.fromkeys(range(6, 12, 2), CRASHED)))
    assert (
        f"REGRESSION   {CELL} on box (nightly): fails on some nights: on 3 of 6 nights that tried it, from {night(6)} on" in said
    )
    assert "crashed: signal 11" in said


def test_failed_runs_and_cells_that_never_ran_are_told():
    frame = rows([1000.0] * 12, repeats=6)
    frame.loc[frame.index[-1], ["outcome", "reason", "tokens_per_s"]] = ["oom_device", "no room", None]
    fails = dict.fromkeys(range(12), CRASHED)
    never = rows([1.0] * 12, cell="never/lora/hf@cpu", cell_key="b", nights=fails)
    said = text(pd.concat([frame, never]))
    assert f"{CELL} on box (nightly): 1 of 24 runs failed on the last 4 nights: oom_device: no room" in said
    assert "never/lora/hf@cpu on box (nightly) never ran, on 12 nights: crashed: signal 11" in said
    assert "no night has measured anything yet: 1 cell failed on each night" in text(never)


def test_a_change_of_scope_says_what_is_not_compared_and_what_stood():
    nights = since(29, 31, {"power_scope": "soc"})
    said = text(rows([1.0] * 15 + [1.2] * 14 + [2.0] * 2, metric="j_per_token", power_scope="gpu-board", nights=nights))
    assert f"j_per_token covers soc since {night(29)}, gpu-board before: older nights are not compared" in said
    assert f"; a regression stood: j_per_token since {night(15)}" in said
    assert "REGRESSION" in said


def test_small_changes_for_the_worse_are_one_line():
    said = text(rows(step(20, 10, 1.01, 1e9), metric="host_peak_bytes", spread=0))
    assert f"slightly     {CELL} on box (nightly): host_peak_bytes +1.0% (" in said
    assert "slightly" not in text(rows(step(20, 10, 0.99, 1e9), metric="host_peak_bytes", spread=0))


def test_of_many_regressions_the_largest_are_told():
    ratios = [0.9 - 0.01 * at for at in range(15)]
    cells = [rows(step(14, 4, ratio), cell=f"m{at:02}/lora/hf@cpu", cell_key=f"{at:04}") for at, ratio in enumerate(ratios)]
    gone = rows([1.0] * 18, cell="gone/lora/hf@cpu", cell_key="b", nights=since(16, 18, {"outcome": "crashed"}))
    said = text(pd.concat([*cells, gone]))
    told_of = [line.split()[1].split("/")[0] for line in said.splitlines() if line.startswith("REGRESSION")]
    assert told_of == ["gone", *(f"m{at:02}" for at in range(14, 3, -1))]
    assert said.count("[[acknowledged]]") == told.SHOWN_LINES
    assert said.count("… and 4 more, in --json") == 2


def test_cells_that_are_gone_hide_no_other_remark():
    cells = [rows([1.0] * 2, cell=f"gone-{at:02}/lora/hf@cpu", cell_key=f"{at:04}") for at in range(20)]
    assert "no such shift is found" in text(pd.concat([rows([1.0] * 12), *cells]), [SAID])


def test_too_short_says_how_many_nights_more():
    assert text(rows([1.0] * 4)).endswith("1 too short; 3 more nights at most until all can be judged")


def test_no_night_yet():
    assert "no night has measured anything yet" in text(rows([1.0]).assign(night=None), as_of=date(2026, 1, 1))


def test_many_remarks_are_cut_short():
    cells = [rows([1.0] * 2, cell=f"gone-{at:02}/lora/hf@cpu", cell_key=f"{at:04}") for at in range(20)]
    said = text(pd.concat([rows([1.0] * 12), *cells]))
    assert said.count("is no longer measured") == told.SHOWN_LINES
    assert "… and 8 more, in --json" in said


@pytest.mark.parametrize(
    ("metric", "value", "wanted"),
    [
        ("tokens_per_s", 4210.4, "4,210 tokens/s"),
        ("tokens_per_s", 12.345, "12.35 tokens/s"),
        ("host_peak_bytes", 5.5e9, "5.5 GB"),
        ("host_peak_bytes", 2.5e6, "2.5 MB"),
        ("host_peak_bytes", 1.2e13, "12,000 GB"),
        ("j_per_token", 0.01234, "0.01234 J"),
    ],
)
def test_amounts_have_their_unit(metric, value, wanted):
    assert told.amount(metric, value) == wanted


@pytest.mark.parametrize(("ratio", "wanted"), [(0.9486, "-5.1%"), (1.05, "+5.0%"), (3.0, "+200.0%"), (40.0, "×40")])
def test_sizes(ratio, wanted):
    assert told.percent(ratio) == wanted
