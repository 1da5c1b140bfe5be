"""The primitives that MLX has on a GPU alone, put into a graph that was exported on a machine without one.

In: the functions of MLX that compute by one primitive on a GPU and by a dozen on the CPU (RMS norm, rotary embedding, cross
entropy), and a graph. Out: stand-ins for the functions while a step is traced, and the graph with the GPU's primitives in place
of the stand-ins. So a Mac's step is predicted the same on every machine.

Each stand-in is an operation that no step has otherwise, whose derivative keeps what the GPU's keeps: `Maximum(x, w)`, which
becomes `RMSNorm`, and its comparisons `RMSNormVJP`; a cumulative sum, linear and as wide as its input, which becomes `RoPE` both
ways; a gather from `Minimum(logits, 1)`, which becomes `CrossEntropy`, its scatter `CrossEntropyVJP`. Sources: mlx/fast.cpp
(`rms_norm`, `rope`, `cross_entropy` and their `vjp`), mlx/nn/losses.py.

Attention has no primitive there: in training Metal computes it by plain operations, scores of length × length, both ways, "faster
… for both forward and backward" (`ScaledDotProductAttention::use_fallback` of mlx/backend/metal/scaled_dot_product_attention.cpp,
where `is_training`), which is what the CPU does too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.predict.mlx_graph import Array, Graph, Operation


@contextmanager
def stand_ins() -> Iterator[None]:
    """While a step is traced. Puts the functions of MLX back afterwards."""
    import mlx.core as mx
    from mlx import nn

    places = [(mx.fast, "rms_norm", _rms_norm), (mx.fast, "rope", _rope), (nn.losses, "cross_entropy", _cross_entropy)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, function in places:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def _rms_norm(x: Any, weight: Any, eps: float, **_: Any) -> Any:
    import mlx.core as mx

    return mx.maximum(x, mx.array(1, x.dtype) if weight is None else weight)


def _rope(a: Any, dims: int, **_: Any) -> Any:
    import mlx.core as mx

    return mx.cumsum(a, axis=-1)


def _cross_entropy(logits: Any, targets: Any, **_: Any) -> Any:
    import mlx.core as mx

    chosen = mx.take_along_axis(mx.minimum(logits, 1), mx.expand_dims(targets, -1), -1)
    return chosen.squeeze(-1).astype(mx.float32).astype(logits.dtype)


def as_on_gpu(graph: Graph) -> Graph:
    """The graph of a step traced with `stand_ins`, as a GPU would have it; changes the one given."""
    rewriting = _Rewriting(graph)
    for operation in list(graph.tape):
        rewriting.rewrite(operation)
    rewriting.finish()
    return graph


class _Rewriting:
    """One pass. A replaced array keeps its place as an input; only its maker changes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._users = dict[Array, list[Operation]]()
        for operation in graph.tape:
            for given in operation.inputs:
                self._users.setdefault(given, []).append(operation)
        self._norms = dict[tuple[Array, Array, Array], Operation]()
        self._losses = dict[Array, tuple[Array, Array]]()
        self._made = dict[Operation, Operation]()

    def rewrite(self, operation: Operation) -> None:
        rule = {
            "Scan": self._rotary,
            "Maximum": self._norm,
            "Greater": self._norm_back,
            "LessEqual": self._norm_weight_back,
            "Minimum": self._loss,
            "ScatterAxis": self._loss_back,
        }.get(operation.name)
        if rule is not None:
            rule(operation)

    def finish(self) -> None:
        """The tape with each new operation where the one stood whose output it makes, less what nothing needs any more."""
        tape = [self._made.get(operation, operation) for operation in self._graph.tape]
        needed, waiting = set[Operation](), [array.maker for array in self._graph.results]
        while waiting:
            maker = waiting.pop()
            if maker is not None and maker not in needed:
                needed.add(maker)
                waiting += [given.maker for given in maker.inputs]
        self._graph.tape = [operation for operation in dict.fromkeys(tape) if operation in needed]

    def _replace(self, old: Operation, new: Operation) -> None:
        self._made[old] = new

    def _only(self, array: Array, *names: str) -> Operation | None:
        return next((user for user in self._users.get(array, []) if user.name in names), None)

    def _rotary(self, operation: Operation) -> None:
        self._replace(operation, Operation("RoPE", [], operation.inputs, operation.outputs))

    def _norm(self, operation: Operation) -> None:
        given, weight = operation.inputs[0], _unbroadcast(operation.inputs[1])
        self._replace(operation, Operation("RMSNorm", [], [given, weight], operation.outputs))

    def _norm_back(self, operation: Operation) -> None:
        """Greater(x, w) masks the cotangent: that product is the gradient along x."""
        product, cotangent = self._masked(operation)
        if product is None or cotangent is None:
            return
        given, weight = operation.inputs[0], _unbroadcast(operation.inputs[1])
        sums = Array(weight.shape, weight.itemsize)
        back = Operation("RMSNormVJP", [], [given, weight, cotangent], [sums, product.outputs[0]])
        self._norms[given, operation.inputs[1], cotangent] = back
        self._replace(product, back)

    def _norm_weight_back(self, operation: Operation) -> None:
        """LessEqual(x, w) masks the cotangent: that product summed over all rows is the weight's gradient."""
        product, cotangent = self._masked(operation)
        if product is None or cotangent is None:
            return
        back = self._norms.get((operation.inputs[0], operation.inputs[1], cotangent))
        summed = self._only(product.outputs[0], "Reduce")
        if back is None or summed is None:
            return
        last = self._only(summed.outputs[0], "Squeeze", "Reshape") or summed
        back.outputs[0] = last.outputs[0]
        last.outputs[0].maker = back

    def _masked(self, comparison: Operation) -> tuple[Operation | None, Array | None]:
        mask = comparison.outputs[0]
        cast = self._only(mask, "AsType")
        mask = mask if cast is None else cast.outputs[0]
        product = self._only(mask, "Multiply")
        if product is None:
            return None, None
        return product, next(given for given in product.inputs if given is not mask)

    def _loss(self, operation: Operation) -> None:
        logits = operation.inputs[0]
        gathered = self._only(operation.outputs[0], "GatherAxis")
        squeezed = self._only(gathered.outputs[0], "Squeeze") if gathered else None
        if gathered is None or squeezed is None:
            return
        targets = _before(gathered.inputs[1], "ExpandDims")
        last = (self._only(squeezed.outputs[0], "AsType") if logits.itemsize < 4 else None) or squeezed
        self._losses[logits] = targets, last.outputs[0]
        self._replace(last, Operation("CrossEntropy", [], [logits, targets], last.outputs))

    def _loss_back(self, operation: Operation) -> None:
        """The scattered cotangent, masked by a comparison of the logits."""
        product = self._only(operation.outputs[0], "Multiply")
        if product is None:
            return
        mask = next(given for given in product.inputs if given is not operation.outputs[0])
        comparison = _before(mask, "AsType").maker
        logits = comparison.inputs[0] if comparison is not None else None
        if logits is None or logits not in self._losses:
            return
        targets, loss = self._losses[logits]
        inputs = [logits, targets, loss, operation.inputs[2]]
        self._replace(product, Operation("CrossEntropyVJP", [], inputs, product.outputs))


def _before(array: Array, name: str) -> Array:
    """What an array was before an operation of that name, if one made it."""
    return array.maker.inputs[0] if array.maker is not None and array.maker.name == name else array


def _unbroadcast(array: Array) -> Array:
    return _before(array, "Broadcast")
