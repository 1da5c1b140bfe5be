"""The lazy graph of a function of MLX, written down without evaluating anything.

In: a `mlx_step.Step`. Out: a `Graph` of plain Python objects: arrays with their shapes, operations with their inputs, in MLX's
own order. `mx.export_function` hands a function's graph over, primitive by primitive, after the same simplification that
`mx.compile` begins with (equal scalars and equal operations merged, no-ops dropped).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from bench.predict.mlx_step import Step

Shape = tuple[int, ...]


class Array:
    """A node's value: its shape and bytes an element.

    `part` names what an argument or a result is, None for what lies between. `maker` is None for arguments and constants. The
    simulation keeps the uses still to come, the buffer and the layout there.
    """

    __slots__ = ("buffer", "is_constant", "itemsize", "layout", "maker", "part", "shape", "size", "uses")

    def __init__(self, shape: Iterable[int], itemsize: int, part: str | None = None) -> None:
        self.shape: Shape = tuple(shape)
        self.size = prod(self.shape)
        self.itemsize = itemsize
        self.part = part
        self.maker: Operation | None = None
        self.is_constant = False
        self.uses = 0
        self.buffer: Any = None
        self.layout: Any = None

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize


class Operation:
    """One primitive: its name in MLX, its state as exported, its inputs and outputs."""

    __slots__ = ("inputs", "name", "outputs", "state")

    def __init__(self, name: str, state: Any, inputs: list[Array], outputs: list[Array]) -> None:
        self.name, self.state, self.inputs, self.outputs = name, state, inputs, outputs
        for output in outputs:
            output.maker = self


class Graph:
    """`tape` is in an order in which every operation follows those that it needs."""

    __slots__ = ("arguments", "constants", "donated", "results", "tape")

    def __init__(self) -> None:
        self.arguments: list[Array] = []
        self.donated: list[bool] = []
        self.constants: list[Array] = []
        self.results: list[Array] = []
        self.tape: list[Operation] = []


class NotExported(ValueError):
    """MLX cannot write a step's graph down, or is too old to hand it over."""


def export(step: Step) -> Graph:
    """The graph of a step. Raises NotExported."""
    import mlx.core as mx

    events: list[Mapping[str, Any]] = []
    try:
        mx.export_function(events.append, step.function, *step.arguments)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:  # no such function, no callback, no such primitive
        raise NotExported(str(error)) from error
    graph = read(events)
    graph.donated = step.donated
    for array, part in zip(graph.arguments, step.parts, strict=True):
        array.part = part
    for array, part in zip(graph.results, step.results, strict=True):
        array.part = part
    return graph


def read(events: Iterable[Mapping[str, Any]]) -> Graph:
    """The graph that `mx.export_function` told to its callback."""
    graph, known, results = Graph(), dict[str, Array](), list[Any]()

    def arrays(told: Iterable[tuple[str, Iterable[int], Any]]) -> list[Array]:
        return [known.setdefault(name, Array(shape, dtype.size)) for name, shape, dtype in told]

    for event in events:
        kind = event["type"]
        if kind == "inputs":
            graph.arguments = arrays(event["inputs"])
        elif kind == "constants":
            graph.constants += arrays((name, value.shape, value.dtype) for name, value in event["constants"])
        elif kind == "outputs":
            results = event["outputs"]
        elif kind == "primitive":
            graph.tape.append(_operation(event["name"], event["arguments"], arrays(event["inputs"]), arrays(event["outputs"])))
    for constant in graph.constants:
        constant.is_constant = True
    graph.results = arrays(results)
    return graph


def _operation(name: str, state: Any, inputs: list[Array], outputs: list[Array]) -> Operation:
    """As exported, but for the `Depends` of one output: that stands for a checkpointed block's `CustomTransforms`.

    Its inputs are the block's and then, last, the block's output (mlx/transforms.cpp, `custom_function`), which
    the order of evaluation follows.
    """
    if name == "Depends" and len(outputs) == 1:
        return Operation("CustomTransforms", state, inputs[1:] + inputs[:1], outputs)
    return Operation(name, state, inputs, outputs)


WIDTH = 20
"""`MLX_BFS_MAX_WIDTH`: how wide the tape of an evaluation grows before it goes deeper (mlx/transforms.cpp, `eval_impl`)."""


def evaluation_order(graph: Graph) -> list[Operation]:
    """The order in which `mx.eval` of the results, in mlx-lm's order (state, then loss and tokens), evaluates the graph.

    As `eval_impl` of mlx/transforms.cpp: uses are counted depth first; then, from the results back, breadth first up to `WIDTH`
    nodes ahead, each node once the last use of it has been seen; the tape so made is evaluated from its end.
    """
    last = Operation("Synchronize", None, graph.results[2:] + graph.results[:2], [Array((), 1)])
    uses = _uses(last)
    tape, at, deeper = [last], 0, list[tuple[Operation, int]]()
    while uses and (at < len(tape) or deeper):
        if at < len(tape):
            operation, start = tape[at], 0
            at += 1
        else:
            operation, start = deeper.pop()
        for place in range(start, len(operation.inputs)):
            maker = operation.inputs[place].maker
            if maker is None:
                continue
            if len(tape) - at >= WIDTH:
                deeper.append((operation, place))
                break
            uses[maker] -= 1
            if uses[maker] == 0:
                del uses[maker]
                tape.append(maker)
    return tape[:0:-1]


def _uses(last: Operation) -> dict[Operation, int]:
    """How often each operation's outputs are inputs of what is needed for `last`."""
    uses = dict[Operation, int]()
    waiting = [last]
    while waiting:
        for given in waiting.pop().inputs:
            maker = given.maker
            if maker is None:
                continue
            if maker not in uses:
                uses[maker] = 0
                waiting.append(maker)
            uses[maker] += 1
    return uses
