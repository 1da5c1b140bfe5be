"""A Mac's primitives in a graph exported without one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from tiny_models import LLAMA, QWEN3

from bench.model import model_from_config
from bench.predict.mlx import _graph
from bench.predict.mlx_graph import Graph, evaluation_order
from bench.predict.mlx_metal import stand_ins
from bench.spec import Cell, workload

STAND_INS = {"Maximum", "Minimum", "Greater", "LessEqual", "Scan", "GatherAxis", "ScatterAxis"}


def graph_of(config: dict[str, Any], **declared: Any) -> Graph:
    shape = {"batch_size": 2, "sequence_length": 16, "rank": 4}
    work = workload(model=model_from_config("tiny", config), **{**shape, **declared})
    return _graph(Cell(work, "mlx", "metal"), on_cpu=False)


@pytest.mark.parametrize(
    ("config", "declared", "norms", "norms_back", "rotary"),
    [
        (LLAMA, {"method": "full", "gradient_checkpointing": False}, 5, 5, 8),
        (LLAMA, {"method": "full", "weights_dtype": "float32"}, 9, 5, 12),
        (QWEN3, {"method": "full", "gradient_checkpointing": False}, 9, 9, 8),
        (LLAMA, {"method": "lora"}, 9, 4, 12),  # nothing below the first block's norm learns
    ],
)
def test_every_norm_rotation_and_loss_is_one_primitive(
    config: dict[str, Any], declared: dict[str, Any], norms: int, norms_back: int, rotary: int
) -> None:
    """Two blocks: two norms (Qwen3: four) each and one behind; q and k rotated, forward, again where checkpointed, backward."""
    order = evaluation_order(graph_of(config, **declared))
    found = Counter(operation.name for operation in order)
    kinds = ("RMSNorm", "RMSNormVJP", "RoPE", "CrossEntropy", "CrossEntropyVJP")
    assert [found[kind] for kind in kinds] == [norms, norms_back, rotary, 1, 1]
    assert not STAND_INS & set(found) - {"LessEqual"}


def test_gradients_take_the_shapes_they_have() -> None:
    graph = graph_of(LLAMA, method="full")
    for operation in graph.tape:
        if operation.name == "RMSNormVJP":
            sums, along = operation.outputs
            given, weight, cotangent = operation.inputs
            assert sums.shape == weight.shape == (64,)
            assert along.shape == given.shape == cotangent.shape == (2, 16, 64)
        if operation.name == "CrossEntropyVJP":
            assert operation.outputs[0].shape == operation.inputs[0].shape == (2, 16, 512)
            assert operation.inputs[1].shape == (2, 16)


def test_the_functions_are_put_back() -> None:
    before = mx.fast.rms_norm, mx.fast.rope, nn.losses.cross_entropy
    with stand_ins():
        assert all(now is not then for now, then in zip((mx.fast.rms_norm, mx.fast.rope), before, strict=False))
    assert (mx.fast.rms_norm, mx.fast.rope, nn.losses.cross_entropy) == before


def test_the_same_graph_comes_again() -> None:
    first, second = (graph_of(LLAMA, method="lora") for _ in range(2))
    assert [operation.name for operation in first.tape] == [operation.name for operation in second.tape]
