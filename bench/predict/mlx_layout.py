"""How MLX lays its arrays out in buffers: strides and the flags on which sharing and copying depend.

In: shapes and layouts. Out: the layout of a view, or None where MLX has to copy; and what a `Store` of arrays has to offer.
Follows mlx/backend/common (utils.cpp, common.cpp, slicing.cpp, broadcasting.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

from bench.predict.mlx_graph import Array, Shape


class Layout(NamedTuple):
    """`data_size`: the elements of the buffer that the strides span; the flags are MLX's."""

    strides: tuple[int, ...]
    data_size: int
    row: bool
    column: bool
    contiguous: bool


class Store(Protocol):
    """Where arrays are placed. `on_cpu` tells the two kinds of rules apart."""

    on_cpu: bool

    def fresh(self, output: Array, layout: Layout | None = None) -> None:
        """A buffer of its own: dense, or as many elements as the layout spans."""

    def share(self, output: Array, given: Array, layout: Layout) -> None:
        """The buffer of another array."""

    def donates(self, given: Array, output: Array | None = None) -> bool:
        """Whether an input's buffer may become the output's; with an output, whether it also suits it in size."""

    def scratch(self, nbytes: int) -> None:
        """A buffer that only this operation needs."""


def dense(shape: Shape) -> Layout:
    """A new array's layout: row by row."""
    size = prod(shape)
    return Layout(row_strides(shape), size, True, size <= 1 or size == max(shape, default=1), True)


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = list[int](), 1
    for width in reversed(shape):
        strides.append(step)
        step *= width
    return tuple(reversed(strides))


def _flags(shape: Shape, strides: Sequence[int]) -> tuple[bool, bool]:
    """Whether row and column contiguous, singleton axes aside."""
    row = all(width == 1 or stride == wanted for width, stride, wanted in zip(shape, strides, row_strides(shape), strict=True))
    wanted, column = 1, True
    for width, stride in zip(shape, strides, strict=True):
        column &= width == 1 or stride == wanted
        wanted *= width
    return row, column


def transposed(given: Layout, shape: Shape, axes: Sequence[int]) -> Layout:
    """`shape` is the result's."""
    strides = tuple(given.strides[axis] for axis in axes)
    row, column = given.row, given.column
    if given.contiguous and given.data_size == prod(shape):
        row, column = _flags(shape, strides)
    return given._replace(strides=strides, row=row, column=column)


def broadcast(given: Layout, before: Shape, shape: Shape) -> Layout:
    own = [0 if width == 1 else stride for width, stride in zip(before, given.strides, strict=True)]
    strides = (0,) * (len(shape) - len(before)) + tuple(own)
    grows = prod(shape) > prod(before)
    return given._replace(strides=strides, row=given.row and not grows, column=given.column and not grows)


def expanded(given: Layout, axes: Sequence[int]) -> Layout:
    strides = list(given.strides)
    for axis in axes:
        strides.insert(axis, 1)
    return given._replace(strides=tuple(strides))


def squeezed(given: Layout, axes: Sequence[int]) -> Layout:
    return given._replace(strides=tuple(stride for axis, stride in enumerate(given.strides) if axis not in axes))


def sliced(given: Layout, shape: Shape, steps: Sequence[int]) -> Layout:
    """A view on some of the elements; `steps` are the slice's own strides, one an axis."""
    strides = tuple(stride * step for stride, step in zip(given.strides, steps, strict=True))
    span = 1 + sum((width - 1) * abs(stride) for width, stride in zip(shape, strides, strict=True))
    row, column = _flags(shape, strides)
    dense_size = prod(width for width, stride in zip(shape, strides, strict=True) if stride > 0)
    return Layout(strides, span, row, column, dense_size == span)


def reshaped(given: Layout, before: Shape, shape: Shape) -> Layout | None:
    """The layout under another shape, None where the elements have to be copied for it."""
    if given.row:
        size = prod(shape)
        return Layout(row_strides(shape), given.data_size, True, size <= 1 or size == max(shape, default=1), given.contiguous)
    widths, steps = _collapsed(before, given.strides)
    strides, at = list[int](), 0
    for width in shape:
        if at < len(widths) and widths[at] % width == 0:
            widths[at] //= width
            strides.append(widths[at] * steps[at])
            at += widths[at] == 1
        elif width == 1 and strides:
            strides.append(strides[-1])
        else:
            return None
    return given._replace(strides=tuple(strides))


def _collapsed(shape: Shape, strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Neighbouring axes that are one run of memory, joined; singletons dropped."""
    widths, steps = list[int](), list[int]()
    for width, stride in zip(shape, strides, strict=True):
        if width == 1:
            continue
        if widths and steps[-1] == stride * width:
            widths[-1] *= width
            steps[-1] = stride
        else:
            widths.append(width)
            steps.append(stride)
    return widths, steps
