import json
from pathlib import Path

import pytest

from bench.catalog import catalogue
from bench.reading.architecture import NOT_ARCHITECTURE, model_of, smallest_adapted_dimension
from bench.reading.strict import BadFile
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
    ],
)
def test_wrong_values_name_file_key_and_remedy(change, expected):
    assert faults({**QWEN3_SMALL, **change}) == [f"{expected}; take it from the model's own config.json"]


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


@pytest.mark.parametrize("config", [None, [], 3, "x", {}, {"model_type": 3}, {"model_type": []}])
def test_what_is_no_configuration_is_refused(config):
    assert faults(config)


def test_heads_must_fit():
    (uneven,) = faults({**QWEN3_SMALL, "num_key_value_heads": 3})
    assert uneven.endswith("4 heads cannot share 3 key-value heads evenly")
    (undivided,) = faults({**QWEN3_SMALL, "model_type": "llama", "num_attention_heads": 7})
    assert undivided.endswith("head_dim is missing, and hidden_size does not divide by num_attention_heads")


def test_values_that_json_cannot_hold_are_refused(tmp_path: Path):
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert faults({**QWEN3_SMALL, "extra": deep})
    assert faults({**QWEN3_SMALL, "extra": tmp_path})
    json.dumps(QWEN3_SMALL)


def test_the_smallest_adapted_dimension_is_the_narrowest_side():
    config = catalogue().models["llama-3.1-8b"].config
    assert smallest_adapted_dimension(config, BLOCK_MODULES) == 1024
    assert smallest_adapted_dimension(config, ("q_proj", "down_proj")) == 4096
    assert smallest_adapted_dimension(config, ()) is None
    assert smallest_adapted_dimension({"model_type": "fake"}, BLOCK_MODULES) is None
