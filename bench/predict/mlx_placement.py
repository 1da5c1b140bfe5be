"""What each of MLX's primitives stores, shares, writes over and copies when it is evaluated.

In: an operation and a `Store`. Out: the operation's outputs placed, and the number of tasks that it hands to its device's queue.
The rules are those of mlx/backend/common (unary.h, binary.h, ternary.h, copy.h, compiled.cpp, common.cpp) and of the primitives
of mlx/backend/cpu and mlx/backend/metal; those of the CPU were checked one by one against measured peaks.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.predict import mlx_elementwise, mlx_layout
from bench.predict.mlx_fusion import BINARY, UNARY
from bench.predict.mlx_graph import Array, Operation
from bench.predict.mlx_layout import Store


class UnknownPrimitive(ValueError):
    """An operation whose storage is not known here."""


def place(operation: Operation, store: Store) -> int:
    """Place the outputs. Raises UnknownPrimitive."""
    rule = RULES.get(operation.name)
    if rule is None:
        raise UnknownPrimitive(f"what MLX's primitive {operation.name} stores is not known")
    return rule(operation, store)


def _fresh(operation: Operation, store: Store) -> int:
    for output in operation.outputs:
        store.fresh(output)
    return 1


def _alias(operation: Operation, store: Store) -> int:
    """Every output is the input of its place."""
    for output, given in zip(operation.outputs, operation.inputs, strict=False):
        store.share(output, given, given.layout)
    return 0


def _custom_transforms(operation: Operation, store: Store) -> int:
    """The outputs are the last inputs."""
    for output, given in zip(operation.outputs, operation.inputs[-len(operation.outputs) :], strict=True):
        store.share(output, given, given.layout)
    return 0


def _transpose(operation: Operation, store: Store) -> int:
    (given,), (output,) = operation.inputs, operation.outputs
    store.share(output, given, mlx_layout.transposed(given.layout, output.shape, operation.state[0]))
    return 0


def _broadcast(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    store.share(output, given, mlx_layout.broadcast(given.layout, given.shape, output.shape))
    return 0


def _expand_dims(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    store.share(output, given, mlx_layout.expanded(given.layout, operation.state[0]))
    return 0


def _squeeze(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    store.share(output, given, mlx_layout.squeezed(given.layout, operation.state[0]))
    return 0


def _slice(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    store.share(output, given, mlx_layout.sliced(given.layout, output.shape, operation.state[2]))
    return 0


def _split(operation: Operation, store: Store) -> int:
    given = operation.inputs[0]
    for output in operation.outputs:
        store.share(output, given, mlx_layout.sliced(given.layout, output.shape, (1,) * len(output.shape)))
    return 0


def _reshape(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    layout = mlx_layout.reshaped(given.layout, given.shape, output.shape)
    if layout is None:
        store.fresh(output)
        return 1
    store.share(output, given, layout)
    return 0


def _reduce(operation: Operation, store: Store) -> int:
    """The CPU adds 16-bit numbers up in float32 before it rounds (measured): the sum stands twice for a moment."""
    output = operation.outputs[0]
    is_sum = operation.state[0] == REDUCE_SUM
    if store.on_cpu and is_sum and output.itemsize == 2:
        store.scratch(4 * output.size)
        store.fresh(output)
        return 2
    store.fresh(output)
    return 1


REDUCE_SUM = 2
"""`Reduce::ReduceType::Sum` (mlx/primitives.h)."""


def _softmax(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.contiguous and given.layout.strides[-1] == 1:
        mlx_elementwise.written_over(store, output, given)
        return 1
    store.fresh(output)
    return 2


def _matmul(operation: Operation, store: Store) -> int:
    """A matrix that lies neither by rows nor by columns is copied first; the CPU wants no gaps between them either."""
    copies = [given for given in operation.inputs[:2] if not _is_matrix(given, store.on_cpu)]
    for given in copies:
        store.scratch(given.nbytes)
    store.fresh(operation.outputs[0])
    return 1 + len(copies)


def _is_matrix(given: Array, is_dense: bool) -> bool:
    if len(given.shape) < 2:
        return True
    down, across = given.layout.strides[-2:]
    height, width = given.shape[-2:]
    if is_dense:
        return (down, across) in {(width, 1), (1, height)}
    return 1 in {down, across}


def _quantized_matmul(operation: Operation, store: Store) -> int:
    copies = [given for given in operation.inputs if not given.layout.row]
    store.fresh(operation.outputs[0])
    for given in copies:
        store.scratch(given.nbytes)
    return 1 + len(copies)


def _updated_copy(operation: Operation, store: Store) -> int:
    """Scatters and slice updates: the first input, copied or written over, then changed in place."""
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.row and store.donates(given, output):
        store.share(output, given, given.layout)
        return 1
    store.fresh(output)
    return 2


def _concatenate(operation: Operation, store: Store) -> int:
    store.fresh(operation.outputs[0])
    return len(operation.inputs)


def _rms_norm(operation: Operation, store: Store) -> int:
    """mlx/backend/metal/normalization.cpp, `RMSNorm::eval_gpu`."""
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.row:
        mlx_elementwise.written_over(store, output, given)
    else:
        store.fresh(output)
    return 1


def _rms_norm_vjp(operation: Operation, store: Store) -> int:
    """As `RMSNormVJP::eval_gpu`, which would write over x or the cotangent, but both outputs hold them."""
    given, weights = operation.inputs[0], operation.outputs[0]
    store.scratch(given.size * weights.itemsize)
    return _fresh(operation, store) + 1


def _rope(operation: Operation, store: Store) -> int:
    """mlx/backend/metal/rope.cpp, `RoPE::eval_gpu`."""
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.row and store.donates(given, output):
        store.share(output, given, given.layout)
    else:
        store.fresh(output)
    return 1


def _cross_entropy_vjp(operation: Operation, store: Store) -> int:
    """mlx/backend/metal/cross_entropy.cpp, `CrossEntropyVJP::eval_gpu`: the gradient of the logits over the logits."""
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.row and store.donates(given):
        store.share(output, given, given.layout)
    else:
        store.fresh(output)
    return 1


FRESH = (
    *("Full", "Arange", "Gather", "GatherAxis", "LogSumExp", "ArgReduce", "RandomBits", "NumberOfElements", "CrossEntropy"),
    *("Sort", "Quantize"),
)
"""Primitives that store their outputs densely, by one dispatch, and take nothing else."""
Rule = Callable[[Operation, Store], int]
RULES: dict[str, Rule] = {
    **dict.fromkeys(UNARY, mlx_elementwise.unary),
    **dict.fromkeys(BINARY, mlx_elementwise.binary),
    **dict.fromkeys(["Copy", "StopGradient", "Depends"], _alias),
    **dict.fromkeys(["Broadcast", "BroadcastAxes"], _broadcast),
    **dict.fromkeys(["Reshape", "Flatten", "Unflatten", "Contiguous", "View"], _reshape),
    **dict.fromkeys(["SliceUpdate", "Scatter", "ScatterAxis"], _updated_copy),
    **dict.fromkeys(FRESH, _fresh),
    "Transpose": _transpose,
    "ExpandDims": _expand_dims,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Split": _split,
    "CustomTransforms": _custom_transforms,
    "Select": mlx_elementwise.select,
    "Compiled": mlx_elementwise.compiled,
    "Reduce": _reduce,
    "Softmax": _softmax,
    "Matmul": _matmul,
    "AddMM": _matmul,
    "QuantizedMatmul": _quantized_matmul,
    "Concatenate": _concatenate,
    "RMSNorm": _rms_norm,
    "RMSNormVJP": _rms_norm_vjp,
    "RoPE": _rope,
    "CrossEntropyVJP": _cross_entropy_vjp,
}
