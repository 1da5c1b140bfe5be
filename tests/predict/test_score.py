"""Scores: no source predicts itself, verdicts against outcomes, errors and coverage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from observed import CELL, observation, ten_gb

from bench.predict.fit import Evidence
from bench.predict.fit_memory import residuals
from bench.predict.fit_speed import predicted_rate
from bench.predict.fractions import ASSUMED
from bench.predict.score import Card, Fit, Scored, brier, grouped, score, summarise


def card(*rows: object) -> Card:
    evidence = Evidence(tuple(rows), {"x-1": "a reason"})  # type: ignore[arg-type]
    return score(evidence, residuals(evidence.observations, ten_gb), ten_gb)


def test_what_a_source_says_has_no_part_in_its_own_prediction() -> None:
    alone = card(observation(peak_bytes=13 * 10**9))
    assert alone.peaks[0].predicted == pytest.approx(10e9)
    beside = card(observation(peak_bytes=13 * 10**9), observation(id="b-1", family="b", peak_bytes=13 * 10**9))
    assert beside.peaks[0].predicted == pytest.approx(10e9 * 1.3 ** (1 / 3), rel=1e-3)


def test_a_rate_is_predicted_without_its_source_too() -> None:
    rate = predicted_rate(observation(), ASSUMED)
    (found,) = card(observation(tokens_per_s=1.5 * rate)).rates
    assert found.error == pytest.approx(1 / 1.5 - 1, rel=1e-2)


def test_what_a_rates_row_leaves_open_widens_its_interval() -> None:
    longer = replace(CELL, workload=replace(CELL.workload, sequence_length=16_384))
    rate = predicted_rate(observation(), ASSUMED)
    (sure,) = card(observation(tokens_per_s=rate)).rates
    (unsure,) = card(observation(tokens_per_s=rate, cells=(CELL, longer), missing=("sequence length",))).rates
    assert unsure.high / unsure.low > sure.high / sure.low


def test_a_rate_that_no_machine_can_reach_is_left_out_and_said_so() -> None:
    found = card(observation(tokens_per_s=1e6))
    assert found.rates == ()
    assert "faster than its machine's products" in found.left_out["a-1"]


def test_outcomes_meet_their_probability() -> None:
    fits = card(
        observation(outcome="oom", capacity_bytes=40 * 10**9),
        observation(id="a-2", outcome="ok", capacity_bytes=10 * 10**9),
        observation(id="a-3", outcome="ok", capacity_bytes=20 * 10**9),
        observation(id="a-4", outcome=None, capacity_bytes=20 * 10**9),
    ).fits
    assert [each.wrong for each in fits] == ["false fit", "false no", None]
    assert fits[2].probability == pytest.approx(0.5)
    assert brier(fits) == pytest.approx((1 + 1 + 0.25) / 3, abs=1e-3)
    assert brier([]) is None


def test_summaries() -> None:
    values = [
        Scored(seen=observation(), observed=100.0, predicted=90.0, low=80.0, high=101.0),
        Scored(seen=observation(family="b"), observed=100.0, predicted=130.0, low=110.0, high=150.0),
    ]
    found = summarise(values)
    assert found is not None
    assert (found.count, found.mape, found.bias, found.coverage) == (2, pytest.approx(0.2), pytest.approx(0.1), 0.5)
    assert summarise([]) is None
    assert list(grouped(values, lambda each: each.seen.family)) == ["a", "b"]


def test_a_tight_verdict_is_never_wrong() -> None:
    assert Fit(seen=observation(), ran=False, probability=0.6).wrong is None
