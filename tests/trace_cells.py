"""The cells on which a trace is held against real steps on the CPU: every method, both settings of checkpointing, three sizes."""

from __future__ import annotations

from typing import Any

from tiny_models import LLAMA

from bench.model import model_from_config
from bench.spec import Cell, workload

METHODS = ("full", "lora", "qlora")
SMALL: dict[str, Any] = {**LLAMA, "hidden_size": 512, "intermediate_size": 1408, "head_dim": 64, "num_attention_heads": 8}
WIDE: dict[str, Any] = {
    **LLAMA,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 128_256,
    "tie_word_embeddings": True,
}
"""Llama 3.2 1B's own widths, with two of its sixteen blocks: 384 million parameters."""
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "small": (
        {**SMALL, "num_hidden_layers": 4, "vocab_size": 32_768},
        {"batch_size": 4, "sequence_length": 128, "weights_dtype": "float32"},
    ),
    "long": ({**SMALL, "num_hidden_layers": 3, "vocab_size": 8192}, {"batch_size": 1, "sequence_length": 1024}),
    "1b": (WIDE, {"batch_size": 1, "sequence_length": 256}),
}
"""45 million parameters in float32, 22 million in bfloat16 on one long sequence, and real widths in bfloat16."""


def cell_of(size: str, method: str, checkpointing: bool) -> Cell:
    config, fields = SIZES[size]
    work = workload(model=model_from_config(size, config), method=method, gradient_checkpointing=checkpointing, **fields)
    return Cell(work, "hf", "cpu")


def tiny(
    method: str, *, blocks: int = 2, checkpointing: bool = True, device: str = "cpu", config: Any = LLAMA, **fields: Any
) -> Cell:
    """0.1 to 0.3 million parameters."""
    model = model_from_config("tiny", {**config, "num_hidden_layers": blocks})
    fields = {"batch_size": 2, "sequence_length": 64, "gradient_checkpointing": checkpointing, **fields}
    return Cell(workload(model=model, method=method, **fields), "hf", device)
