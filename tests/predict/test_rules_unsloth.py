"""unsloth's closed form: what its kernels keep, offload and take in parts. Nothing of it can run without a GPU."""

from dataclasses import replace

import pytest
from predict.test_rules_hf import step_of as hf_step_of

from bench.predict import blocks_hf, rules_unsloth
from bench.predict.moments import Step
from bench.spec import Implementation


def step_of(how=None, **declared):
    step = hf_step_of(method=declared.pop("method", "lora"), layers=32, **declared)
    return Step(replace(step.cell, backend="unsloth", implementation=how or Implementation()), step.shape)


def test_a_block_keeps_less_than_that_of_transformers():
    step = step_of()
    assert rules_unsloth.block_bytes(step) < 0.8 * blocks_hf.block_bytes(step)


def test_its_own_checkpointing_leaves_two_blocks_inputs_on_the_card_torchs_all():
    own, torchs = step_of(), step_of(how=Implementation(checkpointing="torch"))
    stream = 2 * 4096 * 2048
    assert rules_unsloth.saved_bytes(own) == 2 * stream
    assert rules_unsloth.saved_bytes(torchs) == 32 * stream


def test_without_checkpointing_every_block_keeps_its_share():
    step = step_of(gradient_checkpointing=False)
    assert rules_unsloth.saved_bytes(step) == 32 * rules_unsloth.block_bytes(step)


@pytest.mark.parametrize(("sequence_length", "parts"), [(2048, 1), (2092, 1), (2093, 4), (4096, 4), (9000, 8), (32_768, 16)])
def test_the_loss_takes_its_logits_at_once_where_4_gib_hold_them_else_in_fours_of_parts(sequence_length, parts):
    assert rules_unsloth.logits_bytes(step_of(sequence_length=sequence_length)) == 2 * sequence_length * 128_256 // parts


def test_a_full_fine_tune_ends_as_that_of_transformers_does():
    moments = list(rules_unsloth.moments(step_of(method="full")))
    step = step_of(method="full")
    assert max(moment.total for moment in moments) == 2 * step.gradients
