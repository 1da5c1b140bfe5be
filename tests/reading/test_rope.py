import pytest

from bench.reading.architecture import model_of
from bench.reading.rope import REQUIRED, classic_rope, rope_faults
from bench.reading.strict import BadFile

LLAMA = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def without(name):
    return {key: value for key, value in LLAMA3.items() if key != name}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {**LLAMA3, "factor": "8"},
            """rope_scaling.factor: expected a number, got "8"; take it from the model's own config.json""",
        ),
        (
            {**LLAMA3, "factor": 10**400},
            "rope_scaling.factor: a number of 1329 bits is out of range: must fit into 64 bits; take it from the model's own "
            "config.json",
        ),
        (
            {"rope_type": 5},
            "rope_scaling.rope_type: expected one of default, linear, dynamic, yarn, longrope, llama3, got 5; take it from the "
            "model's own config.json",
        ),
        (
            {"type": "lama3"},
            'rope_scaling.type: unknown type "lama3"; did you mean "llama3"?; take it from the model\'s own config.json',
        ),
        (
            {"rope_theta": -1},
            "rope_scaling.rope_theta: -1 is out of range: must be above 0; take it from the model's own config.json",
        ),
        (
            {**LLAMA3, "facter": 8},
            'rope_scaling.facter: unknown key; did you mean "factor"? Or remove it: nothing reads it',
        ),
        (
            {**LLAMA3, "high_freq_factor": 1},
            "rope_scaling.high_freq_factor: 1.0 is not above low_freq_factor; take it from the model's own config.json",
        ),
        (
            {"rope_type": "longrope", "short_factor": [1], "long_factor": [1] * 8, "original_max_position_embeddings": 64},
            "rope_scaling.short_factor: has 1 numbers: half of head_dim is 8; take it from the model's own config.json",
        ),
    ],
)
@pytest.mark.parametrize("spelling", ["rope_scaling", "rope_parameters"])
def test_a_faulty_setting_is_one_line_with_file_key_fault_and_remedy(table, expected, spelling):
    with pytest.raises(BadFile) as caught:
        model_of("x", {**LLAMA, spelling: table}, "x/config.json")
    assert str(caught.value) == f"x/config.json: {expected.replace('rope_scaling', spelling)}"


@pytest.mark.parametrize("kind", REQUIRED)
def test_each_type_names_all_that_it_lacks(kind):
    found = dict(rope_faults({"rope_parameters": {"rope_type": kind}}, 16))
    assert found == {f"rope_parameters.{name}": f'missing, and the rope_type "{kind}" needs it' for name in REQUIRED[kind]}


@pytest.mark.parametrize("kind", [kind for kind in REQUIRED if kind != "default"])
def test_both_stacks_build_each_type_from_what_is_required(kind):
    from mlx_lm.models.rope_utils import initialize_rope
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    values = {**LLAMA3, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    table = {"rope_type": kind} | {name: values[name] for name in REQUIRED[kind]}
    config = model_of("x", {**LLAMA, "rope_scaling": table}, "").config
    assert config["rope_scaling"] == table
    assert LlamaRotaryEmbedding(LlamaConfig(**config)).rope_type == kind
    initialize_rope(16, config["rope_theta"], False, config["rope_scaling"], config["max_position_embeddings"])


def test_two_spellings_are_one_form_and_nulls_say_nothing():
    newer = {"rope_parameters": {**LLAMA3, "factor": 8, "rope_theta": 5, "beta_fast": None}}
    older = {"rope_theta": 5, "rope_scaling": {**without("rope_type"), "type": "llama3", "finetuned": True}}
    assert classic_rope(newer) == classic_rope(older) == {"rope_theta": 5, "rope_scaling": LLAMA3}


def test_no_scaling_is_no_table():
    assert classic_rope({"a": 1, "rope_scaling": {"rope_type": "default", "rope_theta": 3.0}}) == {"a": 1, "rope_theta": 3.0}
    assert list(rope_faults({}, 16)) == []
