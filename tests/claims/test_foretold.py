"""Predictions as evidence: of the stacks that a machine's owner would use, with the predictor's interval."""

from __future__ import annotations

import math

import pytest
from claim_rows import MAC, PC, claim

from bench.claims import foretold
from bench.claims.claim import Side


def test_a_peak_is_predicted_on_the_stacks_of_both_machines():
    found = foretold.estimates(claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB"))
    assert [each.who for each in found] == ["hf@cuda", "unsloth@cuda", "mlx@metal"] or {each.who for each in found} == {
        "hf@cuda", "unsloth@cuda", "mlx@metal"
    }  # fmt: skip
    assert all(each.tier == "predicted" and each.low < each.value < each.high for each in found)


def test_a_control_arm_has_to_be_named():
    arm = Side(machines=("pc-rtx-4090",), backends=("mlx",))
    (found,) = foretold.estimates(claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB", sides=(arm,)))
    assert found.who == "mlx@cuda"


def test_a_fit_has_its_probability_and_room():
    found = foretold.estimates(claim("fit", fits="no", sides=(PC,), models=("qwen3-14b",)))
    assert all(each.value < 0.1 and each.headroom < 0 for each in found)


def test_a_ratio_is_of_the_best_stacks_and_as_wide_as_both():
    (found,) = foretold.estimates(claim("ratio", quantity="tokens_per_s", expected=(2, 4), unit="×", sides=(PC, MAC)))
    assert found.value > 1
    assert found.low < found.value < found.high
    assert found.who.count("÷") == 1


def test_the_only_one_that_can_wins():
    (found,) = foretold.estimates(
        claim("winner", winner="second", sides=(PC, MAC), models=("llama-3.3-70b",), methods=("qlora",))
    )
    assert found.value == 0.0
    (turned,) = foretold.estimates(
        claim("winner", winner="first", sides=(MAC, PC), models=("llama-3.3-70b",), methods=("qlora",))
    )
    assert math.isinf(turned.value)


def test_parts_by_parameter():
    (found, *_) = foretold.estimates(
        claim("value", quantity="weights_bytes_per_parameter", expected=(2, 2), unit="GB per 1B", methods=("full",))
    )
    assert found.value == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(
    "asked",
    [
        claim("support", techniques=("a",)),
        claim("value", quantity="memory_bytes_per_s", expected=(8e11, 8e11), unit="GB/s", sides=(MAC,)),
        claim("value", quantity="capacity_share", expected=(0.75, 0.75), unit="%", sides=(MAC,)),
    ],
)
def test_no_prediction_is_about_it(asked):
    assert foretold.estimates(asked) == []


def test_nobody_has_won_where_it_is_not_sure_who_can():
    """QLoRA 32B may fit a 4090, or not: neither is it the Mac's alone, nor does the faster win."""
    (found,) = foretold.estimates(claim("winner", winner="second", sides=(PC, MAC), models=("qwen3-32b",), methods=("qlora",)))
    assert (found.value, found.low) == (1.0, None)
    assert found.conditions == "it may fit pc-rtx-4090, or not"
