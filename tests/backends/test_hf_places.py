"""Places and parts of a step, as trl's trainer and the model's blocks tell them, on a real one."""

from __future__ import annotations

import pytest
from trace_cells import tiny

from bench.backends.hf import HuggingFace
from bench.backends.hf_places import block_of
from bench.predict.trace_step import real_step


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("model.layers.11.mlp.up_proj.weight", 11),
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", 0),
        ("model.embed_tokens.weight", None),
        ("lm_head.weight", None),
    ],
)
def test_the_block_of_a_parameter_is_in_its_name(name, block):
    assert block_of(name) == block


def test_blocks_go_forward_in_order_and_back_in_reverse_and_parts_have_their_sizes():
    HuggingFace().prepare()
    timeline = real_step(tiny("full", blocks=3, checkpointing=False))
    places = [(place.phase, place.block) for _, place in timeline.marks]
    step = [
        *[("forward", block) for block in (None, 0, 1, 2, None)],
        *[("backward", block) for block in (None, 2, 1, 0)],
        ("optimizer", None),
    ]
    wanted = [place for place in [*step, *step] if place != ("backward", None)]
    assert [place for place in places if place != ("backward", None)] in (wanted, wanted[1:])  # the first may hold already
    optimizer = timeline.phase_peaks()["optimizer"].parts
    parameters = 2 * 64 * 512 + 64 + 3 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 192 + 2 * 64)
    assert optimizer["gradients"] == 2 * parameters
    assert optimizer["weights"] == pytest.approx(2 * parameters, abs=1024)  # and the rotary frequencies
    assert optimizer["optimizer"] == pytest.approx(2 * 2 * parameters, abs=1024)  # and a count of steps for each
