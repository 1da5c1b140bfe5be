"""Who wins: alone able, or surely faster. What neither can do, and what nobody knows, counts too."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_sweeps import RANK, SWEEPS, WINNER, Tally, around, effort, ratios, seen

from bench.claims.claim import Claim, Estimate
from bench.claims.rules import rule

TIE = replace(WINNER, winner="tie")
FIRST, SECOND, EQUAL, OPEN = (3, 2, 4), (0.3, 0.2, 0.4), (1.0, 0.95, 1.05), (1.2, 0.9, 1.4)
ONLY_FIRST, ONLY_SECOND, NEITHER = (math.inf, None, None), (0.0, None, None), (math.nan, None, None)
MARGINAL = (1.05, 1.02, 1.08)


@pytest.mark.parametrize(
    ("winner", "found", "verdict"),
    [
        ("first", [FIRST], "verified"),
        ("first", [MARGINAL], "verified"),  # an interval that leaves out 1, however small the lead
        ("first", [FIRST, MARGINAL], "verified"),
        ("second", [MARGINAL], "refuted"),
        ("first", [EQUAL], "inconclusive"),
        ("first", [ONLY_FIRST], "verified"),
        ("first", [ONLY_SECOND], "refuted"),
        ("second", [ONLY_SECOND], "verified"),
        ("first", [FIRST, ONLY_SECOND], "refined"),
        ("first", [FIRST, OPEN], "inconclusive"),
        ("second", [ONLY_SECOND, NEITHER, NEITHER], "refined"),
        ("second", [NEITHER], "refuted"),
        ("second", [NEITHER, FIRST], "refuted"),
        ("second", [NEITHER, OPEN], "inconclusive"),
        ("tie", [FIRST, ONLY_SECOND], "verified"),
        ("tie", [FIRST, SECOND, EQUAL], "verified"),
        ("tie", [FIRST, FIRST], "refuted"),
        ("tie", [FIRST, EQUAL], "refined"),  # nobody wins everything
        ("tie", [ONLY_SECOND, EQUAL], "refined"),
        ("tie", [EQUAL], "verified"),
        ("tie", [MARGINAL], "verified"),
        ("tie", [FIRST, (1.1, 1.02, 1.2)], "inconclusive"),  # within the tolerance, or ahead by more
        ("tie", [NEITHER], "refuted"),  # what neither can do is no tie
        ("tie", [FIRST, SECOND, NEITHER], "refined"),
        ("tie", [EQUAL, NEITHER], "refined"),
        ("tie", [FIRST, NEITHER], "refuted"),
    ],
)
def test_a_winner(winner, found, verdict):
    assert rule(replace(WINNER, winner=winner), [seen(*each) for each in found]).verdict == verdict


def test_the_ruling_counts_every_work_of_the_claim():
    claim = replace(WINNER, winner="second", models=("a", "b"), methods=("full", "lora", "qlora"))
    found = [seen(*each, what=str(place)) for place, each in enumerate((ONLY_SECOND, NEITHER, NEITHER, FIRST, OPEN))]
    ruling = rule(claim, found)
    told = "mac wins 1 of 6; pc wins 1; neither can do 2; 1 cannot be told apart; of 1 nothing is known"
    assert (ruling.verdict, ruling.reason) == ("refined", told)
    tied = rule(replace(claim, winner="tie"), found)
    assert tied.reason.startswith("pc wins 1, mac 1, 0 are equal, of 6; neither can do 2")


def test_a_work_that_nothing_is_known_of_leaves_a_claim_about_it_open():
    claim = replace(WINNER, models=("a", "b"), methods=("lora",))
    assert rule(claim, [seen(*FIRST, what="a lora")]).verdict == "inconclusive"
    assert rule(claim, [seen(*FIRST, what="a lora"), seen(*FIRST, what="b lora")]).verdict == "verified"


def test_more_runs_are_for_what_is_open():
    assert rule(WINNER, [seen(*ONLY_FIRST, n=1), seen(*FIRST)]).more_runs is None
    ruling = rule(WINNER, [seen(*ONLY_FIRST, n=1), seen(1.1, 1.1 / 1.1**2, 1.1**3, n=5)])
    assert (ruling.verdict, ruling.more_runs) == ("inconclusive", 15)


middles, widths = st.floats(0.05, 20), st.floats(1.001, 3)
outcomes = st.one_of(
    st.builds(lambda middle, width: (middle, middle / width, middle * width), middles, widths),
    st.sampled_from([ONLY_FIRST, ONLY_SECOND, NEITHER]),
)


def turned(each: Estimate) -> Estimate:
    """The same with both machines in each other's place."""
    if each.low is None or each.high is None or each.value is None:
        return replace(each, value={0.0: math.inf, math.inf: 0.0}.get(each.value or 0.0, math.nan))
    return replace(each, value=1 / each.value, low=1 / each.high, high=1 / each.low)


