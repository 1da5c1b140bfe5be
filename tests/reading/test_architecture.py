from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.catalog import catalogue
from bench.model import FAMILIES, Model
from bench.reading.architecture import NOT_ARCHITECTURE, DecoderConfig, model_of, smallest_adapted_dimension
from bench.reading.gemma3 import Gemma3Config, LayeredRope
from bench.reading.rope import Rope
from bench.reading.strict import BadFile, Problem
from bench.spec import BLOCK_MODULES

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.42.3",
    "use_cache": True,
    "vocab_size": 128256,
}
"""The file as the hub has it (the catalogue's source), every key."""

QWEN3_SMALL = {
    "model_type": "qwen3",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
}


GEMMA3_SMALL = {
    **QWEN3_SMALL,
    "model_type": "gemma3_text",
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 16,
    "sliding_window": 8,
}


def small(family: str) -> dict[str, object]:
    """The least that a family needs."""
    return GEMMA3_SMALL if family == "gemma3_text" else {**QWEN3_SMALL, "model_type": family}


UNUSED_WINDOW = {"sliding_window": 4096, "max_window_layers": 2, "layer_types": ["full_attention", "full_attention"]}


def faults(config) -> list[str]:
    with pytest.raises(BadFile) as caught:
        model_of("x", config, "x/config.json")
    return [str(problem) for problem in caught.value.problems]


def test_the_hubs_own_file_is_the_catalogues_row():
    row = catalogue().models["llama-3.1-8b"]
    found = model_of("another-name", LLAMA_8B, "config.json")
    assert found.architecture == row.architecture
    assert found.parameters == row.parameters == 8_030_261_248


def test_the_spelling_of_transformers_5_is_the_same_architecture():
    scaling = {**LLAMA_8B["rope_scaling"], "rope_theta": 500000}
    newer = {key: value for key, value in LLAMA_8B.items() if not key.startswith("rope")}
    newer |= {"rope_parameters": scaling, "head_dim": 128, "dtype": "bfloat16", "pad_token_id": None}
    assert model_of("x", newer, "").architecture == catalogue().models["llama-3.1-8b"].architecture


def test_what_makes_no_difference_is_left_out_and_what_does_is_kept():
    config = model_of("x", {**QWEN3_SMALL, **UNUSED_WINDOW}, "").config
    assert not NOT_ARCHITECTURE & config.keys()
    assert "sliding_window" not in config
    windowed = {**QWEN3_SMALL, "use_sliding_window": True, "sliding_window": 4096}
    assert model_of("x", windowed, "").config["sliding_window"] == 4096


def test_defaults_are_written_out_so_that_two_stacks_cannot_differ():
    config = model_of("x", QWEN3_SMALL, "").config
    assert (config["head_dim"], config["num_key_value_heads"], config["tie_word_embeddings"]) == (128, 4, False)
    llama = model_of("x", {**QWEN3_SMALL, "model_type": "llama"}, "").config
    assert (llama["head_dim"], llama["rope_theta"], llama["mlp_bias"]) == (16, 10_000.0, False)


def test_equal_numbers_spelt_differently_are_equal():
    assert model_of("x", {**QWEN3_SMALL, "rope_theta": 1000000}, "") == model_of("x", {**QWEN3_SMALL, "rope_theta": 1e6}, "")


def test_the_older_name_of_the_rotary_type_is_the_newer():
    older = model_of("x", {**QWEN3_SMALL, "rope_scaling": {"type": "linear", "factor": 2}}, "").config["rope_scaling"]
    assert older == {"rope_type": "linear", "factor": 2.0}
    assert "rope_scaling" not in model_of("x", {**QWEN3_SMALL, "rope_scaling": {"rope_type": "default"}}, "").config


