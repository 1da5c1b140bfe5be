"""Predictions as evidence: of the stacks that a machine's owner would use, with the predictor's interval."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_rows import MAC, PC, claim
from commanded import wingspan

from bench.claims import foretold
from bench.claims.claim import Side
from bench.claims.judge import judge
from bench.claims.reader import CLAIMS, read_claims

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.mark.parametrize("winner", ["first", "second", "tie"])
def test_what_neither_can_do_is_told(winner):
    """A full fine-tune at 70B: nobody has won it, and that counts."""
    found = foretold.estimates(
        claim("winner", winner=winner, sides=(PC, MAC), models=("llama-3.3-70b",), methods=("full", "qlora"))
    )
    full, qlora = sorted(found, key=lambda each: each.what)
    assert math.isnan(full.value)
    assert full.conditions == "neither can"
    assert qlora.value == 0.0


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


TRACED = ("speed.ratio", "memory.table.", "pc.fit.", "mac.fit.", "pc.unsloth.")


def told_by(command: str) -> dict[str, Any]:
    """What the command of a piece of evidence prints as JSON."""
    program, *arguments = shlex.split(command)
    assert program == "wingspan"
    return json.loads(wingspan(*arguments, "--json").stdout)


@pytest.mark.parametrize("asked", [each for each in read_claims(CLAIMS) if each.id.startswith(TRACED)], ids=lambda each: each.id)
def test_the_commands_of_a_figure_print_that_very_figure(asked):
    """Row by row, as a reader would trace them."""
    key = "fit_probability" if asked.kind == "fit" else asked.quantity
    for each in foretold.estimates(asked):
        told = [told_by(command)[key] for command in each.evidence]
        if asked.kind == "ratio":
            assert each.sides == tuple(told)
            assert each.value == told[0] / told[1]
        else:
            assert told == [each.value]


def test_every_predicted_figure_of_the_catalogue_has_its_command():
    evidence = [each.evidence for asked in read_claims(CLAIMS) for each in foretold.estimates(asked)]
    assert len(evidence) > 200
    assert all(command.startswith("wingspan predict ") for commands in evidence for command in commands)
    assert {len(commands) for commands in evidence} == {1, 2}


def test_who_alone_can_has_the_commands_of_both_sides():
    asked = claim("winner", winner="second", sides=(PC, MAC), models=("llama-3.3-70b",), methods=("qlora",))
    (found,) = foretold.estimates(asked)
    assert [told_by(command)["fits"] for command in found.evidence] == ["no", "yes"]
    assert found.sides is None


def test_an_implementation_that_no_option_asks_for_is_by_rules():
    eager = Side(machines=("pc-rtx-4090",), backends=("hf",), implementation={"attention": "eager"})
    (found,) = foretold.estimates(claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB", sides=(eager,)))
    assert found.evidence == ("rules",)


def test_the_verdicts_that_depend_on_the_dtype_of_adapters_are_those_that_the_docs_name():
    """The claims' adapters are in bfloat16, those of most stacks in float32 unless told."""
    both = [
        (judge(asked, (foretold.estimates,)), judge(replace(asked, conditions=conditions), (foretold.estimates,)))
        for asked in read_claims(CLAIMS)
        if (conditions := {**asked.conditions, "adapter_dtype": "float32"}) and "adapter_dtype" in asked.conditions
    ]
    said = " ".join((ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8").split())
    choice = said[said.index("**Adapters in bfloat16**") :].partition(" - **")[0]
    assert set(re.findall(r"`([a-z]+\.[a-z0-9.]+)`", choice)) == {
        own.claim.id for own, other in both if own.verdict != other.verdict
    }
    for own, other in both:
        if own.verdict != other.verdict:
            assert f"`{own.claim.id}` would be `{other.verdict}`" in choice or f"`{own.claim.id}` `{other.verdict}`" in choice
