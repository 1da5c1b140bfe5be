"""The winner map: who wins, by how much, and flips at the right size."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from advised import MAC, PC, asked, machine, world

from bench.advise.contest import best
from bench.advise.stack import Known
from bench.predict.prediction import verdict
from bench.refine.winners import Contest, contest, flips, winner_map


def made(name: str, method: str = "lora", foretell=None, **declared):
    known = Known(pd.DataFrame(), foretell or world())
    one, other = (best(known.stacks(asked(name, method, **declared), machine(which))) for which in (PC, MAC))
    return contest(one, other)


SIZES = ("1b", "4b", "8b", "14b", "32b", "70b")


def test_where_both_fit_the_faster_wins_and_by_how_much() -> None:
    found = made("8b")
    assert (found.winner, found.why, found.tiers) == (PC, "faster", ("predicted",))
    assert found.ratio == pytest.approx(8.8)
    assert found.low < 8.8 < found.high
    assert found.chance > 0.99


def test_the_only_one_that_fits_wins_without_a_ratio() -> None:
    found = made("14b")
    assert (found.winner, found.why, found.ratio, found.low) == (MAC, "the only one that fits", None, None)


def test_neither() -> None:
    found = made("70b")
    assert (found.winner, found.why, found.ratio) == (None, "neither fits", None)
    assert found.chance == pytest.approx(1.0), "of neither fitting"


def fitting(first: float, second: float) -> Contest:
    """8B by LoRA, which the PC does 8.8 times as fast, were it to fit with these probabilities."""
    stacks = made("8b").stacks
    given = zip(stacks, (first, second), strict=True)
    one, other = (replace(each, fit=replace(each.fit, fits=verdict(chance), probability=chance)) for each, chance in given)
    return contest(one, other)


@pytest.mark.parametrize(
    ("chances", "winner", "why"),
    [
        ((0.0, 0.18), None, "probably neither fits"),
        ((0.0, 0.499), None, "probably neither fits"),
        ((0.0, 0.5), MAC, "the only one that fits"),
        ((0.05, 0.1), None, "neither fits"),
        ((0.25, 0.25), None, "probably neither fits"),
        ((0.45, 0.45), None, "undecided"),  # it is likelier that one of them fits than that neither does
        ((0.4, 0.6), None, "undecided"),  # nor is it likely that the slower one is right
        ((0.3, 1.0), MAC, "the only one that fits"),
        ((0.55, 1.0), PC, "faster"),
        ((1.0, 1.0), PC, "faster"),
    ],
)
def test_nobody_wins_below_even_odds(chances: tuple[float, float], winner: str | None, why: str) -> None:
    found = fitting(*chances)
    assert (found.winner, found.why) == (winner, why)
    assert found.chance is None if why == "undecided" else found.chance >= 0.5
    assert (found.ratio is None) == (min(chances) < 0.5)


def test_nothing_known() -> None:
    found = made("8b", foretell=lambda cell, profile: None)
    assert (found.winner, found.why, found.ratio) == (None, "not known", None)


def test_swapping_the_machines_turns_the_ratio_over() -> None:
    found = made("8b")
    turned = contest(*found.stacks[::-1])
    assert turned.winner == found.winner
    assert turned.ratio == pytest.approx(1 / found.ratio)
    assert (turned.low, turned.high) == pytest.approx((1 / found.high, 1 / found.low))


def test_flips_are_found_at_the_right_sizes() -> None:
    """1 GB and 0.2 for 2,048 tokens beside 2.1 bytes a parameter: the card ends at 11.5e9, the Mac at 36.2e9 parameters."""
    ends = [(machine(name).capacity_bytes - 1.2048e9) / 2.1 for name in (PC, MAC)]
    found = [*flips([made(name) for name in SIZES], "parameters")]
    assert [(each.below.model, each.above.model) for each in found] == [
        ("llama-3.1-8b", "qwen3-14b"),
        ("qwen3-32b", "llama-3.3-70b"),
    ]
    assert [(each.below.winner, each.above.winner) for each in found] == [(PC, MAC), (MAC, None)]
    assert [each.about for each in found] == pytest.approx(ends, rel=0.02)


def test_a_flip_of_speed_alone() -> None:
    """The card loses ground with size: its rate falls with the square, so both are equal at 8e9 parameters."""
    square = world(rates={PC: 1e12, MAC: 1e12})

    def foretell(cell, profile):
        found = square(cell, profile)
        factor = 8e9 / cell.workload.model.parameters if profile.name == PC else 1.1
        speed = found.speed
        rate = speed.tokens_per_s * factor
        return replace(found, speed=replace(speed, tokens_per_s=rate, tokens_per_s_low=rate / 1.2, tokens_per_s_high=rate * 1.2))

    (flip,) = flips([made(name, "qlora", foretell) for name in SIZES[:4]], "parameters")
    assert (flip.below.winner, flip.above.winner) == (PC, MAC)
    assert flip.about == pytest.approx(8e9, rel=0.01)


def test_flips_along_context_are_of_one_model() -> None:
    contests = [made(name, sequence_length=context) for name in ("4b", "8b") for context in (2048, 131_072)]
    (flip,) = flips(contests, "sequence_length")
    assert (flip.below.model, flip.below.winner, flip.above.winner) == ("llama-3.1-8b", PC, MAC)


def test_the_map_is_in_order_and_has_the_flips_of_both_axes() -> None:
    contests = [made(name, sequence_length=context) for context in (131_072, 2048) for name in ("14b", "8b")]
    found = winner_map(PC, MAC, contests)
    assert [(each.model, each.sequence_length) for each in found.contests] == [
        ("llama-3.1-8b", 2048), ("llama-3.1-8b", 131_072), ("qwen3-14b", 2048), ("qwen3-14b", 131_072),
    ]  # fmt: skip
    assert {each.axis for each in found.flips} == {"parameters", "sequence_length"}
    assert winner_map(PC, MAC, contests[::-1]) == found


def test_no_flip_where_the_winner_stays() -> None:
    assert [*flips([made("1b"), made("4b"), made("8b")], "parameters")] == []
