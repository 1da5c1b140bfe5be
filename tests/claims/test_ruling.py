"""What the rules share: sides by their names, and how many runs more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_sweeps import RATIO, VALUE, WINNER, seen

from bench.claims.claim import Side
from bench.claims.ruling import edges_of, more_runs, named


@pytest.mark.parametrize(
    ("side", "name"),
    [
        (Side(machines=("pc",)), "pc"),
        (Side(machines=("mac",), backends=("mlx",)), "mac (mlx)"),
        (Side(backends=("hf", "unsloth")), "hf, unsloth"),
        (Side(devices=("cuda",)), "cuda"),
        (Side(), "any"),
    ],
)
def test_a_side_is_named_by_its_machines_or_stacks(side, name):
    assert named(side) == name


def test_a_winner_is_decided_at_one_and_a_tie_within_its_tolerance():
    assert edges_of(WINNER) == (1.0, 1.0)
    assert edges_of(replace(WINNER, winner="tie")) == (pytest.approx(1 / 1.15), pytest.approx(1.15))


def test_an_interval_twice_as_wide_as_the_distance_to_the_edge_needs_four_times_the_runs():
    edge = 4 * 1.15
    assert more_runs(RATIO, [seen(edge / 1.1, edge / 1.1**3, edge * 1.1, n=5)]) == 5 * 4 - 5


def test_a_single_run_needs_two_more_and_a_prediction_none():
    assert more_runs(VALUE, [seen(18e9, n=1)]) == 2
    assert more_runs(VALUE, [seen(18e9, n=1, tier="predicted")]) is None
