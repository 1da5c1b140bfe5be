"""Which stack and which machine: probabilities of being the one to choose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from advised import MAC, PC, asked, machine, world

from bench.advise.contest import best, chances, faster, likely
from bench.advise.figure import Figure
from bench.advise.stack import Fit, Known, Stack

Z80 = 1.2815515655446004


def figure(value: float, spread: float = 0.3) -> Figure:
    reach = math.exp(Z80 * spread)
    return Figure(value=value, low=value / reach, high=value * reach, tier="predicted", evidence=("rules",))


def stack(chance: float | None, rate: float | None, headroom: float = 0.0, spread: float = 0.3) -> Stack:
    base = Known(pd.DataFrame(), world()).stacks(asked(), machine(PC))[0]
    word: Any = "yes" if (chance or 0) >= 0.9 else "no" if (chance or 0) <= 0.1 else "tight"
    fit = None if chance is None else Fit(fits=word, probability=chance, headroom=headroom, tier="predicted", evidence=())
    return Stack(
        profile=base.profile,
        cell=base.cell,
        fit=fit,
        needs_bytes=round((1 - headroom) * 1000),
        capacity_bytes=1000,
        peak=None,
        rate=None if rate is None else figure(rate, spread),
        power=None,
    )


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        ([(1.0, 100), (1.0, 200)], 1),
        ([(1.0, 100), (0.5, 200)], 0),  # what surely fits goes before what is faster
        ([(0.3, 300), (0.8, 100)], 1),
        ([(0.0, 300, -3.0), (0.0, 100, -2.0)], 1),  # without hope, the leaner
        ([(0.04, 300, -0.35), (0.0, 100, -0.23)], 1),  # chances that are all next to none tell nothing apart
        ([(0.2, 100, -0.3), (0.12, 300, -0.2)], 0),  # where one may fit, the likelier
        ([(None, 300), (0.95, 100)], 1),
    ],
)
def test_the_best_stack_of_a_machine(known, chosen) -> None:
    stacks = [stack(*each) for each in known]
    assert best(stacks) is stacks[chosen]


def test_what_fits_with_even_odds_is_likely() -> None:
    assert [likely(stack(chance, 1.0)) for chance in (0.49, 0.5, None)] == [False, True, True]


def test_no_stack_is_best_of_none() -> None:
    assert best([]) is None


def test_the_chance_that_one_is_right_is_what_a_simulation_finds() -> None:
    made = [stack(0.7, 200.0), stack(0.95, 100.0), stack(0.4, 300.0, spread=0.5)]
    random = np.random.default_rng(5)
    fits = random.random((3, 200_000)) < np.array([[0.7], [0.95], [0.4]])
    spreads = np.array([[0.3], [0.3], [0.5]])
    rates = np.exp(np.log([[200.0], [100.0], [300.0]]) + spreads * random.standard_normal((3, 200_000)))
    fastest = np.where(fits, rates, 0.0).argmax(axis=0)
    shares = [float((fits.any(axis=0) & (fastest == place)).mean()) for place in range(3)]
    assert chances(made) == pytest.approx(shares, abs=0.06)  # rates are compared two by two, as if pairs were independent


def test_of_two_the_chances_are_exact_and_add_up_to_that_of_any_fitting() -> None:
    one, other = chances([stack(0.7, 200.0), stack(0.6, 100.0)])
    assert one + other == pytest.approx(1 - 0.3 * 0.4)


def test_even_odds_where_a_rate_is_not_known() -> None:
    assert faster(None, figure(1.0)) == 0.5
    assert faster(figure(2.0), figure(2.0)) == 0.5
    assert faster(figure(8.0), figure(1.0)) > 0.99


def test_a_single_machine_is_right_as_far_as_it_fits() -> None:
    assert chances([stack(0.8, 10.0)]) == [0.8]


def test_both_machines_of_the_lesson_by_the_made_up_world() -> None:
    known = Known(pd.DataFrame(), world())
    stacks = [best(known.stacks(asked("14b"), machine(name))) for name in (PC, MAC)]
    pc, mac = chances([each for each in stacks if each is not None])
    assert pc < 0.01  # 31 GB do not fit the card
    assert mac > 0.99
