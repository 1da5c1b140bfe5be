"""The rules of judging: what each verdict takes, and what no evidence can make them do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_sweeps import FITS, ORDER, RANGE, RANK, RATIO, SUPPORT, VALUE, seen

from bench.claims.claim import Claim, Estimate, Expected, Side
from bench.claims.found import band
from bench.claims.rules import rule
from bench.intervals import interval, ratio_interval


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([(3, 2.8, 3.2)], "verified"),
        ([(3, 1.8, 4.5)], "verified"),  # 2 / 1.15 = 1.74 and 4 × 1.15 = 4.6 are within the tolerance
        ([(6, 5, 7)], "refined"),
        ([(0.5, 0.4, 0.6)], "refuted"),
        ([(1.2, 0.9, 1.5)], "inconclusive"),
        ([(4.5, 3.9, 5.2)], "inconclusive"),
        ([(3, None, None)], "inconclusive"),
        ([(3, 2.8, 3.2), (6, 5, 7)], "refined"),
        ([(3, 2.8, 3.2), (0.5, 0.49, 0.51)], "refuted"),
        ([(3, 2.8, 3.2), (4.5, 3.9, 5.2)], "inconclusive"),
        ([], "untested"),
    ],
)
def test_a_ratio(found, verdict):
    assert rule(RATIO, [seen(*each) for each in found]).verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((19e9, 18e9, 20e9), "verified"),
        ((11e9, 10e9, 12e9), "refined"),
        ((3e9, 2e9, 4e9), "refuted"),
        ((60e9, 50e9, 70e9), "inconclusive"),
    ],
)
def test_a_value_is_refined_within_its_order_of_magnitude(found, verdict):
    """60 GB: beside the claim's, and across the line of the next order of magnitude (65 GB)."""
    expected = "refined" if verdict == "inconclusive" else verdict
    assert rule(VALUE, [seen(*found)]).verdict == expected


def test_the_number_that_takes_a_claims_place_is_of_those_that_contradict_it():
    """Else a reader is shown the claim's own number beside a verdict against it."""
    agreeing, other = seen(18e9, 17.5e9, 18.5e9), seen(24e9, 23e9, 25e9, who="mlx@metal")
    ruling = rule(VALUE, [agreeing, agreeing, other])
    assert (ruling.verdict, ruling.found.value, ruling.found.low, ruling.found.high) == ("refined", 24e9, 23e9, 25e9)
    assert ruling.found.speaking == 1
    assert ruling.reason.endswith(": m lora by mlx@metal")


def test_those_that_contradict_a_claim_from_either_side_have_no_middle():
    """QLoRA at 4B: 5.27 and 3.30 GB where 4 are claimed, and a middle of 4.17 that nobody says."""
    claim = replace(VALUE, expected=Expected(4e9, 4e9))
    found = rule(claim, [seen(5.27e9, 5.2e9, 5.3e9), seen(3.3e9, 3.2e9, 3.4e9), seen(3.7e9, 3.6e9, 3.8e9)]).found
    assert (found.value, found.least, found.most, found.speaking) == (None, 3.3e9, 5.27e9, 2)


def test_where_some_contradict_the_direction_and_some_the_number_both_are_said():
    """Half the memory: two of three say more instead of less, and one says less, but not half."""
    claim = replace(RATIO, expected=Expected(0.5, 0.5))
    ruling = rule(claim, [seen(1.05, 1.04, 1.06), seen(1.1, 1.09, 1.11), seen(0.9, 0.89, 0.91)])
    named, rest = ruling.reason.split("; ")
    assert named == "2 of 3 say the opposite direction: m lora by x, m lora by x"
    assert rest == "1 of 3 says another number than the claim's, in its direction"
    assert (ruling.found.value, ruling.found.least, ruling.found.most, ruling.found.speaking) == (None, 0.9, 1.1, 3)


