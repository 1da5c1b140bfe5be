import pytest

from bench.catalog import catalogue
from bench.model import model_from_config
from bench.spec import workload
from bench.trust.work import flops_per_token

SHAPE = {
    "vocab_size": 4096,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 64,
}
GEMMA3 = {"sliding_window": 8, "sliding_window_pattern": 3, "query_pre_attn_scalar": 32}
LENGTH = 32


def counted(family: str, tied: bool, trains: bool) -> float:
    """What torch counts of the matrix products of a sequence, a token, as transformers computes it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **SHAPE, **(GEMMA3 if family == "gemma3_text" else {}), tie_word_embeddings=tied)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    ids = torch.arange(LENGTH)[None]
    counter = FlopCounterMode(display=False)
    with counter:
        logits = model(ids, use_cache=False).logits
        if trains:
            logits.sum().backward()
    return counter.get_total_flops() / LENGTH


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3_text"])
def test_the_floor_lies_closely_under_what_is_computed(family: str, tied: bool) -> None:
    model = model_from_config("m", {"model_type": family, **SHAPE, "tie_word_embeddings": tied})
    full = flops_per_token(workload(model=model, method="full", sequence_length=LENGTH))
    served = flops_per_token(workload(model=model, method="serve"))
    assert full is not None
    assert served is not None
    assert 0.85 < full / counted(family, tied, trains=True) <= 1
    assert 0.9 < served / counted(family, tied, trains=False) <= 1


@pytest.mark.parametrize("name", ["gemma-3-1b", "gemma-3-27b", "llama-3.1-8b"])
def test_norms_which_are_counted_as_matrices_are_next_to_nothing(name: str) -> None:
    config = catalogue().models[name].config
    norms = config["num_hidden_layers"] * (4 * config["hidden_size"] + 2 * config["head_dim"])
    assert norms < catalogue().models[name].parameters / 1000


def test_of_an_unknown_architecture_nothing_is_said() -> None:
    assert flops_per_token(workload(model=model_from_config("m", {"model_type": "mamba"}), method="full")) is None
