"""Verdicts over tiers: the strongest that settles a claim decides, and none is ever mixed with another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from claim_rows import MAC, PC, claim

from bench.claims.claim import Estimate
from bench.claims.judge import judge

SPEED = claim("ratio", quantity="tokens_per_s", expected=(2, 4), unit="×", sides=(PC, MAC))


def seen(tier: str, value: float, low: float | None = None, high: float | None = None, **more) -> Estimate:
    return Estimate(**{"tier": tier, "what": "8b lora", "who": "x", "value": value, "low": low, "high": high, "n": 3, **more})


def verdict(*found: Estimate):
    return judge(SPEED, [lambda claim: found])


def test_the_strongest_tier_decides():
    made = verdict(seen("published", 9, 8, 10), seen("measured", 3, 2.9, 3.1), seen("predicted", 9, 5, 12))
    assert (made.verdict, made.tiers, made.value) == ("verified", ("measured",), 3)
    assert [each.tier for each in made.others] == ["published", "predicted"]


def test_a_tier_that_settles_nothing_lets_the_next_one_speak_and_is_named():
    made = verdict(seen("measured", 3), seen("published", 9, 8, 10))
    assert (made.verdict, made.tiers) == ("refined", ("published",))
    assert made.reason.endswith("measured evidence alone settles nothing")


def test_nothing_that_judges_nothing_is_without_its_reason():
    made = verdict(seen("published", 3), seen("measured", 3), seen("stand-in", 9, 8, 10), seen("predicted", 3, 2, 4))
    assert {each.tier: each.refused for each in made.others} == {
        "measured": "measured evidence alone settles nothing",
        "published": "stand-in evidence comes before it",
        "predicted": "stand-in evidence comes before it",
    }


@pytest.mark.parametrize(
    ("count", "told"),
    [(1, "one answer was found, and cannot be used: meter x"), (2, "2 answers were found, and none can be used: meter x")],
)
def test_answers_that_cannot_be_used_are_counted(count, told):
    found = [seen("published", 3, refused="meter x", evidence=(f"row-{number}",)) for number in range(count)]
    assert judge(SPEED, [lambda claim: found]).reason == told


def test_what_is_cited_is_no_answer_that_was_found():
    asked = replace(SPEED, cites=("row-1",))
    made = judge(asked, [lambda claim: [seen("published", 3, refused="another machine (a)", evidence=("row-1",))]])
    assert (made.verdict, len(made.others)) == ("untested", 1)
    assert made.reason.startswith("no run")


def test_where_none_settles_it_the_strongest_speaks():
    made = verdict(seen("measured", 3), seen("published", 4.6, 4, 5))
    assert (made.verdict, made.tiers) == ("inconclusive", ("measured",))


@pytest.mark.parametrize(("value", "said"), [(3, "predicted-to-hold"), (9, "predicted-to-fail"), (0.5, "predicted-to-fail")])
def test_a_prediction_alone_speaks_by_its_middle(value, said):
    made = verdict(seen("predicted", value, value / 3, value * 3))
    assert (made.verdict, made.low, made.high) == (said, pytest.approx(value / 3), pytest.approx(value * 3))


def test_refused_evidence_judges_nothing_and_is_told():
    made = verdict(seen("measured", 3, 2.9, 3.1, refused="the work differs: rank 8 against 16"))
    assert made.verdict == "untested"
    assert "rank 8 against 16" in made.reason
    assert len(made.others) == 1


def test_what_packages_have_is_partly_probed_and_partly_cited():
    support = claim("support", techniques=("a", "b"), sides=(PC, MAC))
    made = judge(
        support, [lambda asked: [seen("measured", 1.0), seen("published", 1.0), seen("measured", 0.0, refused="not known")]]
    )
    assert (made.verdict, made.tiers, len(made.estimates)) == ("verified", ("measured", "published"), 2)


def test_no_evidence_is_untested_with_the_reason():
    made = verdict()
    assert made.verdict == "untested"
    assert "mac-studio-m3-ultra or pc-rtx-4090" in made.reason


def test_a_prediction_whose_interval_reaches_the_claim_says_so():
    assert verdict(seen("predicted", 9, 3, 27)).reason.endswith("; the 80% interval reaches what is claimed")
    assert "reaches" not in verdict(seen("predicted", 9, 8, 10)).reason


def test_a_prediction_without_an_interval_does_not_reach_what_is_claimed():
    """The optimizer's part: 4 GB per 1B against 8 to 12, by a formula that has no interval."""
    assert "reaches" not in verdict(seen("predicted", 9)).reason


def test_what_contradicts_a_claim_from_either_side_is_told_by_its_ends():
    peak = claim("value", quantity="peak_bytes", expected=(4e9, 4e9), unit="GB")
    found = [seen("predicted", 5.27e9, 4.1e9, 5.6e9), seen("predicted", 3.3e9, 2.9e9, 3.7e9), seen("predicted", 3.7e9)]
    made = judge(peak, [lambda asked: found])
    assert (made.verdict, made.value, made.least, made.most, made.speaking) == ("predicted-to-fail", None, 3.3e9, 5.27e9, 2)
    assert (made.low, made.high) == (2.9e9, 5.6e9)


def test_a_predicted_winner_has_won_by_its_whole_interval():
    winner = claim("winner", winner="first", sides=(PC, MAC))
    assert judge(winner, [lambda claim: [seen("predicted", 1.5, 0.8, 2.8)]]).verdict == "inconclusive"
    assert judge(winner, [lambda claim: [seen("predicted", 3, 1.5, 6)]]).verdict == "predicted-to-hold"