@pytest.mark.parametrize(
    ("claim", "found", "told"),
    [
        (ORDER, (3, 2, 4), "1 of 1 lies above 1"),
        (ORDER, (0.5, 0.4, 0.6), "1 of 1 lies below 1"),
        (replace(ORDER, expected=Expected(2, None)), (3, 2.5, 4), "1 of 1 lies in the claimed range"),
        (replace(ORDER, expected=Expected(2, None)), (1, 0.5, 1.5), "1 of 1 lies outside the claimed range"),
        (replace(RANGE, expected=Expected(7, None), tolerance=0), (9, 8, 10), "1 of 1 lies in the claimed range"),
        (RANGE, (18e9, 17e9, 19e9), "1 of 1 lies in the claimed range, within 15%"),
        (RATIO, (3, 2.8, 3.2), "1 of 1 lies in the claimed range, within 15%"),
        (VALUE, (18e9, 17e9, 19e9), "1 of 1 says the claim's number, within 15%"),
        (replace(VALUE, tolerance=0), (18e9, 18e9, 18e9), "1 of 1 says the claim's number"),
        (VALUE, (11e9, 10e9, 12e9), "1 of 1 says another number than the claim's, of its order of magnitude"),
        (VALUE, (1e9, 0.9e9, 1.1e9), "1 of 1 says another order of magnitude"),
        (RATIO, (6, 5, 7), "1 of 1 says another number than the claim's, in its direction"),
        (RATIO, (0.5, 0.4, 0.6), "1 of 1 says the opposite direction"),
        (replace(RATIO, expected=Expected(0.9, 1.1)), (6, 5, 7), "1 of 1 says another number than the claim's"),
    ],
)
def test_a_ruling_says_what_the_answers_say(claim, found, told):
    assert rule(claim, [seen(*found)]).reason == told


def test_a_prediction_speaks_by_its_middle_and_says_how_many_intervals_reach_the_claim():
    reaching, beside, bare = seen(9, 3, 27, tier="predicted"), seen(9, 8, 10, tier="predicted"), seen(9, tier="predicted")
    assert rule(RATIO, [reaching]).reason.endswith("; the 80% interval reaches what is claimed")
    assert rule(RATIO, [reaching, beside, bare]).reason.endswith("; the 80% interval of 1 of them reaches what is claimed")
    assert "reaches" not in rule(RATIO, [beside]).reason + rule(RATIO, [bare]).reason
    other_way = seen(0.9, 0.8, 1.3, tier="predicted")  # over 1, and still beside the claimed 2 to 4
    assert "reaches" not in rule(RATIO, [other_way]).reason
    assert (rule(RATIO, [reaching]).found.low, rule(RATIO, [reaching]).found.high) == (3, 27)


@pytest.mark.parametrize(
    ("found", "verdict"), [((3, 2, 4), "verified"), ((0.5, 0.4, 0.6), "refuted"), ((1.1, 0.9, 1.3), "inconclusive")]
)
def test_an_order(found, verdict):
    assert rule(ORDER, [seen(*found)]).verdict == verdict


@pytest.mark.parametrize(
    ("claim", "found", "verdict"),
    [
        (FITS, [(1, 0.3)], "verified"),
        (FITS, [(0, None), (1, 0.3)], "verified"),  # of two stacks one is enough
        (FITS, [(0, None)], "refuted"),
        (FITS, [(0.5, None)], "inconclusive"),
        (replace(FITS, headroom=0.2), [(1, 0.1)], "refined"),
        (replace(FITS, headroom=0.2), [(1, 0.3)], "verified"),
        (replace(FITS, fits="no"), [(0, None)], "verified"),
        (replace(FITS, fits="no"), [(0, None), (1, 0.01)], "refuted"),
        (replace(FITS, fits="crash"), [(0, None)], "verified"),
        (replace(FITS, fits="slow"), [(0, None)], "refuted"),
        (replace(FITS, fits="tight"), [(1, 0.02)], "verified"),
        (replace(FITS, fits="tight"), [(1, None)], "inconclusive"),
        (replace(FITS, fits="tight"), [(0.5, 0.5)], "inconclusive"),
        (replace(FITS, headroom=0.2), [(1, None)], "inconclusive"),
        (replace(FITS, fits="tight"), [(0.5, None)], "verified"),
        (replace(FITS, fits="tight"), [(1, 0.4)], "refined"),
        (replace(FITS, fits="tight"), [(0, None)], "refuted"),
    ],
)
def test_a_fit(claim, found, verdict):
    assert rule(claim, [seen(value, headroom=room) for value, room in found]).verdict == verdict


