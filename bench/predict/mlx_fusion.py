"""What `mx.compile` does to a graph: runs of elementwise operations become one kernel each, on every device alike.

In: a `Graph` as exported. Out: the same graph with `Compiled` operations in place of the runs. Follows `compile_fuse` of
mlx/compile.cpp (read as of MLX 0.29 to 0.32): from the end of the tape, each elementwise operation takes in those before it whose
every use lies within, up to 11 deep and 24 inputs; a broadcast that is also used elsewhere is copied into the run.
"""

from __future__ import annotations

from bench.predict.mlx_graph import Array, Graph, Operation, Shape

MAX_DEPTH, MAX_ARRAYS = 11, 24
"""`max_compile_depth` and `max_compile_arrays` of mlx/compile.cpp."""
UNARY = frozenset(
    {
        *("Abs", "ArcCos", "ArcCosh", "ArcSin", "ArcSinh", "ArcTan", "ArcTanh", "AsType", "Ceil", "Conjugate", "Cos"),
        *("Cosh", "Remainder", "Erf", "ErfInv", "Exp", "Expm1", "Floor", "Imag", "Log", "Log2", "Log10", "Log1p"),
        *("LogicalNot", "Negative", "Real", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Square", "Sqrt", "Rsqrt", "Tan"),
        *("Tanh", "BitwiseInvert"),
    }
)
BINARY = frozenset(
    {
        *("Add", "ArcTan2", "BitwiseAnd", "BitwiseBinary", "BitwiseOr", "BitwiseXor", "Divide", "Equal", "NaNEqual"),
        *("Greater", "GreaterEqual", "LeftShift", "Less", "LessEqual", "LogAddExp", "LogicalAnd", "LogicalOr", "Maximum"),
        *("Minimum", "Multiply", "NotEqual", "Power", "RightShift", "Subtract"),
    }
)
FUSABLE = UNARY | BINARY | {"Select", "Broadcast"}


class Fusion:
    """One pass over a graph, which it changes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._results = set(graph.results)
        self._users = dict[Array, list[Operation]]()
        for operation in graph.tape:
            for given in operation.inputs:
                self._users.setdefault(given, []).append(operation)

    def run(self) -> None:
        fused, tape = set[Operation](), list[Operation]()
        for operation in reversed(self._graph.tape):
            if operation in fused:
                continue
            members = self._members(operation)
            if len(members) <= 1:
                tape.append(operation)
                continue
            compiled, inside = self._compiled(operation, members)
            fused |= inside
            tape.append(compiled)
        self._graph.tape = tape[::-1]

    def _members(self, root: Operation) -> set[Operation]:
        if root.name == "Broadcast" or root.name not in FUSABLE:
            return set()
        members, edge = set[Operation](), set[Array]()
        self._take(root, root.outputs[0], 0, root.outputs[0].shape, members, edge)
        return members

    def _take(
        self, operation: Operation | None, array: Array, depth: int, shape: Shape, members: set[Operation], edge: set[Array]
    ) -> None:
        """Take an operation and what it can reach into the run, or its output into the run's inputs."""
        if operation is not None and operation in members:
            return
        if operation is None or not self._fits(operation, array, depth, shape):
            edge.add(array)
            return
        if depth > 0 and not all(user in members for user in self._users[array]):
            if operation.name != "Broadcast" or len(edge) >= MAX_ARRAYS:
                edge.add(array)
                return
            operation = self._split(operation, members)
            array = operation.outputs[0]
        if array in self._results:
            edge.add(array)
        else:
            edge.discard(array)
        if len(edge) >= MAX_ARRAYS:
            return
        members.add(operation)
        for given in list(operation.inputs):
            self._take(given.maker, given, depth + 1, shape, members, edge)

    def _fits(self, operation: Operation, array: Array, depth: int, shape: Shape) -> bool:
        return depth < MAX_DEPTH and operation.name in FUSABLE and (array not in self._results or array.shape == shape)

    def _split(self, operation: Operation, members: set[Operation]) -> Operation:
        """A copy of a broadcast for the users within the run."""
        array = operation.outputs[0]
        copy = Array(array.shape, array.itemsize)
        again = Operation(operation.name, operation.state, operation.inputs, [copy])
        users = self._users[array]
        self._users[copy] = [user for user in users if user in members]
        self._users[array] = [user for user in users if user not in members]
        for user in self._users[copy]:
            user.inputs = [copy if given is array else given for given in user.inputs]
        for given in again.inputs:
            self._users[given].append(again)
        return again

    def _compiled(self, root: Operation, members: set[Operation]) -> tuple[Operation, set[Operation]]:
        """The run as one operation, whose outputs are the results of the graph among its members and, last, the root's."""
        inputs, order = dict[Array, None](), dict[Operation, None]()
        waiting: list[tuple[Operation, int]] = [(root, 0)]
        entered = {root}
        while waiting:
            operation, place = waiting.pop()
            if place == len(operation.inputs):
                order[operation] = None
                continue
            waiting.append((operation, place + 1))
            given = operation.inputs[place]
            if given.maker not in members or given.maker is None:
                inputs[given] = None
            elif given.maker not in entered:
                entered.add(given.maker)
                waiting.append((given.maker, 0))
        outputs = [member.outputs[0] for member in order if member is not root and member.outputs[0] in self._results]
        compiled = Operation("Compiled", [member.name for member in order], list(inputs), [*outputs, root.outputs[0]])
        for given in inputs:
            self._users[given] = [user for user in self._users[given] if user not in members] + [compiled]
        for output in outputs:
            self._users[output] = [user for user in self._users[output] if user not in members]
        return compiled, set(order)


def fuse(graph: Graph) -> Graph:
    """The graph as `mx.compile` leaves it; changes the one given."""
    Fusion(graph).run()
    return graph
