"""Operations held to torch's own counter, on the real modules at tiny sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.catalog import catalogue
from bench.predict.work import PHASES, work
from bench.spec import Cell, Implementation, workload

BATCH, LENGTH, RANK = 2, 32, 4


def cell(**declared: Any) -> Cell:
    base = {"batch_size": BATCH, "sequence_length": LENGTH, "rank": RANK, "weights_dtype": "float32", "method": "lora"}
    model = catalogue().models[declared.pop("model", "tiny-qwen3-s")]
    implementation = Implementation(**declared.pop("implementation", {"attention": "eager"}))
    backend, device = declared.pop("backend", "hf"), declared.pop("device", "cpu")
    return Cell(workload(model=model, **{**base, **declared}), backend, device, implementation)


def counted(asked: Cell) -> tuple[int, int]:
    """Forward and backward of transformers' own model with peft's adapters."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    config, declared = dict(asked.workload.model.config), asked.workload
    shape = AutoConfig.for_model(config.pop("model_type"), **config)
    model: Any = AutoModelForCausalLM.from_config(shape, attn_implementation="eager")
    if declared.has_adapters:
        first = shape.num_hidden_layers - (declared.adapter_layers or shape.num_hidden_layers)
        lora = LoraConfig(
            r=RANK,
            target_modules=list(declared.module_names),
            layers_to_transform=list(range(first, shape.num_hidden_layers)),
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(model, lora)
    if declared.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    ids = torch.randint(0, 500, (BATCH, LENGTH))
    with FlopCounterMode(display=False) as forward:
        loss = model.train()(input_ids=ids, labels=ids).loss
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    "declared",
    [
        {"method": "full"},
        {"modules": "all"},
        {"modules": "q_proj,v_proj"},
        {"modules": "attention"},
        {"modules": "gate_proj"},
        {"modules": "down_proj"},
        {"modules": "all", "adapter_layers": 1},
        {"modules": "all", "model": "tiny-llama-xs"},
    ],
)
def test_products_are_those_that_torch_counts(declared: dict[str, Any], checkpointing: bool) -> None:
    asked = cell(gradient_checkpointing=checkpointing, **declared)
    phases = work(asked)
    again = phases["recompute"].matrix_flops if checkpointing else 0
    assert (phases["forward"].matrix_flops, phases["backward"].matrix_flops + again) == counted(asked)


def test_flash_attention_skips_half_and_computes_scores_again() -> None:
    eager, flash = work(cell()), work(replace(cell(), implementation=Implementation()))
    attention = 4 * 2 * BATCH * LENGTH**2 * 4 * 32  # two products, two blocks, four heads of 32
    assert eager["forward"].matrix_flops - flash["forward"].matrix_flops == attention / 2
    assert eager["backward"].matrix_flops - flash["backward"].matrix_flops == pytest.approx(attention * (2 - 2.5 / 2))


def test_phases_are_in_order_and_scale_with_accumulation() -> None:
    once, thrice = work(cell(gradient_checkpointing=True)), work(cell(gradient_checkpointing=True, gradient_accumulation=3))
    assert list(once) == [name for name in PHASES if name in once] == ["forward", "recompute", "backward", "optimizer"]
    assert thrice["backward"].matrix_flops == 3 * once["backward"].matrix_flops
    assert thrice["optimizer"] == once["optimizer"]


def test_bitsandbytes_writes_weights_out_and_mlx_does_not() -> None:
    dequantised = work(cell(method="qlora", device="cuda", weights_dtype="bfloat16"))["dequantise"]
    linears = 2 * sum(4 * 32 * 128 * 2 * share for share in (1, 0.5)) + 2 * 3 * 128 * 384
    assert dequantised.moved_bytes == pytest.approx(3 * linears * (0.5 + 4 / 64 + 2))
    assert "dequantise" not in work(cell(method="qlora", backend="mlx", device="metal"))


def test_optimizers_touch_what_they_read_and_write() -> None:
    full = {"method": "full", "weights_dtype": "bfloat16"}
    parameters = catalogue().models["tiny-qwen3-s"].parameters or 0
    foreach = work(cell(**full, device="cuda", implementation={}))["optimizer"].moved_bytes
    fused = work(cell(**full, device="cuda", implementation={"optimizer_kernel": "fused"}))["optimizer"].moved_bytes
    assert (foreach, fused) == (parameters * 2 * 19, parameters * 2 * 7)
    assert work(cell(**full, optimizer="sgd"))["optimizer"].moved_bytes == parameters * 2 * 3
    assert work(cell(**full, optimizer="adamw_8bit"))["optimizer"].moved_bytes == parameters * 10


def test_decoding_reads_all_weights_for_every_token() -> None:
    short, long = (work(cell(method="serve", prompt_tokens=64, generated_tokens=tokens)) for tokens in (2, 3))
    assert list(short) == ["prefill", "decode"]
    weights = (catalogue().models["tiny-qwen3-s"].parameters or 0) * 4 - 512 * 128 * 4
    cache = BATCH * 2 * 2 * 2 * 32 * 4 * 65  # keys and values, blocks, heads, width, bytes, positions
    assert short["decode"].operand_bytes == weights + cache
    assert long["decode"].operand_bytes == 2 * weights + cache + cache * 66 // 65
    assert short["prefill"].matrix_flops == long["prefill"].matrix_flops
