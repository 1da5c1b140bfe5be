"""Others' words for methods, modules, optimizers and dtypes."""

from __future__ import annotations

import pytest

from bench.cited import Cited
from bench.predict.cited_terms import bits_of, method_of, modules_of, optimizer_of, undeclarable


def row(**values: object) -> Cited:
    return Cited(id="a-1", source="s", **values)  # type: ignore[arg-type]  # the fields have several types


@pytest.mark.parametrize(
    ("method", "bits", "found"),
    [
        ("LoRA", 16, "lora"),
        ("lora", 4, "qlora"),
        ("QLoRA", None, "qlora"),
        ("Full fine-tuning", 16, "full"),
        ("full", None, "full"),
        ("partial full", 16, None),
        ("DoRA", 16, None),
        ("LoRA/QLoRA", 16, None),
        ("inference", 4, None),
        (None, None, None),
    ],
)
def test_methods(method: str | None, bits: int | None, found: str | None) -> None:
    assert method_of(row(method=method, quant_bits=bits)) == found


@pytest.mark.parametrize(
    ("values", "bits"),
    [
        ({"quant_bits": 8}, 8),
        ({"method": "QLoRA"}, 4),
        ({"method": "LoRA", "model": "x-bnb-4bit", "dtype": "bf16"}, 4),
        ({"method": "LoRA", "dtype": "torch.bfloat16"}, 16),
        ({"method": "LoRA"}, None),
    ],
)
def test_bits(values: dict[str, object], bits: int | None) -> None:
    assert bits_of(row(**values)) == bits


ALL = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("q,k,v,o,gate,up,down", ALL),
        ("all-linear", ALL),
        ("all linear layers", ALL),
        ("q_proj, v_proj", "q_proj,v_proj"),
        ("v,q", "q_proj,v_proj"),
        ("q,k,v,o,mlp", ALL),
        ("qkv", "q_proj,k_proj,v_proj"),
        ("c_attn/default", "q_proj,k_proj,v_proj"),
        ("attention", "q_proj,k_proj,v_proj,o_proj"),
        ("q and v", "q_proj,v_proj"),
        ("default", None),
        ("router", None),
        (None, None),
    ],
)
def test_modules(text: str | None, modules: str | None) -> None:
    assert modules_of(text) == modules


@pytest.mark.parametrize(
    ("text", "optimizer"),
    [
        ("adamw_torch_fused", "adamw"),
        ("paged_adamw_8bit", "adamw_8bit"),
        ("8-bit AdamW", "adamw_8bit"),
        ("SGD", "sgd"),
        (None, "adamw"),
    ],
)
def test_optimizers(text: str | None, optimizer: str) -> None:
    assert optimizer_of(row(optimizer=text)) == optimizer


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"method": "full", "quant_bits": 16, "optimizer": "Adafactor"}, "optimizer"),
        ({"method": "full", "quant_bits": 4}, "all trained"),
        ({"method": "QLoRA", "quant_bits": 16}, "said to be in 16 bits"),
        ({"method": "LoRA", "quant_bits": 16, "dtype": "fp32"}, "float32"),
        ({"method": "LoRA", "quant_bits": 16, "lora_targets": "q,v,embed_tokens"}, "embeddings"),
        ({"method": "LoRA", "quant_bits": 16, "dtype": "bf16 (adapters fp32)"}, None),
        ({"method": "LoRA", "quant_bits": 16, "optimizer": "adafactor"}, None),
    ],
)
def test_what_no_cell_can_declare(values: dict[str, object], reason: str | None) -> None:
    found = undeclarable(row(**values))
    assert (found is None) if reason is None else (reason in (found or ""))
