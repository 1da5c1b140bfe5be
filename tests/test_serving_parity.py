"""Both stacks answer alike, and a cache of keys and values changes nothing: greedy tokens from the same weights in float32.

The held-out answer is that of torch without any cache, where every token costs a forward pass over all before it. Two mutants,
each a cache whose new positions begin at zero again, must answer otherwise.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from numpy.typing import NDArray
from smollm2 import TEXT, smollm2

from bench.backends import hf_build, hf_serve, mlx_build, mlx_serve
from bench.backends.hf import HuggingFace
from bench.data import Batches
from bench.declaration import declared
from bench.model import model_from_config
from bench.spec import Cell, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold

Ids = NDArray[np.int64]

PROMPT, WANTED = 12, 16
FAMILIES = {name: {**config, "initializer_range": 0.1} for name, config in tiny_models.FAMILIES.items()}
CLEAR = 1e-3
"""By so much the best token's logit has to lead in every test here, or rounding could decide; measured rounding is under 2e-5."""


class Deaf:
    """A session that does not listen while a model is built."""

    def progress(self, what: str) -> None: ...


def cell_of(family: str, batch_size: int = 1) -> Cell:
    asked = {"prompt_tokens": PROMPT, "generated_tokens": WANTED, "weights_dtype": "float32", "batch_size": batch_size}
    return Cell(workload(model=model_from_config(family, FAMILIES[family]), method="serve", **asked), "hf", "cpu")


@cache
def torch_model(family: str) -> Any:
    HuggingFace().prepare()
    model = hf_build.build(cell_of(family), Deaf()).eval()
    model.generation_config = hf_serve.settings(cell_of(family))
    return model


def mlx_model(family: str) -> Any:
    """mlx-lm's model with torch's weights."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    model = mlx_build.build(cell_of(family), Deaf())
    weights = dict(torch_model(family).named_parameters())
    model.load_weights([(name, mx.array(value.detach().numpy())) for name, value in weights.items()], strict=True)
    return model


def prompts(batch_size: int) -> Ids:
    return Batches(512, batch_size, PROMPT, seed=9).ids(0)


def by_torch(model: Any, ids: Ids) -> Ids:
    return hf_serve.answer(model, ids, "cpu", lambda what: None).generated


def by_mlx(model: Any, ids: Ids, wanted: int = WANTED) -> Ids:
    import mlx.core as mx

    return mlx_serve.answer(model, ids, wanted, mx.new_stream(mx.cpu), lambda what: None).generated


def without_cache(model: Any, ids: Ids) -> tuple[Ids, float]:
    """The same greedy tokens by whole forward passes, and the least lead of a chosen token's logit over the next best."""
    import torch

    held, lead = torch.from_numpy(ids), np.inf
    with torch.no_grad():
        for _ in range(WANTED):
            best = model(held, use_cache=False).logits[:, -1].topk(2)
            lead = min(lead, float((best.values[:, 0] - best.values[:, 1]).min()))
            held = torch.cat([held, best.indices[:, :1]], dim=1)
    return held[:, ids.shape[1] :].numpy(), lead


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_both_stacks_give_the_tokens_that_whole_forward_passes_give(family: str, batch_size: int) -> None:
    ids = prompts(batch_size)
    expected, lead = without_cache(torch_model(family), ids)
    assert lead > CLEAR
    assert len(np.unique(expected)) > WANTED // 2  # an answer that repeats itself would show little
    np.testing.assert_array_equal(by_torch(torch_model(family), ids), expected)
    np.testing.assert_array_equal(by_mlx(mlx_model(family), ids), expected)


def test_torch_with_positions_that_begin_anew_answers_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = torch_model("llama"), prompts(3)
    rotary = model.model.rotary_emb
    forward = rotary.forward
    monkeypatch.setattr(rotary, "forward", lambda x, position_ids: forward(x, position_ids - position_ids[:, :1]))
    assert not np.array_equal(by_torch(model, ids), without_cache(model, ids)[0])


class Anew:
    """mlx-lm's rotary embedding, deaf to what lies in the cache."""

    def __init__(self, rope: Any) -> None:
        self._rope = rope

    def __call__(self, x: Any, offset: Any = 0) -> Any:
        return self._rope(x)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_mlx_with_positions_that_begin_anew_answers_otherwise(batch_size: int) -> None:
    model, ids = mlx_model("llama"), prompts(batch_size)
    for layer in model.layers:
        layer.self_attn.rope = Anew(layer.self_attn.rope)
    assert not np.array_equal(by_mlx(model, ids), without_cache(torch_model("llama"), ids)[0])


@cache
def real_models() -> tuple[Any, Any]:
    """A real model on both stacks, its folder read by the harness's own builders.

    (mlx-lm's own `load` passes over `rope_parameters`, which transformers 5 writes, and so answers otherwise.)
    """
    import mlx.core as mx

    HuggingFace().prepare()
    mx.set_default_device(mx.cpu)
    content = {"question": "?", "sweep": {"model": [f"{smollm2()}/"], "method": ["serve"], "backend": ["hf"]}}
    said, problems = declared(content, "", Path("/"))
    assert not problems
    asked = {"prompt_tokens": 24, "generated_tokens": WANTED, "weights_dtype": "float32", "weights": "folder"}
    work = workload(model=said.sweep["model"][0], method="serve", **asked)
    left = hf_build.build(Cell(work, "hf", "cpu"), Deaf()).eval()
    left.generation_config = hf_serve.settings(Cell(work, "hf", "cpu"))
    return left, mlx_build.build(Cell(work, "mlx", "cpu"), Deaf())


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_real_model_answers_alike_on_both_stacks(batch_size: int) -> None:
    from transformers import AutoTokenizer

    left, right = real_models()
    tokenizer = AutoTokenizer.from_pretrained(smollm2())
    tokens = tokenizer(TEXT).input_ids
    ids = np.array([tokens[start : start + 24] for start in (0, 7)][:batch_size], np.int64)
    expected = by_torch(left, ids)
    assert expected.shape == (batch_size, WANTED)
    np.testing.assert_array_equal(by_mlx(right, ids), expected, tokenizer.decode(expected[0]))
