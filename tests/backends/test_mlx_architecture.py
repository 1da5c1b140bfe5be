"""Which architectures mlx-lm computes as declared: what is refused, and that the rest is computed as transformers does."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from bench.backends.mlx_architecture import ALIASES, ROTARY, active_window, refusal
from bench.catalog import catalogue
from bench.reading.architecture import model_of

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold

SHAPE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
}
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
WINDOW = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
ORIGINAL = {"original_max_position_embeddings": 64}


def config_of(family: str, **settings: Any) -> dict[str, Any]:
    """The one form of a tiny configuration."""
    return model_of("tiny", {"model_type": family, **SHAPE, **settings}, "here").config


def plain(family: str, **settings: Any) -> dict[str, Any]:
    """A configuration as it is given, unchecked."""
    return {"model_type": family, **SHAPE, **settings}


@pytest.mark.parametrize("name", catalogue().models)
def test_every_model_of_the_catalogue_passes_at_any_length(name: str) -> None:
    config = catalogue().models[name].config
    assert [refusal(config, length) for length in (1, 2048, 1_000_000)] == [None] * 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_plain_form_passes(family: str) -> None:
    assert refusal(config_of(family), 4096) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hidden_act": "gelu"}, "always has the activation silu, not hidden_act 'gelu'"),
        ({"attention_dropout": 0.5}, "mlx-lm has no dropout in attention (attention_dropout 0.5)"),
        ({"residual_multiplier": 2.0}, "is not known to honour residual_multiplier"),
        ({"partial_rotary_factor": 0.5}, "is not known to honour partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "the rotary scaling 'longrope'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "mscale": 1.0}}, "to honour mscale in rope_scaling"),
        ({"rope_scaling": LLAMA3}, "has no original_max_position_embeddings"),
    ],
)
def test_what_mlx_lm_would_pass_over_is_refused_with_its_name(family: str, settings: dict[str, Any], reason: str) -> None:
    assert reason in (refusal(plain(family, **settings), 64) or "")


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("qwen3", {"attention_bias": True}, "no biases in attention"),
        ("qwen3", {"rope_traditional": True}, "rope_traditional"),
        ("qwen3", {"mlp_bias": False}, "mlp_bias"),
        ("qwen2", {"head_dim": 32}, "heads of hidden_size / heads, 16, not of head_dim 32"),
        ("llama", {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}, "layer_types, sliding_window"),
        ("mistral", {"layer_types": ["full_attention"] * 2}, "layer_types"),
    ],
)
def test_what_one_family_lacks_is_refused(family: str, settings: dict[str, Any], reason: str) -> None:
    assert reason in (refusal(plain(family, **settings), 64) or "")


def test_what_has_no_effect_passes() -> None:
    assert refusal(config_of("qwen2", use_mrope=False, attention_bias=True), 64) is None
    assert refusal(config_of("llama", attention_bias=True, mlp_bias=True, head_dim=32), 64) is None
    assert refusal(plain("llama", sliding_window=None, rope_scaling=None), 64) is None


@pytest.mark.parametrize(
    ("family", "settings", "window"),
    [
        ("mistral", {"sliding_window": 8}, 8),
        ("mistral", {"sliding_window": 9}, None),
        ("mistral", {"sliding_window": None}, None),
        ("mistral", {}, None),
        ("qwen2", WINDOW, 8),
        ("qwen3", WINDOW, 8),
        ("qwen3", {**WINDOW, "use_sliding_window": False}, None),
        ("qwen3", {**WINDOW, "sliding_window": 9}, None),
        ("qwen3", {**WINDOW, "max_window_layers": 2}, None),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 8}, None),
        ("qwen3", {**WINDOW, "max_window_layers": 9, "layer_types": ["full_attention", "sliding_attention"]}, 8),
        ("qwen3", {**WINDOW, "layer_types": ["full_attention"] * 2}, None),
    ],
)
def test_a_window_counts_where_it_hides_something(family: str, settings: dict[str, Any], window: int | None) -> None:
    config = config_of(family, **settings)
    assert active_window(config, 9) == window
    assert (refusal(config, 9) is None) is (window is None)
    if window is not None:
        assert f"attends to all 9 tokens, not within a sliding window of {window}" in (refusal(config, 9) or "")


@pytest.mark.parametrize(("family", "settings"), [("mistral", {}), ("mistral", {"sliding_window": None}), ("qwen3", {})])
def test_no_window_is_none_to_transformers_too(hf_cell: Any, family: str, settings: dict[str, Any]) -> None:
    """transformers' own default for a Mistral that says nothing is a window of 4096."""
    from bench.backends.hf_build import _skeleton

    assert _skeleton(hf_cell(family, config=config_of(family, **settings))).config.sliding_window is None


def test_other_families_need_a_model_type_and_have_no_dropout_in_attention() -> None:
    assert refusal({"model_type": "perceptron"}, 64) == "mlx-lm has no model type 'perceptron'"
    assert refusal({"model_type": "gemma2", "hidden_act": "gelu", "anything": 1}, 64) is None
    assert "attention_dropout 0.1" in (refusal({"model_type": "gemma2", "attention_dropout": 0.1}, 64) or "")


def test_aliases_are_those_of_mlx_lm() -> None:
    from mlx_lm.utils import MODEL_REMAPPING

    assert {name: alias for name, alias in MODEL_REMAPPING.items() if name in FAMILIES} == ALIASES


SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "llama3": {**LLAMA3, **ORIGINAL},
    "yarn": {"factor": 4.0, **ORIGINAL, "beta_fast": 16.0, "beta_slow": 2.0},
}


@pytest.mark.parametrize("kind", sorted(set(ROTARY) - {"default"}))
def test_rotary_scalings_that_pass_turn_positions_alike_in_both_stacks(kind: str) -> None:
    import mlx.core as mx
    import torch
    from mlx_lm.models.rope_utils import initialize_rope
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {"rope_type": kind, **SCALINGS[kind]}
    config = config_of("llama", rope_scaling=scaling)
    assert refusal(config, 64) is None
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](AutoConfig.for_model(**config), "cpu")
    angles = torch.arange(300).float()[:, None] * frequencies[None]
    heads = np.random.default_rng(0).normal(size=(1, 1, 300, 16)).astype(np.float32)
    left, right = heads[..., :8], heads[..., 8:]
    cosines, sines = (np.asarray(part) * scale for part in (angles.cos(), angles.sin()))
    expected = np.concatenate([left * cosines - right * sines, right * cosines + left * sines], -1)
    with mx.stream(mx.cpu):
        turned = np.asarray(initialize_rope(16, config["rope_theta"], False, scaling, 2048)(mx.array(heads)))
    assert np.abs(turned - expected).max() < 1e-3
    assert np.abs(turned - heads).max() > 0.1
