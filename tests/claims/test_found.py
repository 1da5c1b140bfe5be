"""What was found: a middle where the answers agree, else both ends."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_sweeps import seen

from bench.claims.claim import Expected
from bench.claims.found import Found, astride, band, together


def test_answers_on_one_side_have_a_middle_and_all_that_their_intervals_span():
    found = together([seen(11e9, 10e9, 12e9), seen(12e9, 11e9, 13e9)], (16e9, 20e9))
    assert found == Found(pytest.approx(11.489e9, rel=1e-3), 10e9, 13e9, 11e9, 12e9, 2)


def test_answers_on_either_side_of_a_claim_have_no_middle():
    """4.17 GB, the middle of 3.30 and 5.27, is about the 4 GB that none of them says."""
    found = together([seen(5.27, 4.09, 5.57), seen(3.30, 2.90, 3.75)], (4 / 1.15, 4 * 1.15))
    assert found == Found(None, 2.90, 5.57, 3.30, 5.27, 2)


def test_where_one_of_them_says_what_is_claimed_the_middle_is_its():
    found = together([seen(3.0), seen(4.0), seen(6.0)], (3.5, 4.6))
    assert found is not None
    assert found.value == pytest.approx(4.0)


def test_those_that_do_not_answer_alike_have_no_middle():
    found = together([seen(0.9), seen(1.1)], (0.4, 0.6), agreed=False)
    assert found is not None
    assert (found.value, found.least, found.most) == (None, 0.9, 1.1)


def test_one_without_an_interval_spans_nothing():
    assert together([seen(3.0)]) == Found(3.0, None, None, 3.0, 3.0, 1)


@pytest.mark.parametrize("value", [math.inf, math.nan, None])
def test_what_is_no_number_is_not_found(value):
    assert together([seen(value)]) is None


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=7))
def test_a_middle_lies_beside_what_is_claimed_where_all_of_them_do(values):
    edges = (1.0, 2.0)
    beside = [value for value in values if not edges[0] <= value <= edges[1]]
    found = together([seen(value) for value in beside], edges)
    assert found is None or found.value is None or not edges[0] <= found.value <= edges[1]
    assert found is None or (found.value is None) == astride(min(beside), max(beside), edges)


def test_a_tolerance_is_a_factor_and_an_end_may_be_open():
    assert band(Expected(18.0, 18.0), 0.15) == (pytest.approx(18 / 1.15), pytest.approx(18 * 1.15))
    assert band(Expected(None, None), 0.15) == (0.0, math.inf)
