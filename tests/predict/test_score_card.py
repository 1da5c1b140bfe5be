"""The card's text."""

from __future__ import annotations

from observed import observation, ten_gb

from bench.predict.fit import Evidence, fitted
from bench.predict.fit_memory import residuals
from bench.predict.score import score
from bench.predict.score_card import card_text


def text(*rows: object) -> str:
    evidence = Evidence(tuple(rows), {"x-1": "a vendor's claim", "x-2": "a vendor's claim"})  # type: ignore[arg-type]
    found = residuals(evidence.observations, ten_gb)
    return card_text(score(evidence, found, ten_gb), fitted(found, []), evidence)


def test_targets_wrong_verdicts_and_what_was_left_out_are_written() -> None:
    card = text(
        observation(peak_bytes=11 * 10**9),
        observation(id="b-1", family="b", outcome="oom", capacity_bytes=25 * 10**9, missing=("rank",)),
    )
    assert "| peak, stated: MAPE | ≤ 10% | 9.1% | yes | 1 |" in card
    assert "| tokens/s, stated: MAPE | ≤ 30% | - | no rows | 0 |" in card
    assert "| b-1 | false fit |" in card
    assert "open: rank" in card
    assert "| a vendor's claim | 2 |" in card


def test_a_missed_target_says_no_and_a_false_fit_on_a_small_card_counts() -> None:
    card = text(observation(peak_bytes=5 * 10**9), observation(id="b-1", family="b", outcome="oom", capacity_bytes=25 * 10**9))
    assert "| peak, stated: MAPE | ≤ 10% | 100.0% | no | 1 |" in card
    assert "| 24 GB, ran out of memory: said to fit | 0 | 1 | no | 1 |" in card


def test_no_evidence_is_a_card_all_the_same() -> None:
    assert "no rows" in text()


def test_rows_set_apart_after_a_look_are_counted_beside_the_target() -> None:
    card = text(
        observation(peak_bytes=10**10),
        observation(id="b-1", family="b", peak_bytes=2 * 10**10, missing=("attention kernel",)),
    )
    assert "| peak, stated: MAPE | ≤ 10% | 0.0% | yes | 1 |" in card
    assert "| stated, and what was set apart | 2 | 25.0% |" in card