def test_a_family_without_a_closed_form_is_taken_as_it_is():
    model = model_of("x", {"model_type": "fake", "vocab_size": 512, "step_s": 0.1}, "")
    assert model.parameters is None
    assert model.config == {"model_type": "fake", "vocab_size": 512, "step_s": 0.1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hidden_size": None}, "x/config.json: hidden_size: expected a whole number, got None"),
        ({"hidden_size": "64"}, 'x/config.json: hidden_size: expected a whole number, got "64"'),
        ({"num_hidden_layers": 0}, "x/config.json: num_hidden_layers: 0 is out of range: must be at least 1"),
        ({"vocab_size": True}, "x/config.json: vocab_size: expected a whole number, got true"),
        ({"rms_norm_eps": float("nan")}, "x/config.json: rms_norm_eps: expected a finite number, got nan"),
        ({"tie_word_embeddings": 1}, "x/config.json: tie_word_embeddings: expected true or false, got 1"),
        ({"rope_scaling": 3}, "x/config.json: rope_scaling: expected a table, got 3"),
        ({"hidden_size": 2**20 + 1}, "x/config.json: hidden_size: 1048577 is out of range: must be at most 1048576"),
        ({"initializer_range": "abc"}, 'x/config.json: initializer_range: expected a number, got "abc"'),
        (
            {"initializer_range": 10**400},
            "x/config.json: initializer_range: a number of 1329 bits is out of range: must fit into 64 bits",
        ),
        ({"rope_theta": float("inf")}, "x/config.json: rope_theta: expected a finite number, got inf"),
        ({"mlp_bias": "yes"}, 'x/config.json: mlp_bias: expected true or false, got "yes"'),
        ({"mlp_bias": True}, "x/config.json: mlp_bias: a qwen3 has none"),
        ({"attention_bias": True, "model_type": "mistral"}, "x/config.json: attention_bias: a mistral has none"),
        ({"head_dim": 7}, "x/config.json: head_dim: 7 is odd, and rotary embeddings turn pairs of dimensions"),
        ({"hidden_act": "nonsense"}, 'x/config.json: hidden_act: unknown hidden_act "nonsense"; use one of silu, swish'),
        ({"use_sliding_window": "no"}, 'x/config.json: use_sliding_window: expected true or false, got "no"'),
        ({"layer_types": ["full_attention"]}, "x/config.json: layer_types: names 1 layers of 2"),
        ({"extra": {"a": [1, 2**63]}}, "x/config.json: extra.a[1]: 9223372036854775808 is out of range: must fit into 64 bits"),
    ],
)
def test_wrong_values_name_file_key_and_remedy(change, expected):
    assert faults({**QWEN3_SMALL, **change}) == [f"{expected}; take it from the model's own config.json"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_hidden_layers": "x"}, 'num_hidden_layers: expected a whole number, got "x"'),
        ({"num_attention_heads": 0}, "num_attention_heads: 0 is out of range: must be at least 1"),
        ({"intermediate_size": [8]}, "intermediate_size: expected a whole number, got a list"),
        ({"max_position_embeddings": True}, "max_position_embeddings: expected a whole number, got true"),
        ({"rope_parameters": "x"}, 'rope_parameters: expected a table, got "x"'),
        ({"step_s": float("inf")}, "step_s: expected a finite number, got inf"),
        ({"model_type": "../x"}, "model_type: expected a name of letters, digits, '.', '_' and '-', got \"../x\""),
    ],
)
def test_what_the_planner_reads_is_typed_in_any_family(change, expected):
    found = faults({"model_type": "other", "vocab_size": 512, **change})
    assert found == [f"x/config.json: {expected}; take it from the model's own config.json"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_widest_of_every_bound_makes_a_count_that_the_results_can_hold(family):
    bounds = {"hidden_size": 2**20, "intermediate_size": 2**24, "num_hidden_layers": 1024, "vocab_size": 2**24}
    bounds |= {"num_attention_heads": 2**14, "num_key_value_heads": 2**14, "head_dim": 2**14}
    for name, bound in bounds.items():
        assert faults({**small(family), name: bound + 2})[0].startswith(f"x/config.json: {name}: {bound + 2} is out of range")
    widest = model_of("x", {**small(family), **bounds}, "")
    assert widest.parameters is not None
    assert 2**59 < widest.parameters < 2**63


def test_two_names_of_one_activation_are_equal():
    assert model_of("x", {**QWEN3_SMALL, "hidden_act": "swish"}, "") == model_of("x", QWEN3_SMALL, "")


def test_all_missing_keys_are_named_at_once():
    found = faults({"model_type": "llama", "vocab_size": 512})
    assert [line.split(": ")[1] for line in found] == [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    ]
    assert all(line.endswith("missing; take it from the model's own config.json") for line in found)


REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
)


@pytest.mark.parametrize("key", REQUIRED)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_key_is_one_line_with_file_key_and_remedy(family, key):
    lacking = {name: value for name, value in small(family).items() if name != key}
    assert faults(lacking) == [f"x/config.json: {key}: missing; take it from the model's own config.json"]


