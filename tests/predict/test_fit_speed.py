"""Shares of the rated speed from observed rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from observed import CELL, observation

from bench.predict.fit_speed import Seen, fit, impossible, open_spread, predicted_rate, shares, studies
from bench.predict.fractions import ASSUMED, Fractions


def at(matrix: float) -> float:
    return predicted_rate(observation(), Fractions(matrix=matrix, bandwidth=ASSUMED.bandwidth, spread=0.1))


def rows(key: tuple[str, str], source: str, values: Sequence[float]) -> list[Seen]:
    return [Seen(key, source, math.log(value)) for value in values]


@pytest.mark.parametrize("share", [0.1, 0.45, 0.9])
def test_the_share_that_made_a_rate_is_found(share: float) -> None:
    (found,) = shares([observation(tokens_per_s=at(share))])
    assert math.exp(found.log_share) == pytest.approx(share, rel=1e-3)
    assert (found.key, found.source, found.open_variance) == (("hf", "ampere"), "a", 0.0)


def test_a_rate_near_the_roof_counts_as_at_it_and_one_beyond_the_products_is_refused() -> None:
    near, beyond = observation(tokens_per_s=1.05 * at(1.0)), observation(id="a-2", tokens_per_s=10 * at(1.0))
    (found,) = shares([near, beyond, observation(id="a-3")])
    assert found.log_share == 0.0
    assert (impossible(near), impossible(beyond)) == (False, True)


def test_what_a_row_leaves_open_is_the_spread_over_its_cells() -> None:
    longer = replace(CELL, workload=replace(CELL.workload, sequence_length=16_384))
    seen = observation(cells=(CELL, longer), tokens_per_s=at(0.5))
    one, other = (predicted_rate(observation(cells=(cell,)), ASSUMED) for cell in (CELL, longer))
    assert open_spread(seen) == pytest.approx(math.log(one / other) / 2)
    assert shares([seen])[0].open_variance == pytest.approx(open_spread(seen) ** 2)


def test_an_odd_row_does_not_move_its_source() -> None:
    assert studies(rows(("hf", "ada"), "a", [0.5, 0.5, 0.01]), 0.0)["a"].log_share == pytest.approx(math.log(0.5))


def test_what_rows_leave_open_is_no_property_of_machines() -> None:
    values = [("a", 0.3), ("b", 0.9)]
    sure = fit([Seen(("hf", "ada"), source, math.log(value)) for source, value in values])
    open_ = fit([Seen(("hf", "ada"), source, math.log(value), open_variance=0.3) for source, value in values])
    assert open_["hf", "ada"].spread < sure["hf", "ada"].spread


def test_a_source_weighs_the_less_the_more_it_leaves_open() -> None:
    def mean(variance: float) -> float:
        return fit([Seen(("hf", "ada"), "a", math.log(0.8)), Seen(("hf", "ada"), "b", math.log(0.4), variance)])[
            "hf", "ada"
        ].matrix

    assert mean(1.0) > mean(0.0)


def test_few_sources_are_drawn_to_what_is_known_at_large() -> None:
    found = fit(rows(("hf", "ada"), "a", [0.8]))
    assert ASSUMED.matrix < found["any", "any"].matrix < found["hf", "any"].matrix < found["hf", "ada"].matrix < 0.8
    many = [seen for source in "abcdefghi" for seen in rows(("hf", "ada"), source, [0.8])]
    assert fit(many)["hf", "ada"].matrix > 0.75


def test_sources_that_disagree_make_the_interval_wide() -> None:
    close = fit([*rows(("hf", "ada"), "a", [0.5]), *rows(("hf", "ada"), "b", [0.52])])["hf", "ada"].spread
    far = fit([*rows(("hf", "ada"), "a", [0.2]), *rows(("hf", "ada"), "b", [0.9])])["hf", "ada"].spread
    assert close == pytest.approx(math.sqrt(0.125 * 4 / 3), rel=0.02)  # the assumption's variance of 0.25 over two degrees
    assert far > 1.5 * close


def test_nothing_seen_is_nothing_fitted_but_the_assumption() -> None:
    assert fit([]) == {("any", "any"): Fractions(matrix=0.5, bandwidth=0.8, spread=pytest.approx(0.707, abs=1e-3))}
