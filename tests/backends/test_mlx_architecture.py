"""Which architectures mlx-lm computes as declared: what is refused, and that the rest is computed as transformers does."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tiny_models import GEMMA3 as TINY_GEMMA3

from bench.backends.mlx_architecture import ALIASES, ROTARY, _as_bfloat16, active_window, refusal, tied
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
GEMMA3 = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8, "sliding_window_pattern": 2}
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


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hidden_activation": "relu"}, "always has the activation gelu_pytorch_tanh, not hidden_activation 'relu'"),
        ({"attention_bias": True}, "mlx-lm's gemma3_text has no biases in attention"),
        ({"attention_dropout": 0.5}, "mlx-lm has no dropout in attention"),
        ({"final_logit_softcapping": 30.0}, "is not known to honour final_logit_softcapping"),
        ({"use_bidirectional_attention": True}, "is not known to honour use_bidirectional_attention"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "each n-th layer, and at least one"),
        ({"sliding_window_pattern": 3}, "each n-th layer, and at least one"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "the rotary scaling 'dynamic'"),
    ],
)
def test_what_mlx_lms_gemma3_would_pass_over_is_refused(settings: dict[str, Any], reason: str) -> None:
    assert refusal(plain("gemma3_text", **GEMMA3), 64) is None
    assert reason in (refusal(plain("gemma3_text", **{**GEMMA3, **settings}), 64) or "")


@pytest.mark.parametrize(
    ("width", "dtype", "passes"),
    [
        *((64, dtype, True) for dtype in ("float32", "float16", "bfloat16")),
        *((96, dtype, False) for dtype in ("float32", "float16")),
        *((width, "bfloat16", True) for width in (96, 1152, 2560, 3840, 5376)),
    ],
)
def test_embeddings_must_be_multiplied_by_the_same_root(width: int, dtype: str, passes: bool) -> None:
    found = refusal(config_of("gemma3_text", **{**GEMMA3, "hidden_size": width}), 64, dtype)
    reason = f"mlx-lm's gemma3_text multiplies embeddings by 9.8125, where transformers has 9.79796 in {dtype}"
    assert found == (None if passes else reason)


@pytest.mark.parametrize("width", [1, 17, 96, 640, 1152, 2560, 3840, 5376, 2**20 - 1])
def test_roots_are_rounded_as_mlx_rounds_them(width: int) -> None:
    import mlx.core as mx

    assert _as_bfloat16(width**0.5) == mx.array(width**0.5, mx.bfloat16).astype(mx.float32).item()


def logits(told: dict[str, Any], otherwise: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """What transformers and mlx-lm compute from the same random weights for sequences of 40; mlx-lm may be told otherwise."""
    import mlx.core as mx
    import torch
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**told), dtype=torch.float32).eval()
    ids = np.random.default_rng(0).integers(3, 512, (2, 40))
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3)
        theirs = model(torch.tensor(ids)).logits.numpy()
    config = {**told, **(otherwise or {})}
    model_class, args_class = _get_classes(config)
    with mx.stream(mx.cpu):
        apples = tied(model_class(args_class.from_dict(config)), config)
        there = {name for name, _ in tree_flatten(apples.parameters())}
        state = {name: mx.array(value.numpy()) for name, value in model.state_dict().items()}
        apples.load_weights([(name, value) for name, value in state.items() if name in there or name != "lm_head.weight"])
        return theirs, np.array(apples(mx.array(ids)))


def apart(told: dict[str, Any], otherwise: dict[str, Any] | None = None) -> float:
    theirs, apples = logits(told, otherwise)
    return float(np.abs(theirs - apples).max() / theirs.std())


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False}, {"sliding_window_pattern": 2}, {"rope_scaling": None}])
def test_both_stacks_compute_the_same_gemma3(changes: dict[str, Any]) -> None:
    """Measured: 6e-6 of the logits' spread, rounding; each of the slips below is over 0.05."""
    told = model_of("tiny", {**TINY_GEMMA3, **changes}, "here").config
    assert refusal(told, 40, "float32") is None
    assert apart(told) < 1e-4


@pytest.mark.parametrize(
    "slip",
    [
        {"sliding_window": 9},
        {"sliding_window_pattern": 2},
        {"rope_scaling": None},
        {"rope_local_base_freq": 2e4},
        {"rope_theta": 1e5},
        {"query_pre_attn_scalar": 32},
        {"rms_norm_eps": 0.1},
    ],
)
def test_a_setting_of_gemma3_that_one_stack_reads_otherwise_would_show(slip: dict[str, Any]) -> None:
    assert apart(model_of("tiny", TINY_GEMMA3, "here").config, slip) > 0.01


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


@pytest.mark.parametrize(
    ("settings", "length", "window"),
    [
        ({}, 9, 8),
        ({}, 8, None),
        ({"sliding_window_pattern": 1}, 9, None),
        ({"sliding_window_pattern": 3}, 9, 8),
        ({"layer_types": ["full_attention", "full_attention"]}, 9, None),
        ({"layer_types": ["full_attention", "sliding_attention"]}, 9, 8),
    ],
)
def test_gemma3s_window_is_one_that_mlx_lm_computes(settings: dict[str, Any], length: int, window: int | None) -> None:
    config = config_of("gemma3_text", **{**GEMMA3, **settings})
    assert active_window(config, length) == window
    assert "attends to all" not in (refusal(config, length) or "")


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
