"""The step written out computes what mlx-lm's own does, and nothing is allocated for it."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.trainer import default_loss, grad_checkpoint
from tiny_models import GEMMA3, LLAMA, QWEN3

from bench.model import model_from_config
from bench.predict import mlx_step
from bench.predict.mlx_step import loss_and_gradients
from bench.spec import Cell, Workload, workload


def work_of(config: dict[str, Any], **declared: Any) -> Workload:
    shape = {"batch_size": 2, "sequence_length": 12, "rank": 4, "weights_dtype": "float32"}
    return workload(model=model_from_config("tiny", config), **{**shape, **declared})


def model_of(work: Workload) -> Any:
    """With random weights: zeros would have no gradients to compare."""
    model = mlx_step.build(work)
    mx.random.seed(1)
    named = tree_flatten(model.parameters())
    model.load_weights([(name, 0.1 * mx.random.normal(value.shape)) for name, value in named], strict=False)
    return model


def batch_of(work: Workload) -> tuple[Any, Any]:
    ids = np.random.default_rng(0).integers(0, 512, (work.batch_size, work.sequence_length + 1)).astype(np.int32)
    return mx.array(ids), mx.array([[1, work.sequence_length - 1]] * work.batch_size)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    ("config", "declared"),
    [
        (LLAMA, {"method": "full"}),
        (LLAMA, {"method": "lora", "adapter_layers": 1}),
        (QWEN3, {"method": "full"}),
        (GEMMA3, {"method": "lora"}),
    ],
)
def test_loss_and_gradients_are_those_of_mlx_lm(config: dict[str, Any], declared: dict[str, Any], checkpointing: bool) -> None:
    work = work_of(config, **declared)
    batch = batch_of(work)
    model = model_of(work)
    kind = type(model.layers[0])
    before = kind.__call__
    (loss, tokens), gradients = loss_and_gradients(model, *batch, checkpointing)
    mx.eval(loss, tokens, gradients)
    assert kind.__call__ is before

    theirs = model_of(work)
    if checkpointing:
        grad_checkpoint(theirs.layers[0])
    try:
        (wanted, wanted_tokens), wanted_gradients = nn.value_and_grad(theirs, default_loss)(theirs, *batch)
        mx.eval(wanted, wanted_tokens, wanted_gradients)
    finally:
        kind.__call__ = before
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-6)
    assert tokens.item() == wanted_tokens.item() == 22
    found = dict(tree_flatten(gradients))
    expected = dict(tree_flatten(wanted_gradients))
    assert {name for name, value in expected.items() if value.size} == set(found)
    for name, value in found.items():
        assert mx.allclose(value, expected[name], rtol=1e-4, atol=1e-6), name
    assert any(mx.abs(value).max().item() > 1e-4 for value in found.values())


def test_a_model_of_eight_billion_parameters_takes_no_memory() -> None:
    config = {
        **LLAMA,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 2,
        "vocab_size": 128256,
        "head_dim": 128,
    }
    work = work_of(config, method="qlora", weights_dtype="bfloat16")
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    step = mlx_step.training_step(Cell(work, "mlx", "cpu"))
    assert mx.get_peak_memory() - before < 1e6
    assert sum(value.nbytes for value in step.arguments) > 2e9


def test_arguments_and_results_are_named() -> None:
    step = mlx_step.training_step(Cell(work_of(LLAMA, method="lora", gradient_accumulation=2), "mlx", "cpu"))
    assert {"weights", "adapters", "optimizer", "gradients", "overhead"} == set(step.parts)
    assert len(step.parts) == len(step.arguments) == len(step.donated)
    assert [part for part, donated in zip(step.parts, step.donated, strict=True) if donated] == (
        ["adapters"] * step.parts.count("adapters") + ["optimizer"] * step.parts.count("optimizer") + ["gradients"] * 28
    )
    results = step.function(*step.arguments)
    assert len(results) == len(step.results)
