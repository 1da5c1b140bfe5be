"""Layouts against what MLX says of contiguity, and numpy of strides."""

from __future__ import annotations

import numpy as np
import pytest

from bench.predict import mlx_layout
from bench.predict.mlx_layout import dense


def strides_of(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


BOX = np.zeros((2, 3, 4), np.int8)


def test_a_new_array_lies_by_rows() -> None:
    layout = dense((2, 3, 4))
    assert layout == (strides_of(BOX), 24, True, False, True)
    assert dense(()) == ((), 1, True, True, True)
    assert dense((1, 5)).column


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (2, 1, 0)])
def test_transposing_permutes_strides(axes: tuple[int, ...]) -> None:
    view = BOX.transpose(axes)
    layout = mlx_layout.transposed(dense((2, 3, 4)), view.shape, axes)
    assert layout.strides == strides_of(view)
    assert layout.row == view.flags.c_contiguous
    assert layout.column == view.flags.f_contiguous
    assert layout.contiguous
    assert layout.data_size == 24


def test_broadcasting_repeats_by_strides_of_zero() -> None:
    layout = mlx_layout.broadcast(dense((3, 1)), (3, 1), (2, 3, 4))
    assert layout == ((0, 1, 0), 3, False, False, True)


def test_slices_leave_gaps() -> None:
    rows = mlx_layout.sliced(dense((4, 6)), (2, 6), (1, 1))
    assert rows == ((6, 1), 12, True, False, True)
    columns = mlx_layout.sliced(dense((4, 6)), (4, 3), (1, 2))
    assert columns == ((6, 2), 23, False, False, False)


def test_new_and_dropped_axes() -> None:
    given = dense((3, 4))
    assert mlx_layout.expanded(given, (0, 3)).strides == (1, 4, 1, 1)
    assert mlx_layout.squeezed(dense((3, 1, 4)), (1,)).strides == (4, 1)


def test_reshaping_copies_only_where_it_must() -> None:
    heads = mlx_layout.transposed(dense((2, 5, 3, 4)), (2, 3, 5, 4), (0, 2, 1, 3))
    assert mlx_layout.reshaped(heads, (2, 3, 5, 4), (2, 3, 20)) is None
    split = mlx_layout.reshaped(heads, (2, 3, 5, 4), (2, 3, 1, 5, 2, 2))
    assert split is not None
    view = np.zeros((2, 5, 3, 4), np.int8).transpose(0, 2, 1, 3)
    assert (split.strides[0], split.strides[1], split.strides[3]) == strides_of(view)[:3]
    assert split.strides[4:] == (2, 1)
    flat = mlx_layout.reshaped(dense((2, 3, 4)), (2, 3, 4), (24,))
    assert flat == ((1,), 24, True, True, True)