@given(st.lists(outcomes, min_size=1, max_size=6))
def test_turning_the_machines_round_changes_nothing(found):
    answers = [seen(*each) for each in found]
    other_way = [turned(each) for each in answers]
    assert rule(replace(WINNER, winner="second"), other_way).verdict == rule(WINNER, answers).verdict
    edges = (1.15, 1 / 1.15)
    if all(low is None or abs(math.log(end / edge)) > 1e-9 for _, low, high in found for end in (low, high) for edge in edges):
        assert rule(TIE, other_way).verdict == rule(TIE, answers).verdict


@pytest.mark.parametrize(
    ("claim", "agreeing", "opposed"),
    [
        (WINNER, [FIRST, MARGINAL, ONLY_FIRST], [SECOND, ONLY_SECOND, NEITHER]),
        (replace(WINNER, winner="second"), [SECOND, ONLY_SECOND], [FIRST, MARGINAL, ONLY_FIRST, NEITHER]),
        (TIE, [EQUAL], [NEITHER]),
    ],
)
@given(st.lists(outcomes, min_size=1, max_size=5))
def test_more_evidence_one_way_never_turns_a_verdict_the_other_way(claim, agreeing, opposed, found):
    answers = [seen(*each) for each in found]
    before = rule(claim, answers).verdict
    for each in agreeing:
        after = rule(claim, [*answers, seen(*each)]).verdict
        assert after != "refuted"
        assert before != "verified" or after == "verified"
        assert RANK.get(after, 0) <= RANK.get(before, 2)
    for each in opposed:
        after = rule(claim, [*answers, seen(*each)]).verdict
        assert after != "verified"
        assert RANK.get(after, 2) >= RANK.get(before, 0)


@given(middles, widths, st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_interval_never_contradicts_a_wider_one(middle, width, first, second):
    ends = math.log(middle / width), math.log(middle * width)
    low, high = sorted(math.exp(ends[0] + part * (ends[1] - ends[0])) for part in (first, second))
    for claim in (WINNER, TIE):
        wide = rule(claim, [seen(middle, math.exp(ends[0]), math.exp(ends[1]))]).verdict
        assert wide in ("inconclusive", rule(claim, [seen(math.sqrt(low * high), low, high)]).verdict)


def truth_of(claim: Claim, truths: list[float]) -> tuple[bool, bool]:
    """(whether the claim is true, whether it is wholly false) of works of which these rates, or abilities, are known."""
    if claim.winner == "first":
        won = [truth > 1 for truth in truths]
        return all(won), not any(won)
    margin = 1 + claim.tolerance
    equal = [1 / margin <= truth <= margin for truth in truths]
    ahead, behind = any(truth > margin for truth in truths), any(truth < 1 / margin for truth in truths)
    able = not any(math.isnan(truth) for truth in truths)
    return able and ((ahead and behind) or all(equal)), not any(equal) and not (ahead and behind)


@pytest.mark.parametrize("claim", [WINNER, TIE], ids=["winner", "tie"])
def test_a_thousand_sweeps_of_known_truth_seldom_err(claim):
    """Rates around where a win begins; of some sweeps one work more that one machine alone can do, or neither."""
    random = np.random.default_rng(11)
    centres = (1.0,) if claim is WINNER else (1.0, 1.15, 1 / 1.15)
    tally = Tally()
    for _ in range(SWEEPS):
        rates = around(random, centres)
        able = [float(random.choice([math.inf, 0.0, math.nan]))] if random.random() < 0.3 else []
        found = [*ratios(random, rates, *effort(random)), *(seen(each, n=1, what="x") for each in able)]
        verdict = rule(claim, found).verdict
        tally.add(verdict, *truth_of(claim, [*rates, *able]))
    assert tally.is_sound(), tally
