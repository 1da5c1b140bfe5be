"""Architectures of about 0.2M parameters, whose dimensions MLX's groups of 64 divide."""

from typing import Any

TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 512,
    "rope_theta": 5e5,
    "max_position_embeddings": 2048,
}
LLAMA: dict[str, Any] = {"model_type": "llama", "tie_word_embeddings": False, "head_dim": 16, **TINY}
QWEN3: dict[str, Any] = {"model_type": "qwen3", "tie_word_embeddings": True, "head_dim": 32, **TINY}
GEMMA3: dict[str, Any] = {
    **TINY,
    "model_type": "gemma3_text",
    "tie_word_embeddings": True,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "query_pre_attn_scalar": 20,
    "sliding_window": 8,
    "sliding_window_pattern": 3,
    "rope_local_base_freq": 1e4,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "hidden_activation": "gelu_pytorch_tanh",
}
"""Layers of both kinds, a window that sequences of 16 fill, and no two settings whose exchange would go unseen."""
FAMILIES = {"llama": LLAMA, "qwen3": QWEN3}
