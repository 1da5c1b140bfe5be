"""The rules of judging: what each verdict takes, and what no evidence can make them do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.claims.claim import Claim, Estimate, Expected, Side
from bench.claims.rules import band, rule
from bench.intervals import interval, ratio_interval

SAID = {"en": "so", "fr": "ainsi", "ro": "așa"}
RATIO = Claim(id="r", kind="ratio", statement=SAID, quantity="tokens_per_s", unit="×", expected=Expected(2, 4))
VALUE = Claim(id="v", kind="value", statement=SAID, quantity="peak_bytes", unit="GB", expected=Expected(18e9, 18e9))
ORDER = Claim(id="o", kind="order", statement=SAID, quantity="parts_over_rest", expected=Expected(1, None), tolerance=0)
FITS = Claim(id="f", kind="fit", statement=SAID, fits="yes", models=("m",), methods=("lora",))
WINNER = Claim(id="w", kind="winner", statement=SAID, winner="first", sides=(Side(), Side()))
SUPPORT = Claim(id="s", kind="support", statement=SAID, techniques=("a",), sides=(Side(), Side()))
RANK = {"verified": 0, "refined": 1, "refuted": 2}


def seen(value: float | None, low: float | None = None, high: float | None = None, n: int = 5, **more) -> Estimate:
    return Estimate(
        **{"tier": "measured", "what": "m lora", "who": "x", "value": value, "low": low, "high": high, "n": n, **more}
    )


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


def test_a_refinement_says_what_was_found():
    assert rule(VALUE, [seen(11e9, 10e9, 12e9), seen(12e9, 11e9, 13e9)]).replacement == (
        pytest.approx(11.489e9, rel=1e-3),
        10e9,
        13e9,
    )


def test_the_number_that_takes_a_claims_place_is_of_those_that_contradict_it():
    """Else a reader is shown the claim's own number beside a verdict against it."""
    agreeing, other = seen(18e9, 17.5e9, 18.5e9), seen(24e9, 23e9, 25e9, who="mlx@metal")
    ruling = rule(VALUE, [agreeing, agreeing, other])
    assert (ruling.verdict, ruling.replacement) == ("refined", (pytest.approx(24e9), 23e9, 25e9))
    assert ruling.reason.endswith(": m lora by mlx@metal")


def test_an_inconclusive_one_says_how_many_runs_more():
    """An interval twice as wide as the distance to the edge needs four times the runs."""
    edge = 4 * 1.15
    found = seen(edge / 1.1, edge / 1.1**3, edge * 1.1, n=5)
    assert rule(RATIO, [found]).more_runs == 5 * 4 - 5


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
    ("winner", "found", "verdict"),
    [
        ("first", [(3, 2, 4)], "verified"),
        ("first", [(math.inf, None, None)], "verified"),
        ("first", [(0.0, None, None)], "refuted"),
        ("second", [(0.0, None, None)], "verified"),
        ("first", [(3, 2, 4), (0.0, None, None)], "refined"),
        ("first", [(3, 2, 4), (1.2, 0.9, 1.4)], "inconclusive"),
        ("tie", [(3, 2, 4), (0.0, None, None)], "verified"),
        ("tie", [(3, 2, 4)], "refuted"),
        ("tie", [(1, 0.95, 1.05)], "verified"),
    ],
)
def test_a_winner(winner, found, verdict):
    assert rule(replace(WINNER, winner=winner), [seen(*each) for each in found]).verdict == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [([1, 1, 0], "verified"), ([1, 0], "refined"), ([1, -1], "refined"), ([-1, 0], "refuted"), ([0, 0], "inconclusive")],
)
def test_support_on_one_side_alone(found, verdict):
    assert rule(SUPPORT, [seen(value) for value in found]).verdict == verdict


@pytest.mark.parametrize(("found", "verdict"), [([1, 1], "verified"), ([1, 0], "refined"), ([0, 0], "refuted")])
def test_support_of_one_side(found, verdict):
    assert rule(replace(SUPPORT, sides=(Side(),)), [seen(value) for value in found]).verdict == verdict


factors = st.floats(0.05, 20)
widths = st.floats(1.001, 3)
counts = st.integers(2, 20)
intervals = st.builds(lambda middle, width, n: seen(middle, middle / width, middle * width, n), factors, widths, counts)


