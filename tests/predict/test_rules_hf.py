"""The Hugging Face stack's closed form against the same step traced under fake tensors."""

import pytest
from predict.traced_steps import SHAPES, TRACED

from bench.catalog import catalogue
from bench.model import model_from_config
from bench.predict import blocks_hf, resident, rules, rules_hf
from bench.predict.moments import Step
from bench.predict.shape import shape_of
from bench.spec import Cell, Implementation, workload

NAMES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "tie_word_embeddings",
)


def model_of(shape, layers=3):
    family, *sizes = SHAPES[shape]
    config = {"model_type": family, "num_hidden_layers": layers, **dict(zip(NAMES, sizes, strict=True))}
    return model_from_config(shape, config)


def step_of(shape="l8", device="cuda", layers=3, how=None, **declared):
    model = model_of(shape, layers)
    cell = Cell(workload(model=model, **{"adapter_dtype": "bfloat16", **declared}), "hf", device, how or Implementation())
    return Step(cell, shape_of(model))


def made_bytes(step, **how):
    return max(moment.total for moment in rules_hf.moments(step, **how))


@pytest.mark.parametrize(
    ("shape", "method", "checkpointing", "dtype", "kernel", "length", "attention", "modules", "before", "between", "peak"), TRACED
)
def test_each_part_of_a_step_is_that_of_its_trace(
    shape, method, checkpointing, dtype, kernel, length, attention, modules, before, between, peak
):
    how = Implementation(optimizer_kernel=kernel, attention=None if attention == "sdpa" else attention)
    step = step_of(
        shape,
        how=how,
        method=method,
        gradient_checkpointing=checkpointing,
        adapter_dtype=dtype,
        sequence_length=length,
        modules=modules,
    )
    base = resident.weights_bytes(step.cell, step.shape) + resident.adapters_bytes(step.cell, step.shape)
    stands = base + resident.optimizer_bytes(step.cell, step.shape)
    assert base == pytest.approx(before, rel=2e-5)
    assert stands == pytest.approx(between, rel=1e-4)
    assert stands + made_bytes(step) == pytest.approx(peak, rel=0.013)
    assert made_bytes(step) == pytest.approx(peak - between, rel=0.07)


def test_foreach_adamw_takes_one_list_of_gradients_more_than_fused():
    foreach, fused = (
        step_of(method="full", layers=32, how=Implementation(optimizer_kernel=kind)) for kind in ("foreach", "fused")
    )
    assert made_bytes(foreach) - foreach.gradients == pytest.approx(foreach.gradients)
    assert made_bytes(fused) < 1.01 * fused.gradients


def test_a_loss_over_full_logits_holds_seven_times_their_16_bit_copy():
    step = step_of(method="lora")
    full, tiled = (rules_hf.logits_bytes(step, full_logits=each) for each in (True, False))
    assert full == 14 * 2048 * 128_256
    assert tiled < full / 10


def test_transformers_own_loss_takes_what_the_rule_says_of_full_logits():
    import torch
    from transformers.loss.loss_utils import ForCausalLMLoss

    from bench.backends.storages import Tracker

    tokens, vocabulary = 512, 4096
    states = torch.randn(1, tokens, 8, dtype=torch.bfloat16, requires_grad=True)
    head, labels = torch.randn(vocabulary, 8, dtype=torch.bfloat16), torch.randint(0, vocabulary, (1, tokens))
    with Tracker("cpu") as tracker:
        logits = states @ head.t()
        ForCausalLMLoss(logits, labels, vocabulary).backward()
    found = tracker.timeline.peak().total_bytes / (tokens * vocabulary)
    assert found == pytest.approx(2 + rules_hf.FULL_LOGITS_BYTES, rel=0.005)


def test_without_a_card_the_loss_has_no_triton_and_holds_its_tiles_in_float32():
    card, cpu = (rules_hf.logits_bytes(step_of(device=device, method="lora"), full_logits=False) for device in ("cuda", "cpu"))
    assert cpu > 5 * card


def test_a_tiles_buffer_is_as_wide_for_a_small_vocabulary():
    """As `run --parts` measured tiny-llama-xs on the CPU: 64 tokens, a vocabulary of 512."""
    cell = Cell(workload(model=catalogue().models["tiny-llama-xs"], method="lora", sequence_length=64), "hf", "cpu")
    found = rules.uncalibrated(cell)
    assert found.parts["logits"] == pytest.approx(5_081_592, rel=0.01)
    assert found.peak_bytes == pytest.approx(6_109_292, rel=0.01)


def test_blocks_before_the_first_adapted_one_keep_nothing_unless_they_are_checkpointed():
    some, every = (step_of(method="lora", gradient_checkpointing=False, adapter_layers=count, layers=16) for count in (4, 16))
    assert rules_hf.saved_bytes(some) < rules_hf.saved_bytes(every) / 3
    some, every = (step_of(method="lora", adapter_layers=count, layers=16) for count in (4, 16))
    assert rules_hf.saved_bytes(some) == rules_hf.saved_bytes(every)


def test_float32_masters_add_casts_of_the_weights_and_a_wider_stream():
    plain, masters = (step_of(method="full", master_dtype=dtype, gradient_checkpointing=False) for dtype in (None, "float32"))
    assert rules_hf.cast_weights(plain) == 0
    assert rules_hf.cast_weights(masters) == masters.shape.layers * masters.shape.block_linear * 2
    assert rules_hf.saved_bytes(masters) > rules_hf.saved_bytes(plain)


def test_accumulated_gradients_stand_throughout():
    once, often = (step_of(method="full", gradient_accumulation=count) for count in (1, 4))
    assert min(moment.gradients for moment in rules_hf.moments(often)) == often.gradients
    assert min(moment.gradients for moment in rules_hf.moments(once)) == 0


def test_dropout_keeps_a_mask_and_its_result_for_each_adapter():
    dry, wet = (step_of(method="lora", dropout=share, gradient_checkpointing=False) for share in (0.0, 0.1))
    assert rules_hf.saved_bytes(wet) > 1.2 * rules_hf.saved_bytes(dry)


def test_liger_keeps_less():
    own, liger = (
        step_of(method="full", gradient_checkpointing=False, how=Implementation(kernels=kernels)) for kernels in (None, "liger")
    )
    assert rules_hf.saved_bytes(liger) < 0.8 * rules_hf.saved_bytes(own)


GEMMA_TRACED = [  # gemma-3-1b, one sequence of 2,048 tokens, adapters in float32: bytes that its trace on CUDA gave
    ("lora", True, 2_695_804_416),
    ("lora", False, 9_286_722_560),
    ("qlora", False, 8_218_993_152),
    ("full", True, 10_271_131_136),
    ("full", False, 14_329_141_248),
]


@pytest.mark.parametrize(("method", "checkpointing", "traced"), GEMMA_TRACED)
def test_blocks_that_attend_within_a_window_keep_their_mask(method, checkpointing, traced):
    """Without it the steps without checkpointing were 3% low."""
    work = workload(model=catalogue().models["gemma-3-1b"], method=method, gradient_checkpointing=checkpointing)
    assert rules.uncalibrated(Cell(work, "hf", "cuda")).peak_bytes == pytest.approx(traced, rel=0.025)


def test_a_window_is_a_mask_only_beyond_its_length():
    model = catalogue().models["gemma-3-1b"]
    steps = [
        Step(Cell(workload(model=model, method="lora", sequence_length=length), "hf", "cuda"), shape_of(model))
        for length in (512, 2048)
    ]
    assert [blocks_hf.window_bias(step) for step in steps] == [0, round(22 / 26 * 2 * 2048**2)]
