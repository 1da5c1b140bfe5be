"""Reading an exported graph, and MLX's order of evaluation."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from predict.mlx_traced import exported

from bench.predict import mlx_graph
from bench.predict.mlx_graph import Array, Graph, NotExported, Operation, evaluation_order, export
from bench.predict.mlx_step import Step


def chain(*names: str) -> Graph:
    """One operation after another; the last is the only result but for two idle scalars."""
    graph, array = Graph(), Array((4,), 4)
    graph.arguments = [array]
    for name in names:
        following = Array((4,), 4)
        graph.tape.append(Operation(name, [], [array], [following]))
        array = following
    graph.results = [Array((), 4), Array((), 4), array]
    return graph


def test_reading_keeps_shapes_constants_and_makers() -> None:
    graph = exported(lambda x: [mx.exp(x * 3.0)], mx.zeros((2, 5), mx.bfloat16))
    assert [operation.name for operation in graph.tape] == ["Broadcast", "Multiply", "Exp"]
    (result,) = graph.results
    assert (result.shape, result.itemsize, result.size, result.nbytes) == ((2, 5), 2, 10, 20)
    assert result.maker is graph.tape[-1]
    assert [constant.is_constant for constant in graph.constants] == [True]
    assert graph.arguments[0].maker is None


def test_equal_operations_are_one() -> None:
    graph = exported(lambda x: [mx.exp(x) + mx.exp(x)], mx.zeros((3,)))
    assert [operation.name for operation in graph.tape] == ["Exp", "Add"]


def test_a_depends_of_one_output_stands_for_a_checkpointed_block() -> None:
    def block(x: Any, w: Any) -> Any:
        return [mx.depends([mx.exp(x)], [w, x])[0]]

    graph = exported(block, mx.zeros((3,)), mx.zeros((2,)))
    last = graph.tape[-1]
    assert last.name == "CustomTransforms"
    assert [given.shape for given in last.inputs] == [(2,), (3,), (3,)]
    assert last.inputs[-1].maker is graph.tape[0]


def test_a_chain_is_evaluated_from_its_beginning() -> None:
    graph = chain("Sin", "Cos", "Exp")
    assert [operation.name for operation in evaluation_order(graph)] == ["Sin", "Cos", "Exp"]


def test_what_no_result_needs_is_not_evaluated() -> None:
    graph = chain("Sin", "Cos")
    Operation("Exp", [], [graph.arguments[0]], [Array((4,), 4)])
    assert [operation.name for operation in evaluation_order(graph)] == ["Sin", "Cos"]


def test_the_order_is_breadth_first_from_the_results_up_to_a_width(monkeypatch: Any) -> None:
    """Two chains of three under one sum: level by level, or, one node wide, the second chain first to its end."""
    graph, given, ends = Graph(), Array((4,), 4), []
    for side in "ab":
        array = given
        for step in "123":
            following = Array((4,), 4)
            graph.tape.append(Operation(side + step, [], [array], [following]))
            array = following
        ends.append(array)
    total = Array((4,), 4)
    Operation("Add", [], ends, [total])
    graph.results = [Array((), 4), Array((), 4), total]
    assert [operation.name for operation in evaluation_order(graph)] == ["b1", "a1", "b2", "a2", "b3", "a3", "Add"]
    monkeypatch.setattr(mlx_graph, "WIDTH", 1)
    assert [operation.name for operation in evaluation_order(graph)] == ["b1", "b2", "b3", "a1", "a2", "a3", "Add"]


def test_every_operation_follows_those_it_needs() -> None:
    def wide(x: Any) -> Any:
        parts = [mx.exp(x + i) for i in range(60)]
        return [parts[0], parts[1], sum(part * parts[0] for part in parts)]

    order = evaluation_order(exported(wide, mx.zeros((3,))))
    place = {operation: at for at, operation in enumerate(order)}
    assert len(place) == len(order) > 100
    for operation in order:
        assert all(place[given.maker] < place[operation] for given in operation.inputs if given.maker is not None)


def test_what_mlx_cannot_write_down_is_said() -> None:
    def function(x: Any) -> Any:
        return [mx.checkpoint(mx.exp)(x)]

    with pytest.raises(NotExported, match="CustomTransforms"):
        export(Step(function, [mx.zeros((2,))], ["weights"], [False], ["overhead"]))
