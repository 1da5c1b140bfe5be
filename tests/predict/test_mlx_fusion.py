"""Fusion as `mx.compile` does it."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from predict.mlx_traced import exported

from bench.predict.mlx_fusion import MAX_DEPTH, fuse


def names(function: Any, *given: Any) -> list[Any]:
    graph = fuse(exported(function, *given))
    return [operation.state if operation.name == "Compiled" else operation.name for operation in graph.tape]


X, W = mx.zeros((4, 4)), mx.zeros((4,))


def test_a_run_of_elementwise_operations_is_one() -> None:
    assert names(lambda x: [mx.exp(mx.sin(x)) + x], X) == [["Sin", "Exp", "Add"]]


def test_other_operations_part_it() -> None:
    assert names(lambda x: [mx.exp(mx.sin(x) @ x) + 1], X) == ["Sin", "Matmul", ["Exp", "Broadcast", "Add"]]


def test_what_is_used_elsewhere_too_stays_outside() -> None:
    found = names(lambda x: [mx.exp(mx.sin(x)), mx.sin(x) @ x], X)
    assert found == ["Sin", "Exp", "Matmul"]


def test_a_broadcast_used_elsewhere_too_is_copied_into_the_run() -> None:
    def function(x: Any, w: Any) -> Any:
        wide = mx.broadcast_to(w, x.shape)
        return [mx.exp(x * wide), wide @ x]

    assert names(function, X, W) == ["Broadcast", ["Broadcast", "Multiply", "Exp"], "Matmul"]


def test_results_within_a_run_are_outputs_of_it() -> None:
    def function(x: Any) -> Any:
        inner = mx.sin(x)
        return [inner, mx.exp(inner)]

    graph = fuse(exported(function, X))
    (compiled,) = graph.tape
    assert compiled.outputs == graph.results
    assert all(result.maker is compiled for result in graph.results)


def test_a_run_goes_so_deep_and_no_deeper() -> None:
    def function(x: Any) -> Any:
        for _ in range(MAX_DEPTH + 3):
            x = mx.sin(x)
        return [x]

    assert [len(state) for state in names(function, X)] == [3, MAX_DEPTH]