@pytest.mark.parametrize(
    ("fits", "verdict"), [("slow", "verified"), ("crash", "refuted"), ("yes", "refuted"), ("no", "verified")]
)
def test_what_runs_on_swapped_memory_is_slow_does_not_fit_and_did_not_crash(fits, verdict):
    assert rule(replace(FITS, fits=fits), [seen(0.0, slow=True)]).verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [([1, 1, 0], "verified"), ([1, 0], "refined"), ([1, -1], "refined"), ([-1, 0], "refuted"), ([0, 0], "inconclusive")],
)
def test_support_on_one_side_alone(found, verdict):
    assert rule(SUPPORT, [seen(value) for value in found]).verdict == verdict


def test_support_names_both_sides():
    mlx = Side(machines=("mac",), backends=("mlx",))
    told = rule(replace(SUPPORT, sides=(SUPPORT.sides[0], mlx)), [seen(1), seen(0)]).reason
    assert told == "of 2 techniques 1 are on pc alone, 0 on mac (mlx) alone"


@pytest.mark.parametrize(("found", "verdict"), [([1, 1], "verified"), ([1, 0], "refined"), ([0, 0], "refuted")])
def test_support_of_one_side(found, verdict):
    assert rule(replace(SUPPORT, sides=(Side(),)), [seen(value) for value in found]).verdict == verdict


factors = st.floats(0.05, 20)
widths = st.floats(1.001, 3)
counts = st.integers(2, 20)
intervals = st.builds(lambda middle, width, n: seen(middle, middle / width, middle * width, n), factors, widths, counts)
UP_TO_TWO = {"value": Expected(1, 1), "range": Expected(1, 2), "open": Expected(1, None)}


@pytest.mark.parametrize("expected", UP_TO_TWO.values(), ids=UP_TO_TWO)
@given(st.lists(intervals, min_size=1, max_size=6), st.floats(1e-6, 1e12))
def test_no_verdict_depends_on_the_unit(expected, found, scale):
    claim = replace(VALUE, expected=expected)
    scaled = replace(claim, expected=Expected(scale * expected.low, None if expected.high is None else scale * expected.high))
    moved = [replace(each, value=each.value * scale, low=each.low * scale, high=each.high * scale) for each in found]
    low, high = band(claim.expected, 0.15)
    edges = [edge for edge in (low, high, low / math.sqrt(10), high * math.sqrt(10)) if edge < math.inf]
    if all(abs(math.log(end / edge)) > 1e-9 for each in found for end in (each.low, each.high) for edge in edges):
        assert rule(scaled, moved).verdict == rule(claim, found).verdict


rates = st.lists(st.floats(0.5, 2), min_size=2, max_size=5, unique=True)


@given(rates, rates, st.floats(1e-6, 1e9))
def test_no_verdict_on_a_ratio_depends_on_the_unit_of_both_sides(first, second, scale):
    found = ratio_interval(first, second)
    moved = ratio_interval([scale * each for each in first], [scale * each for each in second])
    edges = (*band(RATIO.expected, RATIO.tolerance), 1.0)
    if all(abs(math.log(end / edge)) > 1e-6 for end in found[1:] for edge in edges):
        assert rule(RATIO, [seen(*moved)]).verdict == rule(RATIO, [seen(*found)]).verdict


def turned(found: list[Estimate]) -> list[Estimate]:
    return [replace(each, value=1 / each.value, low=1 / each.high, high=1 / each.low) for each in found]


@given(st.lists(intervals, min_size=1, max_size=6))
def test_turning_the_machines_round_changes_nothing(found):
    ratio, order = replace(RATIO, expected=Expected(1 / 4, 1 / 2)), replace(ORDER, expected=Expected(None, 1))
    assert rule(ratio, turned(found)).verdict == rule(RATIO, found).verdict
    assert rule(order, turned(found)).verdict == rule(ORDER, found).verdict


RIGHT, BESIDE, WRONG = seen(3, 2.9, 3.1), seen(9, 8.9, 9.1), seen(0.1, 0.099, 0.101, 20)
NUMBERS = {
    "ratio": (RATIO, RIGHT, WRONG),
    "value": (replace(VALUE, expected=Expected(3, 3)), RIGHT, WRONG),
    "range": (replace(RANGE, expected=Expected(2, 4)), RIGHT, WRONG),
    "open": (replace(RANGE, expected=Expected(2, None)), RIGHT, WRONG),
    "order": (ORDER, RIGHT, WRONG),
}


