"""Advice: the machine to choose, what it takes there, and on what evidence."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from advised import MAC, PC, asked, question, ran, world

from bench.advise.answer import J_PER_KWH, PRICE_PER_KWH, advise, advise_from, ask
from bench.spec import BadInput

PARAMETERS = 8_030_261_248


def one(*args, runs=None, foretell=None, **declared):
    found = advise(question(*args, **declared), None if runs is None else pd.DataFrame(runs), foretell or world())
    (method,) = found.methods
    return method


def test_the_faster_of_two_that_fit() -> None:
    method = one("8b", "lora")
    chosen, other = method.options
    assert method.recommended is chosen
    assert (chosen.stack.profile.name, chosen.stack.cell.backend) == (PC, "unsloth")
    assert chosen.chance > 0.99
    assert chosen.chance + other.chance == pytest.approx(1)
    assert method.tiers == ("predicted",)
    assert chosen.mends is None


def test_time_energy_and_money_by_hand() -> None:
    """10⁷ tokens at 8.8e12 / 8.03e9 tokens a second and 400 W, at 0.5 a kilowatt-hour."""
    chosen = one("8b", "lora").recommended
    seconds = 1e7 / (8.8e12 / PARAMETERS)
    assert chosen.duration.value == pytest.approx(seconds)
    assert (chosen.duration.low, chosen.duration.high) == pytest.approx((seconds / 1.2, seconds * 1.2))
    assert chosen.energy.value == pytest.approx(400 * seconds)
    assert chosen.cost.value == pytest.approx(400 * seconds / J_PER_KWH * 0.5)
    assert chosen.cost.high == pytest.approx(1.2 * chosen.cost.value)
    assert (chosen.energy.scope, chosen.cost.scope) == ("gpu-board", "gpu-board")


def test_the_only_one_that_can() -> None:
    method = one("14b", "lora")
    assert method.recommended.stack.profile.name == MAC
    pc = method.options[0]
    assert not pc.fits
    assert pc.mends is not None


def test_where_neither_fits_nothing_is_recommended_and_both_are_mended() -> None:
    method = one("70b", "lora")
    assert (method.possible, method.recommended) == (False, None)
    assert all(option.mends is not None for option in method.options)


def test_all_three_methods_say_which_are_possible() -> None:
    found = advise(question("14b", "full", "lora", "qlora"), None, world())
    assert [(each.method, each.possible) for each in found.methods] == [("full", False), ("lora", True), ("qlora", True)]


def test_watts_of_a_board_and_of_a_plug_are_not_divided() -> None:
    assert one("8b", "lora").energy_ratio is None
    alike = world(watts={PC: (400.0, "wall"), MAC: (200.0, "wall")})
    ratio, scope = one("8b", "lora", foretell=alike).energy_ratio
    assert (ratio, scope) == (pytest.approx(8.8 / 2), "wall")


def test_measured_runs_turn_the_advice() -> None:
    """The Mac is measured at ten times what the card is predicted to do."""
    runs = ran(MAC, asked("8b"), "mlx", "metal", [10_000.0, 10_100.0, 9_900.0])
    method = one("8b", "lora", runs=runs)
    chosen = method.recommended
    assert chosen.stack.profile.name == MAC
    assert chosen.tiers == ("measured",)
    assert method.tiers == ("measured", "predicted")
    assert (chosen.energy.tier, chosen.duration.tier) == ("predicted", "measured")  # its watts were not metered


def test_runs_of_another_context_turn_nothing() -> None:
    runs = ran(MAC, asked("8b", sequence_length=1024), "mlx", "metal", [10_000.0, 10_100.0, 9_900.0])
    assert one("8b", "lora", runs=runs).recommended.stack.profile.name == PC


def test_uncertain_rates_make_an_uncertain_choice() -> None:
    close = world(spread=2.0, rates={PC: 1.0e12, MAC: 1.1e12})
    assert one("8b", "lora", foretell=close).recommended.chance == pytest.approx(0.5, abs=0.05)


def test_more_tokens_take_longer_and_change_nothing_else() -> None:
    few, many = (one("8b", "lora", tokens=tokens).recommended for tokens in (10**6, 10**9))
    assert many.duration.value == pytest.approx(1000 * few.duration.value)
    assert many.chance == few.chance


def test_a_longer_context_can_change_the_machine() -> None:
    assert one("8b", "lora", sequence_length=120_000).recommended.stack.profile.name == MAC


def test_no_machine_without_sizes_and_no_watts() -> None:
    method = one("8b", "lora", foretell=lambda cell, profile: None)
    chosen = method.recommended
    assert (chosen.stack.fit, chosen.duration, chosen.energy, chosen.cost, method.tiers) == (None, None, None, None, ())


def test_the_question_takes_a_name_a_size_or_a_path(tmp_path: Path) -> None:
    assert ask("8b", 1).model.name == ask("llama-3.1-8b", 1).model.name == "llama-3.1-8b"
    asked_of = ask("8b", 1, machines=("h200", "h200"), declared={"batch_size": None, "sequence_length": 512})
    assert [each.name for each in asked_of.machines] == ["h200"]
    assert asked_of.declared == {"sequence_length": 512}
    assert (asked_of.price_per_kwh, asked_of.methods) == (PRICE_PER_KWH, ("full", "lora", "qlora"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "9z"}, "unknown model"),
        ({"machines": ("pc-rtx-4091",)}, "--machine"),
        ({"tokens": 0}, "--tokens"),
        ({"price_per_kwh": float("nan")}, "--price-per-kwh"),
        ({"price_per_kwh": -1.0}, "--price-per-kwh"),
        ({"declared": {"sequence_length": 1_000_000}}, "--sequence-length"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(arguments, message) -> None:
    with pytest.raises(BadInput, match=message):
        ask(**{"model": "8b", "tokens": 1, **arguments})


def test_a_free_price_costs_nothing() -> None:
    assert one("8b", "lora", price=0.0).recommended.cost.value == 0.0


def test_a_real_answer_without_results(tmp_path: Path) -> None:
    """The published evidence behind the predictor puts QLoRA at 14B on the card, and LoRA at 14B on the Mac."""
    found = advise_from(tmp_path / "results", ask("14b", 10**7))
    chosen = {each.method: each.recommended and each.recommended.stack.profile.name for each in found.methods}
    assert chosen == {"full": None, "lora": MAC, "qlora": PC}
    assert found.damaged == ()
