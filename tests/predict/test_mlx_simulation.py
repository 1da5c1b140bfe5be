"""Buffers, parts, the cache: small graphs whose peaks can be told by hand."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from predict.mlx_traced import exported

from bench.predict.mlx_graph import Graph
from bench.predict.mlx_queue import AtOnce, CpuQueue, Queue
from bench.predict.mlx_simulation import CPU, METAL, Allocator, Peak, Simulation

SIDE = 64
MATRIX = SIDE * SIDE * 4
X = mx.zeros((SIDE, SIDE))


def peak(
    graph: Graph, donated: list[bool], queue: Queue | None = None, allocator: Allocator = CPU, part: str = "weights", **how: Any
) -> Peak:
    """Two idle results stand before the one of interest, as loss and tokens do."""
    graph.donated = donated
    for array in [*graph.arguments, *graph.results]:
        array.part = part
    vocabulary = how.get("vocabulary", -1)
    return Simulation(graph, queue or AtOnce(), allocator, vocabulary=vocabulary, on_cpu=how.get("on_cpu", True)).run()


def squared(x: Any) -> Any:
    return [mx.array(0.0), mx.array(1.0), mx.exp(x @ x) @ x]


def test_arguments_stand_throughout_and_intermediates_only_as_long_as_needed() -> None:
    """x, its square (which the exponential writes over), and the result: three matrices."""
    found = peak(exported(squared, X), [False])
    assert found.nbytes == 3 * MATRIX + 8
    assert found.before_bytes == MATRIX + 8
    assert found.cached_bytes == MATRIX


def test_an_argument_that_nothing_else_holds_is_written_over() -> None:
    def doubled(x: Any) -> Any:
        return [mx.array(0.0), mx.array(1.0), x + x * 1.5]

    def halved(x: Any) -> Any:
        return [mx.array(0.0), mx.array(1.0), mx.exp(x)]

    kept, given = (peak(exported(halved, X), [donated]) for donated in (False, True))
    assert (kept.nbytes - given.nbytes, given.nbytes) == (MATRIX, MATRIX + 8)
    assert peak(exported(doubled, X), [True]).nbytes == 2 * MATRIX + 12


def test_unfinished_work_holds_what_it_used() -> None:
    """Six products one after another: with nothing finished all of them stand, and none of the operands can be let go."""

    def chain(x: Any) -> Any:
        y = x
        for _ in range(6):
            y = y @ x
        return [mx.array(0.0), mx.array(1.0), y]

    assert peak(exported(chain, X), [False]).nbytes == 3 * MATRIX + 8
    assert peak(exported(chain, X), [False], CpuQueue()).nbytes == 7 * MATRIX + 8


@pytest.mark.parametrize("queue", [AtOnce(), CpuQueue()])
def test_views_take_nothing(queue: Queue) -> None:
    def views(x: Any) -> Any:
        return [mx.array(0.0), mx.array(1.0), x.T[None].reshape(SIDE, 1, SIDE)[:, :, ::2]]

    assert peak(exported(views, X), [False], queue).nbytes == MATRIX + 8


def test_parts_add_up_and_shapes_tell_them() -> None:
    def step(weight: Any, tokens: Any) -> Any:
        logits = mx.softmax(tokens @ weight, axis=-1)
        gradient = tokens.reshape(-1, SIDE).T @ logits.reshape(-1, 96)
        return [mx.array(0.0), mx.array(1.0), weight - 0.1 * gradient]

    graph = exported(step, mx.zeros((SIDE, 96)), mx.zeros((2, 8, SIDE)))
    found = peak(graph, [True, False], vocabulary=96)
    assert sum(found.parts.values()) == found.nbytes
    assert found.parts["logits"] == 0 or found.parts["gradients"] > 0
    assert found.parts["weights"] >= SIDE * 96 * 4


def test_a_freed_buffer_serves_again_if_it_is_about_the_size() -> None:
    """The first product's buffer is free when the last, as large, is made: the cache gives it back."""

    def rising(x: Any) -> Any:
        first = x @ x
        small = first.sum()
        return [mx.array(0.0), mx.array(1.0), (x * small) @ x]

    found = peak(exported(rising, X), [False])
    assert found.cached_bytes < 2 * MATRIX
    assert found.total_bytes == found.nbytes + (found.total_bytes - found.nbytes) <= 3 * MATRIX + 64


def test_metal_rounds_to_pages() -> None:
    odd = mx.zeros((100, 100))
    found = peak(exported(lambda x: [mx.array(0.0), mx.array(1.0), x @ x], odd), [False], allocator=METAL, on_cpu=False)
    assert found.nbytes == 2 * 3 * 16384 + 8
