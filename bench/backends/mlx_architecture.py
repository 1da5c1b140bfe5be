"""Which architectures mlx-lm computes as declared, so that its runs may bear the same workload digest as transformers'.

In: a model's configuration in the one form of `bench.reading.architecture`, the length of the sequences and the dtype of the
weights. Out: None, or the reason why mlx-lm would compute something else. mlx-lm passes over keys that it does not know, so
what both stacks honour, or neither needs, is listed for each family, and any other key refuses the cell. Read off the
`ModelArgs` of mlx_lm 0.32's llama, qwen2, qwen3 and gemma3_text, and the configurations and models of transformers 5.

Of other families no list is kept: there mlx-lm must have the model type, and dropout in attention is refused, since no model
of mlx-lm has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Config = Mapping[str, Any]

ALIASES = {"mistral": "llama"}
"""Model types that mlx-lm builds with another's code, of those this project counts: from `mlx_lm.utils.MODEL_REMAPPING`."""

_COMMON = frozenset(
    {
        *("hidden_size", "intermediate_size", "max_position_embeddings", "model_type", "num_attention_heads"),
        *("num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings", "vocab_size"),
        "initializer_range",  # by our own drawing of weights
        *("attention_dropout", "attention_bias", "head_dim", "hidden_act", "rope_scaling"),  # some values: the checks say which
    }
)
_QWEN = frozenset({"layer_types", "max_window_layers", "sliding_window", "use_sliding_window", "use_mrope"})
"""The first four pass where no window is active; the last neither stack's text model reads."""
HONOURED: Mapping[str, frozenset[str]] = {
    "llama": _COMMON | {"mlp_bias", "rope_traditional"},
    "mistral": _COMMON | {"mlp_bias", "rope_traditional", "sliding_window"},
    "qwen2": _COMMON | _QWEN | {"rope_traditional"},
    "qwen3": _COMMON | _QWEN,
    "gemma3_text": _COMMON
    | {"hidden_activation", "query_pre_attn_scalar", "rope_local_base_freq", "sliding_window", "sliding_window_pattern"},
}
"""Keys that may stand in a configuration, by family. Neither stack reads Qwen2's `attention_bias`: it always has one. What
mlx-lm honours and transformers does not (`rope_traditional`, biases of a Mistral) is refused on the other side."""

