"""Stretches: the best cuts are really the best, lone nights are told from levels, few nights are not cut to pieces."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from bench.history.stretches import NOISE_FLOOR, PENALTY, Stretch, settled, squares_within, stretches_of


def cost(logs: np.ndarray, borders: tuple[int, ...]) -> float:
    """What the docstring says, written out anew."""
    n, cuts = len(logs), len(borders) - 2
    squares = sum(((logs[a:b] - logs[a:b].mean()) ** 2).sum() for a, b in pairwise(borders))
    return n * math.log(squares / n + NOISE_FLOOR**2) + PENALTY * cuts * n / (n - 2 * cuts - 1)


@pytest.mark.parametrize("least", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_no_other_cut_is_better(seed: int, least: int) -> None:
    """Against all cuts there are, of thirteen nights with up to three cuts."""
    random = np.random.default_rng(seed)
    logs = random.normal(0, 0.01, 13) + np.repeat(random.normal(0, 0.05, 3), [6, 4, 3])
    every = [(0, *inner, 13) for cuts in range(4) for inner in combinations(range(1, 13), cuts)]
    allowed = [borders for borders in every if all(b - a >= least for a, b in pairwise(borders))]
    best = min(allowed, key=lambda borders: cost(logs, borders))
    assert [each.first for each in stretches_of(logs, least)] == list(best[:-1])


def test_a_stretch_has_its_mean_and_its_squares() -> None:
    logs = np.array([0.0, 0.02, 0.0, 0.02, 0.0, 0.02, 1.0, 1.0, 1.0, 1.0])
    stretches = stretches_of(logs, 1)
    assert stretches == [Stretch(0, 6, pytest.approx(0.01)), Stretch(6, 10, pytest.approx(1.0))]
    assert [each.nights for each in stretches] == [6, 4]
    assert squares_within(logs, stretches) == pytest.approx(6 * 0.01**2)


def test_few_nights_are_not_cut_to_pieces() -> None:
    """Of seven to twelve nights of noise hardly any is cut at all."""
    cut = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        cut += len(stretches_of(random.normal(0, 0.03, int(random.integers(7, 13))), 2)) > 1
    assert cut <= 15


LEVEL = [0.0, 0.01, -0.01, 0.005, -0.005, 0.01, -0.01, 0.0, 0.005, -0.005]


@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_lone_night_is_set_aside_wherever_it_is(place: int) -> None:
    logs = np.array([*LEVEL[:place], 0.3, *LEVEL[place:]])
    kept, stretches, last_alone = settled(logs)
    assert sorted(set(range(11)) - set(kept)) == [place]
    assert len(stretches) == 1
    assert not last_alone


def test_a_last_night_that_differs_is_set_aside_and_told() -> None:
    kept, stretches, last_alone = settled(np.array([*LEVEL, 0.3]))
    assert (len(kept), len(stretches), last_alone) == (10, 1, True)


def test_two_nights_are_a_level_and_a_night_half_way_between_two_levels_is_of_neither() -> None:
    kept, stretches, last_alone = settled(np.array([*LEVEL, 0.3, 0.31]))
    assert ([each.first for each in stretches], len(kept), last_alone) == ([0, 10], 12, False)
    kept, _, last_alone = settled(np.array([*LEVEL, 0.15, 0.3, 0.31, 0.3]))
    assert (sorted(set(range(14)) - set(kept)), last_alone) == ([10], False)


def test_so_many_nights_stay_that_a_level_can_be_told() -> None:
    logs = np.array([0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    assert len(settled(logs)[0]) == 7