@given(st.lists(intervals, min_size=1, max_size=6), st.floats(1e-6, 1e12))
def test_no_verdict_depends_on_the_unit(found, scale):
    claim = replace(VALUE, expected=Expected(1, 2))
    scaled = replace(claim, expected=Expected(scale, 2 * scale))
    moved = [replace(each, value=each.value * scale, low=each.low * scale, high=each.high * scale) for each in found]
    edges = [edge for low_high in (band(claim.expected, 0.15),) for edge in low_high]
    if all(abs(math.log(end / edge)) > 1e-9 for each in found for end in (each.low, each.high) for edge in edges):
        assert rule(scaled, moved).verdict == rule(claim, found).verdict


@given(st.lists(intervals, min_size=1, max_size=6))
def test_turning_the_machines_round_changes_nothing(found):
    turned = [replace(each, value=1 / each.value, low=1 / each.high, high=1 / each.low) for each in found]
    ratio = replace(RATIO, expected=Expected(1 / 4, 1 / 2))
    assert rule(ratio, turned).verdict == rule(RATIO, found).verdict
    assert rule(replace(WINNER, winner="second"), turned).verdict == rule(WINNER, found).verdict
    assert rule(replace(WINNER, winner="tie"), turned).verdict == rule(replace(WINNER, winner="tie"), found).verdict


@given(st.lists(intervals, min_size=1, max_size=5))
def test_more_evidence_one_way_never_turns_a_verdict_the_other_way(found):
    """With more that agrees it becomes no worse, with more that disagrees no better."""
    before = rule(RATIO, found).verdict
    agreeing = rule(RATIO, [*found, seen(3, 2.9, 3.1)]).verdict
    beside = rule(RATIO, [*found, seen(9, 8.9, 9.1)]).verdict
    opposed = rule(RATIO, [*found, seen(0.1, 0.099, 0.101, 20)]).verdict
    if before in RANK and agreeing in RANK:
        assert RANK[agreeing] <= RANK[before] or before == "verified"
    assert before != "verified" or agreeing == "verified"
    assert RANK[beside] >= max(1, RANK.get(before, 0)) or before == "refuted"
    assert opposed == "refuted"


@given(intervals, st.floats(0, 1), st.floats(0, 1))
def test_a_narrower_interval_never_contradicts_a_wider_one(found, first, second):
    low, high = sorted(
        math.exp(math.log(found.low) + part * (math.log(found.high) - math.log(found.low))) for part in (first, second)
    )
    narrower = replace(found, value=math.sqrt(low * high), low=low, high=high)
    for claim in (RATIO, replace(VALUE, expected=Expected(1, 2)), ORDER):
        wide, narrow = rule(claim, [found]).verdict, rule(claim, [narrower]).verdict
        assert wide in ("inconclusive", narrow) or (claim.kind == "value" and {wide, narrow} == {"refined", "refuted"})


def sweep(random: np.random.Generator, truths: list[float], runs: int, noise: float) -> list[Estimate]:
    """What a sweep of so many runs on either machine would find, cell by cell."""
    found = []
    for truth in truths:
        first = random.lognormal(math.log(truth), noise, runs)
        second = random.lognormal(0.0, noise, runs)
        ratio, low, high = ratio_interval(first, second)
        found.append(seen(ratio, low, high, runs))
    return found


@pytest.mark.parametrize("edge", ["band", "one"])
def test_a_thousand_sweeps_of_known_truth_seldom_err(edge):
    """Truths drawn around the edges, where errors are made: false verified and false refuted both under 5%."""
    random = np.random.default_rng(7)
    low, high = band(RATIO.expected, RATIO.tolerance)
    centres = {"band": (low, high), "one": (1.0,)}[edge]
    false_verified = false_refuted = 0
    for _ in range(1000):
        cells = int(random.integers(1, 5))
        truths = [float(random.choice(centres) * math.exp(random.normal(0, 0.03))) for _ in range(cells)]
        verdict = rule(RATIO, sweep(random, truths, int(random.integers(3, 9)), float(random.uniform(0.01, 0.05)))).verdict
        false_verified += verdict == "verified" and not all(low <= truth <= high for truth in truths)
        false_refuted += verdict == "refuted" and all(truth > 1 for truth in truths)
    assert false_verified < 50
    assert false_refuted < 50


@settings(max_examples=20)
@given(st.lists(st.floats(1, 100), min_size=2, max_size=6))
def test_a_refined_value_lies_within_what_was_seen(values):
    found = [seen(*interval([value, value * 1.01])) for value in values]
    ruling = rule(replace(VALUE, expected=Expected(1e-3, 1e-3)), found)
    assert ruling.replacement[1] <= ruling.replacement[0] <= ruling.replacement[2]


def test_nothing_where_something_was_claimed_is_another_order_of_magnitude():
    assert rule(VALUE, [seen(0.0, 0.0, 0.0)]).verdict == "refuted"