ROTARY: Mapping[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "dynamic": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    "yarn": frozenset({"factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "finetuned"}),
}
"""Kinds of rotary scaling that both stacks compute alike, as a test measures, and the settings that both honour
or neither reads (`finetuned`)."""
_ROTARY_OF_GEMMA3 = ("default", "linear")
"""What Gemma 3 uses, and what was compared there, where the layers that slide have frequencies of their own."""
_NEEDS_ORIGINAL = ("llama3", "yarn")
"""Where the original length is missing, these fall back on different ones: `max_position_embeddings`, or a constant."""


def refusal(config: Config, sequence_length: int, dtype: str = "bfloat16") -> str | None:
    """Why mlx-lm does not compute this architecture as declared, with weights of this dtype; None if it does."""
    reasons = (check(config, sequence_length) for check in CHECKS)
    return next((reason for reason in reasons if reason is not None), None) or _embedding_scale(config, dtype)


def tied(model: Any, config: Config) -> Any:
    """The model with head and embedding as the configuration has them.

    mlx-lm builds some models (gemma3_text) with a head of their own, and ties it when it finds none among the weights that it
    loads; where none are loaded, it has to be told.
    """
    if config.get("tie_word_embeddings") and "lm_head" in model:
        model.sanitize({})
    return model


def active_window(config: Config, sequence_length: int) -> int | None:
    """The sliding window within which some layer attends, in tokens; None where every layer sees the whole sequence.

    A window as long as the sequence hides nothing. By the rules of transformers' configurations: every layer of a Mistral has
    the window; of a Gemma 3 all but each n-th, or those that `layer_types` names; of a Qwen those that `layer_types` names, or
    those from `max_window_layers` (28 where it is missing) on.
    """
    window = config.get("sliding_window")
    if window is None or window >= sequence_length:
        return None
    if config.get("model_type") == "mistral":
        return int(window)
    if config.get("model_type") != "gemma3_text" and not config.get("use_sliding_window"):
        return None
    return int(window) if _some_layer_slides(config) else None


def _some_layer_slides(config: Config) -> bool:
    kinds = config.get("layer_types")
    if kinds is not None:
        return "sliding_attention" in kinds
    if config.get("model_type") == "gemma3_text":
        return int(config.get("sliding_window_pattern", 6)) > 1
    return int(config.get("max_window_layers", 28)) < int(config.get("num_hidden_layers", 0))


def _unknown_type(config: Config, _: int) -> str | None:
    """Looks for the file of `mlx_lm.models.<model_type>`; finding the module itself would import MLX."""
    package = find_spec("mlx_lm")
    folders = (package.submodule_search_locations if package is not None else None) or []
    model_type = config.get("model_type", "")
    file = f"{ALIASES.get(model_type, model_type)}.py"
    if folders and not any((Path(folder) / "models" / file).is_file() for folder in folders):
        return f"mlx-lm has no model type {model_type!r}"
    return None


def _dropout(config: Config, _: int) -> str | None:
    share = config.get("attention_dropout")
    return f"mlx-lm has no dropout in attention (attention_dropout {share:g})" if share else None


def _activation(config: Config, _: int) -> str | None:
    family = config.get("model_type")
    key, only = ("hidden_activation", "gelu_pytorch_tanh") if family == "gemma3_text" else ("hidden_act", "silu")
    name = config.get(key, only)
    if family in HONOURED and name != only:
        return f"mlx-lm's {family} always has the activation {only}, not {key} {name!r}"
    return None


def _window(config: Config, sequence_length: int) -> str | None:
    family = config.get("model_type")
    window = active_window(config, sequence_length) if family in HONOURED and family != "gemma3_text" else None
    if window is None:
        return None
    return f"mlx-lm's {family} attends to all {sequence_length} tokens, not within a sliding window of {window} (sliding_window)"


def _head_width(config: Config, _: int) -> str | None:
    if config.get("model_type") != "qwen2" or config.get("head_dim") is None:
        return None
    width = config["hidden_size"] // config["num_attention_heads"]
    declared = config["head_dim"]
    return None if declared == width else f"mlx-lm's qwen2 has heads of hidden_size / heads, {width}, not of head_dim {declared}"


def _bias(config: Config, _: int) -> str | None:
    if config.get("model_type") in ("qwen3", "gemma3_text") and config.get("attention_bias"):
        return f"mlx-lm's {config['model_type']} has no biases in attention (attention_bias)"
    return None


def _layers(config: Config, _: int) -> str | None:
    """Gemma 3's model takes the masks of its kinds of layer from the first layer and the first that sees everything."""
    if config.get("model_type") != "gemma3_text":
        return None
    if config.get("layer_types") is not None or config.get("sliding_window_pattern", 6) > config["num_hidden_layers"]:
        return "mlx-lm's gemma3_text lets each n-th layer, and at least one, see the whole sequence, and no others (layer_types)"
    return None


def _embedding_scale(config: Config, dtype: str) -> str | None:
    """Embeddings are multiplied by the root of the width, which mlx-lm rounds to bfloat16, transformers to the weights' dtype."""
    if config.get("model_type") != "gemma3_text" or dtype == "bfloat16":
        return None
    root = config["hidden_size"] ** 0.5
    if root == _as_bfloat16(root):
        return None
    return f"mlx-lm's gemma3_text multiplies embeddings by {_as_bfloat16(root):g}, where transformers has {root:g} in {dtype}"


def _as_bfloat16(value: float) -> float:
    """The nearest number of eight significant bits, ties to even; for the magnitudes of roots of widths."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 256), exponent - 8)


def _rotary(config: Config, _: int) -> str | None:
    scaling = config.get("rope_scaling")
    if config.get("model_type") not in HONOURED or not scaling:
        return None
    kind = scaling.get("rope_type") or scaling.get("type", "default")
    if kind not in (_ROTARY_OF_GEMMA3 if config["model_type"] == "gemma3_text" else ROTARY):
        return f"mlx-lm is not known to compute the rotary scaling {kind!r} as transformers does (rope_scaling)"
    unknown = sorted(scaling.keys() - ROTARY[kind] - {"rope_type", "type"})
    if unknown:
        return f"mlx-lm is not known to honour {', '.join(unknown)} in rope_scaling of the kind {kind!r} as transformers does"
    if kind in _NEEDS_ORIGINAL and "original_max_position_embeddings" not in scaling:
        return "mlx-lm and transformers assume different lengths where rope_scaling has no original_max_position_embeddings"
    return None


def _unknown_keys(config: Config, _: int) -> str | None:
    honoured = HONOURED.get(config.get("model_type", ""))
    unknown = sorted(key for key in config if honoured is not None and key not in honoured and config[key] is not None)
    return f"mlx-lm's {config['model_type']} is not known to honour {', '.join(unknown)}" if unknown else None


CHECKS: tuple[Callable[[Config, int], str | None], ...] = (
    *(_unknown_type, _dropout, _activation, _window, _head_width, _bias, _layers, _rotary, _unknown_keys),
)
