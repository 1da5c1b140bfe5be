"""Claims against what was found, drawn."""

import re

import pytest
from judgements import claim, judged, winner_claim
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from bench.claims.claim import Expected
from bench.report.figures import claims as figure_of_claims
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


def test_what_contradicts_a_claim_from_either_side_has_a_mark_at_either_end_and_none_in_the_band() -> None:
    """QLoRA at 4B: 3.30 and 5.27 GB where 4 are claimed; the middle, 4.17, would lie in the band."""
    made = claim(expected=Expected(4e9, 4e9))
    ends = judged(of=made, value=None, least=3.3e9, most=5.27e9, low=2.9e9, high=5.6e9, speaking=2)
    ax = Figure().subplots()
    figure_of_claims._panel(ax, "GB", [ends])
    (marks,) = [each for each in ax.collections if isinstance(each, PathCollection)]
    assert sorted(place for place, _ in marks.get_offsets().tolist()) == pytest.approx([3.3, 5.27])
    bars, joints = [each for each in ax.collections if isinstance(each, LineCollection)]
    assert [segment[:, 0].tolist() for segment in bars.get_segments()] == [pytest.approx([2.9, 3.3]), pytest.approx([5.27, 5.6])]
    assert [segment[:, 0].tolist() for segment in joints.get_segments()] == [pytest.approx([3.3, 5.27])]
    assert claims([ends]) is not None


def test_the_same_claims_give_the_same_bytes() -> None:
    one, other = (claims([judged()]) for _ in range(2))
    assert one is not None
    assert one == other
