from typing import Any

import pytest

from bench.catalog import catalogue
from bench.reading.architecture import model_of
from bench.reading.gemma3 import PUBLISHED_DEFAULTS, Gemma3Config
from bench.reading.strict import BadFile

HUB_1B: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 106],
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "initializer_range": 0.02,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.52.4",
    "use_cache": True,
    "vocab_size": 262144,
}
"""The file as the catalogue's source quotes it, every key."""
OLDER = ("rope_local_base_freq", "rope_scaling", "rope_theta", "sliding_window_pattern")
NEWER: dict[str, Any] = {
    **{key: value for key, value in HUB_1B.items() if key not in OLDER},
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
    "_sliding_window_pattern": 6,
    "use_bidirectional_attention": False,
}
"""The same as transformers 5 writes it."""
FULL = {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}


def config_of(**changes: Any) -> dict[str, Any]:
    return model_of("x", {**HUB_1B, **changes}, "x/config.json").config


def faults(config: dict[str, Any]) -> list[str]:
    with pytest.raises(BadFile) as caught:
        model_of("x", config, "x/config.json")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("spelt", [HUB_1B, NEWER], ids=["older", "newer"])
def test_the_hubs_own_file_in_either_spelling_is_the_catalogues_row(spelt: dict[str, Any]) -> None:
    row = catalogue().models["gemma-3-1b"]
    found = model_of("another", spelt, "config.json")
    assert (found.architecture, found.parameters) == (row.architecture, row.parameters)


def test_what_transformers_writes_back_is_what_it_read() -> None:
    """The two spellings are transformers' own: what it makes of a catalogue's row is that row."""
    from transformers import AutoConfig

    for name in ("gemma-3-1b", "gemma-3-27b"):
        row = catalogue().models[name]
        config = row.config
        written = AutoConfig.for_model(config.pop("model_type"), **config).to_dict()
        said = {key: value for key, value in written.items() if key in Gemma3Config.model_fields}
        assert model_of("x", said, "").architecture == row.architecture


def test_frequencies_by_kind_of_layer_are_spelt_as_both_stacks_read_them() -> None:
    tables = {"full_attention": {**FULL, "beta_fast": None}, "sliding_attention": {"rope_theta": 2e4}}
    config = model_of("x", {**NEWER, "rope_parameters": tables}, "").config
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}
    assert (config["rope_theta"], config["rope_local_base_freq"]) == (5e5, 2e4)
    assert "rope_parameters" not in config
    beside = model_of("x", {**NEWER, "rope_theta": 7.0, "rope_local_base_freq": 3, "rope_parameters": tables}, "").config
    assert beside == config  # a table goes before what stands beside it


def test_the_stacks_defaults_are_written_out() -> None:
    left_out = ("rope_theta", "rope_local_base_freq", "hidden_activation", "sliding_window_pattern", "rms_norm_eps")
    plain = {key: value for key, value in HUB_1B.items() if key not in left_out}
    assert model_of("x", plain, "").architecture == catalogue().models["gemma-3-1b"].architecture
    assert config_of()["tie_word_embeddings"] is True


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({"sliding_window_pattern": 3}, {"sliding_window_pattern": 3}),
        ({"layer_types": ["sliding_attention"] * 2 + ["full_attention"] + ["sliding_attention"]}, {"sliding_window_pattern": 3}),
        ({"layer_types": ["full_attention"] * 4}, {"sliding_window_pattern": 1}),
        ({"layer_types": ["full_attention"] + ["sliding_attention"] * 3}, None),
        ({"layer_types": ["sliding_attention"] * 4}, None),
        ({"sliding_window_pattern": 5}, {"layer_types": ["sliding_attention"] * 4}),
        ({"sliding_window_pattern": 2, "layer_types": ["sliding_attention"] * 4}, None),  # the list goes first in transformers
    ],
)
def test_layers_are_a_pattern_where_they_have_one(layers: dict[str, Any], expected: dict[str, Any] | None) -> None:
    config = config_of(num_hidden_layers=4, **{"sliding_window_pattern": None, **layers})
    said = {key: config[key] for key in ("sliding_window_pattern", "layer_types") if key in config}
    assert said == (expected or {"layer_types": layers["layer_types"]})


@pytest.mark.parametrize("key", [*PUBLISHED_DEFAULTS, "hidden_size", "intermediate_size", "num_hidden_layers", "sliding_window"])
def test_a_missing_key_is_one_line_with_file_key_and_remedy(key: str) -> None:
    lacking = {name: value for name, value in HUB_1B.items() if name != key}
    assert faults(lacking) == [f"x/config.json: {key}: missing; take it from the model's own config.json"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads: 4 heads cannot share 3 key-value heads evenly"),
        ({"head_dim": 255}, "head_dim: 255 is odd, and rotary embeddings turn pairs of dimensions"),
        ({"mlp_bias": True}, "mlp_bias: a gemma3_text has none"),
        ({"layer_types": ["full_attention"]}, "layer_types: names 1 layers of 26"),
        ({"hidden_activation": "relu"}, 'hidden_activation: unknown hidden_activation "relu"; use gelu_pytorch_tanh'),
        ({"sliding_window": None}, "sliding_window: expected a whole number, got None"),
        ({"query_pre_attn_scalar": 1.5}, "query_pre_attn_scalar: expected a whole number, got 1.5"),
        ({"rope_scaling": {"rope_type": "linear"}}, 'rope_scaling.factor: missing, and the rope_type "linear" needs it'),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "linear"}}},
            'rope_parameters.full_attention.factor: missing, and the rope_type "linear" needs it',
        ),
        (
            {"rope_parameters": {"sliding_attention": {"type": "linear", "factor": 2.0}}},
            "rope_parameters.sliding_attention.rope_type: only the layers that see the whole sequence scale their frequencies",
        ),
    ],
)
def test_wrong_values_name_file_key_and_remedy(change: dict[str, Any], expected: str) -> None:
    assert faults({**HUB_1B, **change}) == [f"x/config.json: {expected}; take it from the model's own config.json"]


def test_an_unknown_kind_of_layer_is_answered_with_what_was_meant() -> None:
    (line,) = faults({**HUB_1B, "rope_parameters": {"full_atention": FULL}})
    assert line.startswith('x/config.json: rope_parameters.full_atention: unknown key; did you mean "full_attention"?')


def test_what_neither_stack_reads_is_dropped_and_what_one_reads_is_kept() -> None:
    config = config_of(final_logit_softcapping=30.0, use_bidirectional_attention=True)
    assert not {"cache_implementation", "_sliding_window_pattern", "attn_logit_softcapping"} & config.keys()
    assert (config["final_logit_softcapping"], config["use_bidirectional_attention"]) == (30.0, True)
