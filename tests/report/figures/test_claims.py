"""Claims against what was found, drawn."""

import re

from judgements import claim, judged, winner_claim

from bench.claims.claim import Expected
from bench.report.figures.claims import claims


def test_claims_without_a_number_are_not_drawn() -> None:
    assert claims([judged("untested", value=None), judged("verified", winner_claim())]) is None


def test_each_unit_has_a_panel_and_the_text_alternative_counts_them() -> None:
    drawn = claims([judged(), judged(of=claim("speed", unit="×", expected=Expected(2.0, 4.0)), value=8.9, low=3, high=26)])
    assert drawn is not None
    assert "2 claims in 2 units" in drawn.svg
    assert 'role="img"' in drawn.svg


def test_open_ends_and_intervals_down_to_zero_are_drawn_too() -> None:
    made = claim("decode", unit="tokens/s", expected=Expected(7.0, None))
    drawn = claims([judged("verified", made, value=23.0, low=0.0, high=72.0)])
    assert drawn is not None
    assert not re.search(r"\b(nan|inf)\b", drawn.svg)


def test_the_same_claims_give_the_same_bytes() -> None:
    one, other = (claims([judged()]) for _ in range(2))
    assert one is not None
    assert one == other
