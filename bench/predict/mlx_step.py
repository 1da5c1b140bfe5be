"""mlx-lm's training step as one pure function over a model that is never evaluated.

In: a cell. Out: a `Step`: the function, its arguments in order with what each of them is, and which of them the step may write
over. The model is the backend's own (`bench.backends.mlx_build`), lazy throughout, so that nothing is allocated; loss, optimizer
and adapters are those of `bench.backends.mlx_train` and mlx-lm.

`mx.checkpoint` leaves a node in the graph that `mx.export_function` cannot write down, so gradient checkpointing is spelt out
with `mx.vjp`, block by block: each block's output depends on its inputs by a `Depends`, which `mlx_graph` takes for that node,
and each block is computed again from inputs that depend on its output, as `mlx::core::checkpoint` does (mlx/transforms.cpp). A
test compares loss and gradients with mlx-lm's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.backends import mlx_build, mlx_train
from bench.spec import Cell, Workload

Arrays = list[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """`function(*arguments)` gives the loss, its number of tokens, then every array that the step leaves behind.

    `parts` names what each argument is (of `prediction.PARTS`), `donated` says whether nothing else holds it while the step is
    evaluated. `results` names the parts of what comes out.
    """

    function: Callable[..., Arrays]
    arguments: Arrays
    parts: list[str]
    donated: list[bool]
    results: list[str]


def build(workload: Workload) -> Any:
    """The model as the backend trains it, with adapters, all of its arrays lazy. Raises as `mlx_build.build`."""
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_map

    model = mlx_build.empty_model(workload)
    dtype = mlx_build.dtype_of(workload.weights_dtype)
    model.update(tree_map(lambda value: mx.zeros(value.shape, dtype), model.parameters()))
    if workload.quantization_bits is not None:
        nn.quantize(
            model, mlx_build.GROUP_SIZE, workload.quantization_bits, mode="affine", class_predicate=mlx_build.is_quantized
        )
    if workload.serves:
        model.freeze()
    else:
        mlx_build.add_adapters(model, workload)
    _evaluate_constants(model)
    model.train()
    return model


def _evaluate_constants(model: Any) -> None:
    """Rotary frequencies and their like, which no parameter tree names: small, and at hand from the second step on."""
    import mlx.core as mx

    for _, module in model.named_modules():
        mx.eval([value for name, value in module.items() if name.startswith("_") and isinstance(value, mx.array)])


def training_step(cell: Cell) -> Step:
    """The step that updates the weights: with accumulation the last micro-batch, which adds to the gradients before it."""
    import mlx.core as mx
    from mlx.utils import tree_flatten, tree_unflatten

    workload = cell.workload
    model = build(workload)
    optimizer = mlx_train.make_optimizer(workload)
    trainable = tree_flatten(model.trainable_parameters())
    optimizer.init(model.trainable_parameters())
    named, state = tree_flatten(model.parameters()), tree_flatten(optimizer.state)
    learnt = {name for name, _ in trainable}
    accumulated = trainable if workload.gradient_accumulation > 1 else []
    batch = [
        mx.zeros((workload.batch_size, workload.sequence_length + 1), mx.int32),
        mx.zeros((workload.batch_size, 2), mx.int32),
    ]

    def function(*given: Any) -> Arrays:
        left = iter(given)
        parameters = tree_unflatten([(name, next(left)) for name, _ in named])
        model.update(parameters)
        optimizer.state = tree_unflatten([(name, next(left)) for name, _ in state])
        earlier = {name: next(left) for name, _ in accumulated}
        (loss, tokens), gradients = loss_and_gradients(model, next(left), next(left), workload.gradient_checkpointing)
        model.update(parameters)
        optimizer.update(model, _accumulated(gradients, earlier, workload.gradient_accumulation))
        after = tree_flatten(model.parameters()) + tree_flatten(optimizer.state)
        return [loss, tokens, *(value for _, value in after)]

    weights = ["adapters" if workload.has_adapters and name in learnt else "weights" for name, _ in named]
    return Step(
        function=function,
        arguments=[value for _, value in [*named, *state, *accumulated]] + batch,
        parts=weights + ["optimizer"] * len(state) + ["gradients"] * len(accumulated) + ["overhead"] * len(batch),
        donated=[name in learnt for name, _ in named] + [True] * (len(state) + len(accumulated)) + [False] * len(batch),
        results=["overhead"] * 2 + weights + ["optimizer"] * len(state),
    )


def _accumulated(gradients: Any, earlier: dict[str, Any], micro_batches: int) -> Any:
    """As mlx-lm's step does: the new ones plus those so far, over their number."""
    from mlx.utils import tree_flatten, tree_unflatten

    if not earlier:
        return gradients
    return tree_unflatten([(name, (value + earlier[name]) / micro_batches) for name, value in tree_flatten(gradients)])


def loss_and_gradients(model: Any, batch: Any, lengths: Any, checkpointing: bool) -> tuple[tuple[Any, Any], Any]:
    """mlx-lm's `default_loss`, its number of tokens, and the tree of gradients of the trainable parameters.

    `batch`: int32 (batch, length + 1); `lengths`: int32 (batch, 2). The parameters of the model are replaced on the way: the
    caller puts them back.
    """
    from mlx import nn
    from mlx.utils import tree_unflatten
    from mlx_lm.tuner.trainer import default_loss

    if not checkpointing:
        (loss, tokens), gradients = nn.value_and_grad(model, default_loss)(model, batch, lengths)
        return (loss, tokens), gradients
    found = _Checkpointed(model, lambda: default_loss(model, batch, lengths))
    return (found.loss, found.tokens), tree_unflatten(found.gradients())


