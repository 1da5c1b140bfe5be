"""Storage primitive by primitive: the simulated peak of small graphs against what MLX really takes on the CPU, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import pytest

from bench.predict.mlx_fusion import fuse
from bench.predict.mlx_graph import Array, Graph, Operation, export
from bench.predict.mlx_placement import UnknownPrimitive
from bench.predict.mlx_queue import AtOnce, CpuQueue
from bench.predict.mlx_simulation import CPU, Peak, Simulation
from bench.predict.mlx_step import Step

ROWS, WIDE, HEADS, DEEP = (2, 64), 512, 8, 32
HALF = mx.bfloat16


def simulated(function: Callable[..., Any], given: list[Any], donated: list[bool], *, full: bool = False) -> Peak:
    results = function(*given)
    parts = ["overhead"] * len(results)
    graph = export(Step(function, given, ["weights"] * len(given), donated, parts))
    return Simulation(graph, CpuQueue(0) if full else AtOnce(), CPU, vocabulary=-1, on_cpu=True).run()


@pytest.fixture
def on_the_cpu() -> Iterator[None]:
    """Waiting for unfinished work wherever MLX can."""
    device, limit = mx.default_device(), mx.set_memory_limit(1)
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(device)
    mx.set_memory_limit(limit)


def heads(x: Any) -> Any:
    return x.transpose(0, 2, 1, 3)


CASES: dict[str, tuple[list[tuple[int, ...]], Any, Callable[..., Any]]] = {
    "matmul of heads, copied first": ([(*ROWS, HEADS, DEEP)] * 2, HALF, lambda a, b: heads(a) @ heads(b).swapaxes(-1, -2)),
    "matmul of rows": ([(*ROWS, HEADS, DEEP)] * 2, HALF, lambda a, b: a @ b.swapaxes(-1, -2)),
    "linear": ([(*ROWS, WIDE), (256, WIDE)], mx.float32, lambda x, w: x @ w.T),
    "grouped queries": ([(2, HEADS, 4, 64, DEEP), (2, HEADS, 1, 64, DEEP)], HALF, lambda a, b: a @ b.swapaxes(-1, -2)),
    "sum of halves": ([(*ROWS, WIDE)], HALF, lambda x: x.sum(axis=(0, 1))),
    "sum of floats": ([(*ROWS, WIDE)], mx.float32, lambda x: x.sum(axis=(0, 1))),
    "maximum": ([(*ROWS, WIDE)], HALF, lambda x: x.max(axis=-1)),
    "softmax": ([(2, HEADS, 64, 64)], HALF, lambda x: mx.softmax(x, axis=-1, precise=True)),
    "log of summed exponentials": ([(*ROWS, WIDE)], HALF, lambda x: mx.logsumexp(x, axis=-1)),
    "reshape of heads, copied": ([(2, HEADS, 64, DEEP)], HALF, lambda x: heads(x).reshape(2, 64, -1)),
    "views": ([(*ROWS, WIDE)], HALF, lambda x: x[:, 1:, ::2].transpose(1, 0, 2)[None]),
    "cast": ([(*ROWS, WIDE)], HALF, lambda x: x.astype(mx.float32)),
    "concatenation": ([(*ROWS, WIDE)] * 2, HALF, lambda a, b: mx.concatenate([a, b], axis=-1)),
    "addition with broadcast": ([(*ROWS, WIDE), (WIDE,)], mx.float32, lambda a, b: a + b),
    "written over": ([(*ROWS, WIDE)], mx.float32, lambda x: mx.exp(mx.sin(mx.cos(x))) * 2 + 1),
    "chosen": ([(*ROWS, WIDE)], mx.float32, lambda x: mx.where(x > 0, x, 0.5 * x)),
    "slice put in place": ([(*ROWS, WIDE)], HALF, lambda x: mx.vjp(lambda y: y[..., :7], [x], [mx.ones((*ROWS, 7), HALF)])[1][0]),
    "chain": ([(*ROWS, WIDE), (WIDE, WIDE)], mx.float32, lambda x, w: mx.softmax((x @ w) * 2, axis=-1) @ w.T),
}


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("donated", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_small_graph_takes_what_was_measured(name: str, donated: bool) -> None:
    shapes, dtype, compute = CASES[name]
    given = [mx.random.normal(shape).astype(dtype) for shape in shapes]
    mx.eval(given)
    low = simulated(lambda *arrays: [compute(*arrays)], given, [donated] * len(given))
    high = simulated(lambda *arrays: [compute(*arrays)], given, [donated] * len(given), full=True)
    size = sum(array.nbytes for array in given)
    mx.synchronize()
    mx.clear_cache()
    before = mx.get_active_memory() - size
    result = compute(*given)
    if donated:
        del given
    mx.reset_peak_memory()
    mx.eval(result)
    measured = mx.get_peak_memory() - before
    assert low.nbytes - 64 <= max(measured, size) <= high.nbytes + 64  # a few scalars are made as constants


def test_an_unknown_primitive_is_refused() -> None:
    graph = Graph()
    given, result = Array((2,), 4, "weights"), Array((2,), 4, "weights")
    Operation("Teleport", [], [given], [result])
    graph.arguments, graph.donated = [given], [False]
    graph.results = [Array((), 4, "overhead"), Array((), 4, "overhead"), result]
    with pytest.raises(UnknownPrimitive, match="Teleport"):
        Simulation(graph, AtOnce(), CPU, vocabulary=-1, on_cpu=True).run()


@pytest.mark.usefixtures("on_the_cpu")
def test_a_kernel_of_several_results_writes_over_nothing() -> None:
    """As AdamW's does, fused: parameter and moments, each anew."""

    def update(p: Any, m: Any, g: Any) -> Any:
        moment = 0.9 * m + 0.1 * g
        return [mx.array(0.0), mx.array(1.0), p - moment, moment]

    given = [mx.random.normal((256, 256)) for _ in range(3)]
    mx.eval(given)
    size = given[0].nbytes
    step = Step(update, list(given), ["weights"] * 3, [True] * 3, ["overhead"] * 2 + ["weights"] * 2)
    found = Simulation(fuse(export(step)), AtOnce(), CPU, vocabulary=-1, on_cpu=True).run()
    assert size * 5 <= found.nbytes < size * 5 + 64
