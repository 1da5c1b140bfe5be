"""Two architectures of about 0.2M parameters, whose dimensions MLX's groups of 64 divide."""

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
FAMILIES = {"llama": LLAMA, "qwen3": QWEN3}