@pytest.mark.parametrize("family", FAMILIES)
def test_of_a_multimodal_model_the_language_model_is_taken(family):
    whole = {"model_type": "seer", "vision_config": {"hidden_size": 3}, "text_config": small(family)}
    assert model_of("x", whole, "").architecture == model_of("x", small(family), "").architecture
    tied = model_of("x", {**whole, "tie_word_embeddings": True}, "").config["tie_word_embeddings"]
    assert tied is True


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"model_type": "seer", "text_config": {"model_type": "mamba", "vocab_size": 512}},
            'text_config.model_type: a multimodal model whose language model is "mamba", not one of llama, mistral, qwen2, '
            "qwen3, gemma3_text; name another model, or a file of its text_config alone",
        ),
        (
            {"model_type": "seer", "text_config": 3},
            "text_config.model_type: a multimodal model whose language model is None, not one of llama, mistral, qwen2, qwen3, "
            "gemma3_text; name another model",
        ),
        (
            {"model_type": "gemma3", "text_config": {key: GEMMA3_SMALL[key] for key in GEMMA3_SMALL if key != "hidden_size"}},
            "text_config.hidden_size: missing; take it from the model's own config.json",
        ),
        ({"model_type": "gemma3", "vocab_size": 512}, "text_config: missing; take it from the model's own config.json"),
    ],
)
def test_a_language_model_that_cannot_be_taken_is_named(config, expected):
    assert faults(config) == [f"x/config.json: {expected}"]


@pytest.mark.parametrize("config", [None, [], 3, "x", {}, {"model_type": 3}, {"model_type": []}])
def test_what_is_no_configuration_is_refused(config):
    assert faults(config)


def test_heads_must_fit():
    (uneven,) = faults({**QWEN3_SMALL, "num_key_value_heads": 3})
    assert uneven.startswith("x/config.json: num_key_value_heads: 4 heads cannot share 3 key-value heads evenly; take it from")
    (undivided,) = faults({**QWEN3_SMALL, "model_type": "llama", "num_attention_heads": 7})
    assert "head_dim is missing, and hidden_size does not divide by num_attention_heads" in undivided


def test_values_that_json_cannot_hold_are_refused(tmp_path: Path):
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    (line,) = faults({**QWEN3_SMALL, "extra": deep})
    assert line.startswith("x/config.json: extra[0][0][0]")
    assert "]: nested too deeply to be meant; " in line
    (line,) = faults({**QWEN3_SMALL, "extra": tmp_path})
    assert line.startswith(f"x/config.json: extra: expected what JSON can hold, got {tmp_path}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
VALUES = JSON | st.sampled_from([10**400, -(2**63) - 1, 1e300, "8", "llama3", "silu", 7, 2**63])
ROPES = st.dictionaries(st.sampled_from([*Rope.model_fields, "x"]), VALUES | st.integers(1, 64), max_size=6)
KINDS = st.dictionaries(st.sampled_from([*LayeredRope.model_fields, "x"]), ROPES | VALUES, max_size=2)
READ = sorted({*DecoderConfig.model_fields, *Gemma3Config.model_fields, "extra", "text_config"} - {"model_type"})


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(READ), VALUES | ROPES | KINDS, max_size=4), st.sampled_from([*FAMILIES, "other"]))
def test_no_value_raises_anything_else_and_what_is_read_can_be_planned(changes, family):
    found: list[Problem] = []
    try:
        model = model_of("x", {**small(family), **changes}, "x/config.json")
    except BadFile as error:
        found, model = list(error.problems), Model("x", "{}")
    assert all(problem.path and str(problem).isprintable() for problem in found)
    assert model.parameters is None or 0 < model.parameters < 2**63
    assert smallest_adapted_dimension(model.config, BLOCK_MODULES) is None or model.config["head_dim"] % 2 == 0


def test_the_smallest_adapted_dimension_is_the_narrowest_side():
    config = catalogue().models["llama-3.1-8b"].config
    assert smallest_adapted_dimension(config, BLOCK_MODULES) == 1024
    assert smallest_adapted_dimension(config, ("q_proj", "down_proj")) == 4096
    assert smallest_adapted_dimension(config, ()) is None
    assert smallest_adapted_dimension({"model_type": "fake"}, BLOCK_MODULES) is None