@dataclass
class _Block:
    """One call of a block: what it was given, and what it gave."""

    layer: Any
    rest: tuple[Any, ...]
    named: dict[str, Any]
    names: list[str]
    given: Arrays
    output: Any

    def __call__(self, *given: Any) -> Any:
        from mlx.utils import tree_unflatten

        self.layer.update(tree_unflatten(list(zip(self.names, given[:-1], strict=True))))
        return _original(self.layer)(self.layer, given[-1], *self.rest, **self.named)


class _Checkpointed:
    """The loss of a model whose blocks are checkpointed, and its gradients: head first, then block by block, embedding last.

    The blocks have to follow one another, each on the output of the one before, as they do in mlx-lm's models.
    """

    def __init__(self, model: Any, loss: Callable[[], tuple[Any, Any]]) -> None:
        self._model, self._loss, self._blocks = model, loss, list[_Block]()
        with _blocks_as(model, self._record):
            self.loss, self.tokens = loss()

    def _record(self, layer: Any, hidden: Any, *rest: Any, **named: Any) -> Any:
        import mlx.core as mx
        from mlx.utils import tree_flatten

        own = tree_flatten(layer.trainable_parameters())
        given = [value for _, value in own] + [hidden]
        block = _Block(layer, rest, named, [name for name, _ in own], given, None)
        block.output = mx.depends([block(*given)], given)[0]
        layer.update(_tree(own))
        self._blocks.append(block)
        return block.output

    def gradients(self) -> list[tuple[str, Any]]:
        import mlx.core as mx

        outer, (loss, cotangent) = self._head()
        self.loss = loss
        found = dict(outer)
        paths = {id(layer): path for path, layer in self._model.named_modules()}
        for block in reversed(self._blocks):
            given = mx.depends(block.given, [block.output])
            _, back = mx.vjp(block, given, [cotangent])
            cotangent = back[-1]
            found |= {f"{paths[id(block.layer)]}.{name}": value for name, value in zip(block.names, back[:-1], strict=True)}
        for name, value in self._embedding(cotangent):
            found[name] = found[name] + value if self._is_tied else value
        return [(name, found[name]) for name, _ in self._trainable()]

    @property
    def _is_tied(self) -> bool:
        """Whether the embedding is the head too; mlx-lm's models have an `lm_head` otherwise."""
        return "lm_head" not in self._model

    def _trainable(self) -> list[tuple[str, Any]]:
        from mlx.utils import tree_flatten

        return list(tree_flatten(self._model.trainable_parameters()))

    def _outer(self) -> list[tuple[str, Any]]:
        """Trainable parameters outside the blocks."""
        inside = {id(value) for block in self._blocks for value in block.given[:-1]}
        return [(name, value) for name, value in self._trainable() if id(value) not in inside]

    def _head(self) -> tuple[list[tuple[str, Any]], tuple[Any, Any]]:
        """Gradients from the last block's output on: of the outer parameters, and (loss, cotangent of that output)."""
        import mlx.core as mx

        outer = self._outer()

        def head(*given: Any) -> Any:
            self._model.update(_tree([(name, value) for (name, _), value in zip(outer, given[:-1], strict=True)]))
            with _blocks_as(self._model, lambda *_, **__: given[-1]):
                return self._loss()[0]

        (loss,), back = mx.vjp(head, [value for _, value in outer] + [self._blocks[-1].output], [mx.array(1.0)])
        self._model.update(_tree(outer))
        return [(name, value) for (name, _), value in zip(outer, back[:-1], strict=True)], (loss, back[-1])

    def _embedding(self, cotangent: Any) -> list[tuple[str, Any]]:
        """What reaches the outer parameters through the first block's input; nothing where all of them are frozen."""
        import mlx.core as mx

        outer = [(name, value) for name, value in self._outer() if "embed" in name]
        if not outer:
            return []

        def embed(*given: Any) -> Any:
            self._model.update(_tree([(name, value) for (name, _), value in zip(outer, given, strict=True)]))
            seen: Arrays = []

            def note(_: Any, hidden: Any, *__: Any, **___: Any) -> Any:
                seen.append(hidden)
                return hidden

            with _blocks_as(self._model, note):
                self._loss()
            return seen[0]

        _, back = mx.vjp(embed, [value for _, value in outer], [cotangent])
        self._model.update(_tree(outer))
        return [(name, value) for (name, _), value in zip(outer, back, strict=True)]


def _tree(named: list[tuple[str, Any]]) -> Any:
    from mlx.utils import tree_unflatten

    return tree_unflatten(named) if named else {}


_CALLS: dict[type, Any] = {}
"""What the classes of blocks do when called, while a call stands in for it."""


def _original(layer: Any) -> Any:
    return _CALLS.get(type(layer), type(layer).__call__)


@contextmanager
def _blocks_as(model: Any, call: Callable[..., Any]) -> Iterator[None]:
    """Every block computed by `call(block, hidden, …)` in place of its own class's call."""
    kind = type(model.layers[0])
    outermost, before = kind not in _CALLS, kind.__call__
    if outermost:
        _CALLS[kind] = before

    def stand_in(layer: Any, *given: Any, **named: Any) -> Any:
        return call(layer, *given, **named)  # a function of the class, which a bound method would not be

    kind.__call__ = stand_in
    try:
        yield
    finally:
        kind.__call__ = before
        if outermost:
            del _CALLS[kind]
