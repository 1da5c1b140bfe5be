"""Models: an architecture, how many parameters it makes, and the canonical text by which architectures compare equal.

In: a `config.json` dictionary. Out: a frozen `Model`. No I/O, no framework; everything else stands on this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
"""Values of `model_type` whose architectures are known here: how they are declared, counted and built alike by two stacks."""
NORMS_ONE_APART = ("gemma", "gemma2", "gemma3_text")
"""Families whose RMS norms multiply by 1 + weight, in transformers' models as in mlx-lm's: a weight of zero scales by one."""


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder-only language model: a name for people and an architecture for machines.

    `architecture` is the model's Hugging Face `config.json` as canonical JSON text (sorted keys, no spaces), so that equal
    architectures compare equal whatever they are called. `parameters` is the exact count with tied weights counted once;
    None where no closed form is known (the count is then taken from the built model). `origin` is where real weights of it
    are, the hub's id or a folder, and no part of what has to be computed.
    """

    name: str
    architecture: str
    parameters: int | None = None
    origin: str | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The architecture as a fresh `config.json` dictionary."""
        return dict(json.loads(self.architecture))


def model_from_config(name: str, config: Mapping[str, Any]) -> Model:
    """The model of a `config.json` dictionary. Raises KeyError where a key that the count needs is missing."""
    return Model(name, canonical_json(config), count_parameters(config))


def count_parameters(config: Mapping[str, Any]) -> int | None:
    """Exact parameter count of an architecture of one of the `FAMILIES`; None for any other `model_type`.

    Embedding and head (once if tied), per block the four attention and three MLP projections and two norms, one final norm;
    Qwen2 adds biases to q, k, v; Qwen3 and Gemma 3 add a norm over the head dimension of q and of k, and Gemma 3 two norms more,
    of what attention and MLP give. Source: the module definitions in transformers' `modeling_llama.py`, `modeling_qwen2.py`,
    `modeling_qwen3.py`, `modeling_gemma3.py`; a test builds them and counts.
    """
    if config["model_type"] not in FAMILIES:
        return None
    hidden = config["hidden_size"]
    norms = (4 if config["model_type"] == "gemma3_text" else 2) * hidden
    block = _attention_parameters(config) + _mlp_parameters(config) + norms
    embeddings = config["vocab_size"] * hidden * (1 if config.get("tie_word_embeddings") else 2)
    return int(config["num_hidden_layers"] * block + embeddings + hidden)


def _attention_parameters(config: Mapping[str, Any]) -> int:
    family, hidden, heads = config["model_type"], config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kv_width = (config.get("num_key_value_heads") or heads) * head_dim
    query_width = heads * head_dim
    count = 2 * hidden * query_width + 2 * hidden * kv_width
    if family == "qwen2" or config.get("attention_bias"):
        count += query_width + 2 * kv_width
    if config.get("attention_bias") and family != "qwen2":
        count += hidden
    if family in ("qwen3", "gemma3_text"):
        count += 2 * head_dim
    return int(count)


def _mlp_parameters(config: Mapping[str, Any]) -> int:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    return int(3 * hidden * inner + (2 * inner + hidden if config.get("mlp_bias") else 0))


def norm_start(config: Mapping[str, Any]) -> float:
    """The weight at which the norms of an architecture scale by one, where random weights start."""
    return 0.0 if config.get("model_type") in NORMS_ONE_APART else 1.0


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces: the same text for the same content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(value: Any) -> str:
    """The first 16 hex digits of SHA-256 over canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]
