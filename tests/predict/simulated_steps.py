"""What a training step of mlx-lm makes beyond what stands, as `bench.predict.mlx_simulation` has it when nothing is queued.

In: nothing. Out: (device, what the architecture has otherwise than `BASE`, what the workload has otherwise than `WORK`, bytes).
Recorded, so that a change of the rules shows against it in milliseconds; those on `cpu` come from graphs of the CPU's
operations, those on `metal` from graphs with the GPU's.
"""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 3,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": False,
}
WORK: dict[str, Any] = {"sequence_length": 2048, "adapter_dtype": "bfloat16"}

SIMULATED: tuple[tuple[str, dict[str, Any], dict[str, Any], int], ...] = (
    (
        "cpu",
        {},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": True},
        986992644,
    ),
    (
        "cpu",
        {},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": False},
        1813370888,
    ),
    (
        "cpu",
        {},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": False},
        1649104904,
    ),
    (
        "cpu",
        {},
        {"sequence_length": 1024, "method": "full", "adapter_dtype": "bfloat16", "gradient_checkpointing": True},
        3015737358,
    ),
    (
        "cpu",
        {},
        {"sequence_length": 1024, "method": "qlora", "adapter_dtype": "float32", "gradient_checkpointing": True},
        995379204,
    ),
    (
        "cpu",
        {"vocab_size": 4096},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": True},
        717897752,
    ),
    (
        "cpu",
        {"vocab_size": 4096},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": False},
        928233480,
    ),
    (
        "cpu",
        {"vocab_size": 4096, "num_hidden_layers": 6},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True},
        560218130,
    ),
    (
        "cpu",
        {"vocab_size": 4096},
        {"sequence_length": 2048, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True},
        1160019986,
    ),
    (
        "cpu",
        {"vocab_size": 4096, "intermediate_size": 28672},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": True},
        1099579416,
    ),
    (
        "cpu",
        {"vocab_size": 4096, "intermediate_size": 28672},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True},
        776093714,
    ),
    (
        "cpu",
        {"vocab_size": 4096, "num_attention_heads": 64},
        {"sequence_length": 1024, "method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": False},
        1180958734,
    ),
    (
        "cpu",
        {"vocab_size": 4096, "num_hidden_layers": 6},
        {"sequence_length": 1024, "method": "full", "adapter_dtype": "bfloat16", "gradient_checkpointing": False},
        2147598356,
    ),
    (
        "cpu",
        {"vocab_size": 5000},
        {"method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True, "sequence_length": 4096},
        3191275538,
    ),
    (
        "cpu",
        {"vocab_size": 5000},
        {"method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True, "sequence_length": 8192},
        10711072786,
    ),
    (
        "cpu",
        {"vocab_size": 5000},
        {"method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": True, "sequence_length": 8192},
        15499657240,
    ),
    (
        "cpu",
        {"vocab_size": 5000},
        {"method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": False, "sequence_length": 8192},
        21929918478,
    ),
    (
        "cpu",
        {},
        {"method": "lora", "adapter_dtype": "bfloat16", "gradient_checkpointing": True, "sequence_length": 8192},
        11510366212,
    ),
    (
        "cpu",
        {"vocab_size": 5000, "num_hidden_layers": 12},
        {"method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": True, "sequence_length": 2048},
        1883144216,
    ),
    (
        "cpu",
        {"num_hidden_layers": 12},
        {"method": "qlora", "adapter_dtype": "float32", "gradient_checkpointing": True, "sequence_length": 2048},
        2278068228,
    ),
    (
        "cpu",
        {"num_hidden_layers": 12},
        {"method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": False, "sequence_length": 512},
        2240252936,
    ),
    (
        "cpu",
        {"num_hidden_layers": 12},
        {"method": "full", "adapter_dtype": "float32", "gradient_checkpointing": True, "sequence_length": 512},
        3011543054,
    ),
    (
        "cpu",
        {"num_hidden_layers": 6, "tie_word_embeddings": True, "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64},
        {"method": "full", "adapter_dtype": "float32", "gradient_checkpointing": False, "sequence_length": 2048},
        4783829000,
    ),
    ("metal", {"num_hidden_layers": 32}, {"method": "qlora"}, 1683000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "lora", "sequence_length": 1024}, 606000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "lora", "sequence_length": 4096}, 3249000000),
    ("metal", {"num_hidden_layers": 3}, {"method": "lora", "gradient_checkpointing": False}, 2569000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "lora", "gradient_checkpointing": False}, 5948000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "full"}, 3309000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "full", "gradient_checkpointing": False}, 6349000000),
    ("metal", {"num_hidden_layers": 8}, {"method": "lora", "adapter_dtype": "float32"}, 1811000000),
    (
        "metal",
        {"num_hidden_layers": 4},
        {"method": "lora", "adapter_dtype": "float32", "gradient_checkpointing": False},
        3683000000,
    ),
    (
        "metal",
        {"num_hidden_layers": 40, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64},
        {"method": "qlora"},
        3680000000,
    ),
)
