"""Advice in words: which machine, how sure, what is left out."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from advised import MAC, PC, machine, question, world

from bench.advise.answer import PRICE_PER_KWH, advise
from bench.advise.told import describe, sentence, unknown


def told(*args, foretell=None, **more) -> str:
    return describe(advise(question(*args, **more), pd.DataFrame(), foretell or world()))


def test_the_sentence_names_machine_stack_times_and_how_sure() -> None:
    found = advise(question("8b", "lora"), None, world()).methods[0]
    assert sentence(found) == (
        f"lora: {PC} with unsloth, about 2.53 h against 22.3 h on {MAC}; almost surely right (over 99%, predicted)"
    )


def test_where_one_cannot_the_sentence_says_so() -> None:
    text = told("14b", "lora")
    assert f"as it does not fit {PC}" in text
    assert "would fit with qlora instead" in text


def test_where_none_fits() -> None:
    text = told("70b", "lora")
    assert f"lora: fits none of {PC}, {MAC}" in text
    assert "possible: nothing of what was asked" in text
    assert "the smallest variant lacks" in text


def test_what_probably_does_not_fit_is_not_recommended() -> None:
    """It needs 25.6 GB of 25.4: 20 times in 100 it fits."""
    question_of = {"tokens": 10**7, "sequence_length": 77_000}
    text = told("8b", "lora", **question_of, foretell=world(rates={PC: 8e12, MAC: 1e12}))
    alone = replace(question("8b", "lora", **question_of), machines=(machine(PC),))
    found = advise(alone, None, world()).methods[0]
    assert f"{MAC} with mlx" in text
    assert found.options[0].stack.fit.fits == "tight"
    assert found.options[0].stack.chance < 0.5
    assert found.recommended is None
    assert sentence(found) == (
        f"lora: probably fits none of {PC}; the likeliest is {PC} ({found.options[0].stack.chance:.0%}, predicted)"
    )
    said = describe(advise(alone, None, world()))
    assert "possible: nothing of what was asked; probably not: lora" in said
    assert "would fit with" in said


def test_a_tight_fit_has_a_way_out() -> None:
    """It needs 25.2 GB of 25.4, by a prediction that is good to 1%."""
    found = advise(question("8b", "lora", sequence_length=73_500), None, world()).methods[0]
    assert found.recommended.stack.fit.fits == "tight"
    assert "if it fits there" in sentence(found)
    assert sentence(found).endswith(f"; else {MAC}")


def test_watts_of_different_scopes_are_named_and_not_compared() -> None:
    assert "energy and money are not compared: the watts cover different things" in told("8b", "lora")
    alike = world(watts={PC: (400.0, "wall"), MAC: (200.0, "wall")})
    assert f"energy: {PC} takes the least, 4.4 times less than the most (wall)" in told("8b", "lora", foretell=alike)


@pytest.mark.parametrize(("price", "said"), [(PRICE_PER_KWH, "euro, the average of EU households"), (0.5, "money at 0.5 a kWh")])
def test_the_price_is_told_and_whose_it_is(price, said) -> None:
    assert said in told("8b", "lora", price=price)


def test_what_is_left_out_is_named_once() -> None:
    notes = [*unknown(advise(question("8b", "lora", "qlora"), None, world()))]
    assert len(notes) == len(set(notes))
    assert any("a board's energy leaves out" in note for note in notes)


def test_control_characters_of_a_name_are_not_printed() -> None:
    found = question("8b", "lora")
    named = replace(found, model=replace(found.model, name="a\x1b[31m"))
    assert "\x1b" not in describe(advise(named, None, world()))
