import json

import pytest

from bench.model import FAMILIES, Model, count_parameters, digest_of, model_from_config, norm_start


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_closed_form_counts_what_transformers_builds(family, bias, tied):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": tied}
    biases = {} if family in ("mistral", "qwen2") else {"attention_bias": bias}
    if family == "llama":
        biases["mlp_bias"] = bias
    config = {**sizes, **heads, **biases}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **config))
    assert count_parameters({"model_type": family, **config}) == sum(each.numel() for each in model.parameters())


def test_no_closed_form_is_known_for_other_families():
    assert count_parameters({"model_type": "mamba"}) is None


@pytest.mark.parametrize("missing", ["hidden_size", "vocab_size", "num_hidden_layers", "intermediate_size"])
def test_a_count_needs_its_keys(missing):
    config = {"model_type": "gemma3_text", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4}
    del config[missing]
    with pytest.raises(KeyError, match=missing):
        model_from_config("m", config)


@pytest.mark.parametrize(("family", "start"), [("llama", 1.0), ("qwen3", 1.0), ("gemma2", 0.0), ("gemma3_text", 0.0)])
def test_norms_scale_by_one_where_random_weights_start(family, start):
    """Asked of transformers itself, whose own initialisation leaves norms there."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}
    norm = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, **heads)).model.norm
    assert norm_start({"model_type": family}) == start == norm.weight[0].item()
    given = torch.tensor([[1.0, -1.0] * 4])
    assert torch.allclose(norm(given), given, atol=1e-4)


def test_equal_architectures_are_equal_text_and_the_config_is_fresh_each_time():
    first = model_from_config("m", {"model_type": "x", "b": 1, "a": [2]})
    assert first == Model("m", '{"a":[2],"b":1,"model_type":"x"}')
    first.config["a"] = 3
    assert json.loads(first.architecture)["a"] == [2]
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 2, "b": 1})
