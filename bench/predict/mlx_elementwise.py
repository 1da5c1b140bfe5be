"""What MLX's elementwise primitives store and write over, alone and fused.

In: an operation and a `Store`. Out: its output placed, and the number of tasks handed to the queue. Follows unary.h, binary.h,
ternary.h and compiled.cpp of mlx/backend/common, which the CPU and Metal share.
"""

from __future__ import annotations

from bench.predict import mlx_layout
from bench.predict.mlx_graph import Array, Operation
from bench.predict.mlx_layout import Layout, Store


def unary(operation: Operation, store: Store) -> int:
    given, output = operation.inputs[0], operation.outputs[0]
    if given.layout.contiguous:
        written_over(store, output, given)
    else:
        store.fresh(output)
    return 1


def written_over(store: Store, output: Array, *candidates: Array) -> None:
    """Into the first candidate that may be written over, else into a buffer laid out like the first of them."""
    for given in candidates:
        if store.donates(given, output):
            store.share(output, given, given.layout)
            return
    store.fresh(output, candidates[0].layout)


def binary(operation: Operation, store: Store) -> int:
    output = operation.outputs[0]
    first, second = operation.inputs
    one, two = first.layout, second.layout
    if one.data_size == 1 and two.data_size == 1:
        store.fresh(output, one._replace(strides=one.strides if first.shape == output.shape else (0,) * len(output.shape)))
    elif one.data_size == 1 and two.contiguous:
        written_over(store, output, second)
    elif two.data_size == 1 and one.contiguous:
        written_over(store, output, first)
    elif (one.row and two.row) or (one.column and two.column):
        written_over(store, output, first, second)
    else:
        _into_rows(store, output, first, second)
    return 1


def _into_rows(store: Store, output: Array, *candidates: Array) -> None:
    """Into the first row-contiguous candidate of the output's size that may be written over, else dense."""
    for given in candidates:
        if given.layout.row and given.size == output.size and store.donates(given, output):
            store.share(output, given, given.layout)
            return
    store.fresh(output)


def select(operation: Operation, store: Store) -> int:
    output, layouts = operation.outputs[0], [given.layout for given in operation.inputs]
    if all(each.data_size == 1 for each in layouts):
        store.fresh(output, layouts[1])
    elif all(each.row for each in layouts) or all(each.column for each in layouts):
        written_over(store, output, operation.inputs[1], operation.inputs[0], operation.inputs[2])
    else:
        _into_rows(store, output, *operation.inputs)
    return 1


def compiled(operation: Operation, store: Store) -> int:
    """`compiled_check_contiguity` and `compiled_allocate_outputs` of mlx/backend/common/compiled.cpp."""
    outputs, inputs = list(operation.outputs), operation.inputs
    together = _run_through(operation)
    like: Layout | None = None
    for given in inputs:
        suits = given.layout.row and given.size == outputs[0].size if outputs and not together else bool(given.shape)
        if outputs and suits and not given.is_constant and given.itemsize == outputs[0].itemsize and store.donates(given):
            output = outputs.pop(0)
            store.share(output, given, given.layout if together else mlx_layout.dense(output.shape))
        if together and like is None and given.size == operation.outputs[0].size:
            like = given.layout
    for output in outputs:
        store.fresh(output, like)
    return 1


def _run_through(operation: Operation) -> bool:
    """Whether the kernel runs through its inputs' memory as it lies."""
    shape = operation.outputs[0].shape
    inputs = [given for given in operation.inputs if given.shape]
    alike = [given.layout for given in inputs if given.shape == shape]
    if len(alike) < len(inputs):
        return False
    if len(alike) > 1:
        return all(each.row for each in alike) or all(each.column for each in alike)
    return all(each.contiguous for each in alike) if alike else not shape
