"""Frameworks by what they compute like."""

from __future__ import annotations

import pytest

from bench.cited import Cited
from bench.predict.cited_stacks import FAST_LOGITS_BYTES, FULL_LOGITS_BYTES, stack_of


def row(framework: str | None, notes: str = "", date: str | None = "2025-01-01") -> Cited:
    return Cited(id="a-1", source="s", framework=framework, notes=notes, date=date)


@pytest.mark.parametrize(
    ("framework", "notes", "rules", "own", "logit_bytes"),
    [
        ("HF Trainer + fms-acceleration (none)", "", "hf", True, FULL_LOGITS_BYTES),
        ("HF Trainer + fms-acceleration (baseline-peft-bnb)", "", "hf", False, FULL_LOGITS_BYTES),
        ("HF Trainer + fms-acceleration (foak-fast-kernels)", "", "hf", True, FAST_LOGITS_BYTES),
        ("HF Trainer + fms-acceleration (foak-fast-kernels-liger)", "", "hf", True, 0),
        ("axolotl", "packing; Cut Cross Entropy plugin", "hf", True, 0),
        ("torchtune", "", "hf", False, FULL_LOGITS_BYTES),
        ("Unsloth Open", "", "unsloth", True, 0),
        ("mlx-lm", "", "mlx", True, 0),
        ("mlx_lm.lora", "", "mlx", True, 0),
        ("MLX-LM 0.21", "", "mlx", True, 0),
        ("HF PEFT+TRL", "", "hf", True, FULL_LOGITS_BYTES),
        ("transformers", "", "hf", True, FULL_LOGITS_BYTES),
        ("llama-factory", "", "hf", True, FULL_LOGITS_BYTES),
        ("SFTTrainer", "", "hf", True, FULL_LOGITS_BYTES),
        ("trl 1.16", "", "hf", True, 0),
        ("unsloth 2025.3", "", "unsloth", True, 0),
        ("LitGPT", "", "hf", False, FULL_LOGITS_BYTES),
    ],
)
def test_a_framework_has_its_rules(framework: str, notes: str, rules: str, own: bool, logit_bytes: int) -> None:
    found = stack_of(row(framework, notes))
    assert (found.rules, found.own, found.logit_bytes, found.refused) == (rules, own, logit_bytes, None)


@pytest.mark.parametrize(
    "framework",
    [
        "llama.cpp/Ollama",
        "Unsloth on MLX",
        "Unsloth + vLLM (GRPO)",
        "mlx-tune",
        "mlx-lm-lora",
        "PyTorch MPS (HF)",
        "TRL (DeepSpeed ZeRO-3)",
        None,
    ],
)
def test_others_have_none(framework: str | None) -> None:
    assert stack_of(row(framework)).refused is not None


def test_attention_is_as_said_or_as_it_was_then() -> None:
    assert stack_of(row("ms-swift", "flash attention off")).attentions == ("eager",)
    assert stack_of(row("ms-swift", "flash attention on")).attentions == (None,)
    assert stack_of(row("ms-swift")).attentions == (None, "eager")
    assert stack_of(row("HF + FA2", date="2023-12-01")).attentions == (None,)
    assert stack_of(row("HF", date="2023-12-01")).attentions == (None, "eager")
    assert stack_of(row("HF")).attentions == (None,)