def never_turned(claim: Claim, found: list[Estimate], agreeing: Estimate, opposed: Estimate) -> None:
    """With more that agrees a verdict becomes no worse, with more that disagrees no better."""
    before = rule(claim, found).verdict
    with_it, against_it = rule(claim, [*found, agreeing]).verdict, rule(claim, [*found, opposed]).verdict
    assert before != "verified" or with_it == "verified"
    assert with_it != "refuted" or before == "refuted"
    assert RANK.get(with_it, 0) <= RANK.get(before, 2)
    assert against_it != "verified"
    assert before != "refuted" or against_it == "refuted"
    assert RANK.get(against_it, 2) >= RANK.get(before, 0)


@pytest.mark.parametrize(("claim", "agreeing", "opposed"), NUMBERS.values(), ids=NUMBERS)
@given(st.lists(intervals, min_size=1, max_size=5))
def test_more_evidence_one_way_never_turns_a_number_the_other_way(claim, agreeing, opposed, found):
    never_turned(claim, found, agreeing, opposed)
    assert rule(claim, [*found, opposed]).verdict == "refuted"
    if claim.kind != "order" and claim.expected.high is not None:
        before, beside = rule(claim, found).verdict, rule(claim, [*found, BESIDE]).verdict
        assert before == "refuted" or RANK[beside] >= max(1, RANK.get(before, 0))


CAN, CANNOT = seen(1.0, headroom=0.5, what="new"), seen(0.0, what="new")
chances = st.builds(
    lambda value, room, what: seen(value, headroom=room, what=what),
    st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]),
    st.one_of(st.none(), st.floats(0, 1)),
    st.sampled_from(["a", "b"]),
)


@pytest.mark.parametrize(
    ("claim", "agreeing", "opposed"),
    [
        (FITS, CAN, CANNOT),
        (replace(FITS, headroom=0.2), CAN, CANNOT),
        (replace(FITS, fits="tight"), seen(1.0, headroom=0.05, what="new"), CANNOT),
        (replace(FITS, fits="no"), CANNOT, CAN),
        (replace(FITS, fits="crash"), CANNOT, seen(0.0, slow=True, what="new")),
        (replace(FITS, fits="slow"), seen(0.0, slow=True, what="new"), CANNOT),
    ],
    ids=["yes", "headroom", "tight", "no", "crash", "slow"],
)
@given(st.lists(chances, min_size=1, max_size=5))
def test_more_evidence_one_way_never_turns_a_fit_the_other_way(claim, agreeing, opposed, found):
    never_turned(claim, found, agreeing, opposed)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=6), st.sampled_from([0.0, 0.5]))
def test_more_evidence_one_way_never_turns_support_the_other_way(found, share):
    never_turned(replace(SUPPORT, share=share), [seen(each) for each in found], seen(1.0), seen(-1.0))
    alone = replace(SUPPORT, sides=(Side(),))
    never_turned(alone, [seen(max(each, 0.0)) for each in found], seen(1.0), seen(0.0))


@given(intervals, st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_interval_never_contradicts_a_wider_one(found, first, second):
    low, high = sorted(
        math.exp(math.log(found.low) + part * (math.log(found.high) - math.log(found.low))) for part in (first, second)
    )
    narrower = replace(found, value=math.sqrt(low * high), low=low, high=high)
    for claim in (RATIO, replace(VALUE, expected=Expected(1, 2)), ORDER):
        wide, narrow = rule(claim, [found]).verdict, rule(claim, [narrower]).verdict
        assert wide in ("inconclusive", narrow) or (claim.kind == "value" and {wide, narrow} == {"refined", "refuted"})


@settings(max_examples=20)
@given(st.lists(st.floats(1, 100), min_size=2, max_size=6))
def test_a_refined_value_lies_within_what_was_seen(values):
    found = [seen(*interval([value, value * 1.01])) for value in values]
    ruling = rule(replace(VALUE, expected=Expected(1e-3, 1e-3)), found)
    assert ruling.found.low <= ruling.found.value <= ruling.found.high


def test_nothing_where_something_was_claimed_is_another_order_of_magnitude():
    assert rule(VALUE, [seen(0.0, 0.0, 0.0)]).verdict == "refuted"
