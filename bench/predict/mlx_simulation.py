"""A step's graph, evaluated on paper: which buffers live when, and the most bytes that do.

In: a `Graph`, a queue and a device's allocator. Out: a `Peak`: bytes by part at the fullest moment, and what the allocator's
cache held beside. Arrays live until their last use; an operation writes over an input that nothing else needs (donation), or
makes a view of it; the queue holds what unfinished work needs; freed buffers go to a cache that later ones are taken from.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from bench.predict import mlx_layout
from bench.predict.mlx_graph import Array, Graph, Operation, evaluation_order
from bench.predict.mlx_layout import Layout
from bench.predict.mlx_placement import place
from bench.predict.mlx_queue import Queue

DONATION_EXTRA = 16384
"""By how much a buffer may be too large and still be written over: `donation_extra` of mlx/backend/common/utils.h."""
FOR_GOOD = 1 << 40
"""Uses of what outlives the step."""


class Allocator(NamedTuple):
    """How a device rounds sizes: above a page, up to whole pages. Freed buffers serve requests up to two pages smaller."""

    page_bytes: int
    rounds: bool


CPU = Allocator(4096, rounds=False)
"""Measured: `mx.get_active_memory` counts what was asked for, to the byte."""
METAL = Allocator(16384, rounds=True)
"""`MetalAllocator::malloc` of mlx/backend/metal/allocator.cpp; 16 KiB is Apple silicon's page."""


@dataclass(frozen=True, slots=True)
class Peak:
    """`nbytes` is what `mx.get_peak_memory` would say, `parts` add up to it.

    `cached_bytes` is the largest that the cache of freed buffers grew while the step ran, `total_bytes` the most that active
    memory and cache came to together, `before_bytes` what stood when it began.
    """

    nbytes: int
    parts: dict[str, int]
    cached_bytes: int
    total_bytes: int
    before_bytes: int


class Buffer:
    """Memory: how many arrays and how many holds of the queue keep it."""

    __slots__ = ("arrays", "holds", "nbytes", "part")

    def __init__(self, nbytes: int, part: str) -> None:
        self.nbytes, self.part = nbytes, part
        self.arrays = self.holds = 0


class Simulation:
    """One evaluation of a graph. `learnt` are the shapes of trainable parameters, `vocabulary` the width of logits."""

    def __init__(self, graph: Graph, queue: Queue, allocator: Allocator, *, vocabulary: int, on_cpu: bool) -> None:
        self.on_cpu = on_cpu
        self._graph, self._queue, self._allocator, self._vocabulary = graph, queue, allocator, vocabulary
        donated = [array for array, is_donated in zip(graph.arguments, graph.donated, strict=True) if is_donated]
        self._gradients = {shape for array in donated for shape in (array.shape, array.shape[::-1]) if len(shape) > 0}
        self._active = Counter[str]()
        self._now = self._peak = self._cached = self._most_cached = self._total = 0
        self._at_peak: dict[str, int] = {}
        self._cache: list[int] = []
        self._scratch: list[Buffer] = []
        self._local: dict[Array, int] = {}

    def run(self) -> Peak:
        """Raises UnknownPrimitive."""
        order = evaluation_order(self._graph)
        self._count_uses(order)
        self._load()
        before = self._now
        for operation in order:
            self._evaluate(operation)
        return Peak(self._peak, self._at_peak, self._most_cached, self._total, before)

    def _count_uses(self, order: list[Operation]) -> None:
        for operation in order:
            for output in operation.outputs:
                output.uses = 0
        for array in [*self._graph.arguments, *self._graph.constants]:
            array.uses = FOR_GOOD
        for array, is_donated in zip(self._graph.arguments, self._graph.donated, strict=True):
            array.uses = 0 if is_donated else FOR_GOOD
        for operation in order:
            for given in operation.inputs:
                given.uses += 1
        for array in self._graph.results:
            array.uses += FOR_GOOD

    def _load(self) -> None:
        """What stands before the step: arguments, and the constants of the graph."""
        for array in [*self._graph.arguments, *self._graph.constants]:
            self.fresh(array)
        for array in self._graph.arguments:
            if array.uses == 0:
                self._forget(array)

    def _evaluate(self, operation: Operation) -> None:
        self._local = {}
        for given in operation.inputs:
            self._local[given] = self._local.get(given, 0) + len(operation.outputs)
        dispatches = place(operation, self)
        holds = self._held(operation)
        for buffer in holds:
            buffer.holds += 1
        for given in operation.inputs:
            given.uses -= 1
            if given.uses == 0:
                self._forget(given)
        for output in operation.outputs:
            if output.uses == 0:
                self._forget(output)
        for buffer in self._queue.ran(operation, dispatches, holds):
            buffer.holds -= 1
            self._free_if_idle(buffer)

    def _held(self, operation: Operation) -> list[Buffer]:
        """Inputs, outputs but one, and scratch; not what became the output (mlx/backend/cpu/eval.cpp)."""
        own = operation.outputs[-1].buffer
        used = {id(array.buffer): array.buffer for array in [*operation.inputs, *operation.outputs[:-1]]}
        used.pop(id(own), None)
        held = [*used.values(), *self._scratch]
        self._scratch = []
        return held

    # The Store of `mlx_placement`.

    def fresh(self, output: Array, layout: Layout | None = None) -> None:
        layout = layout or mlx_layout.dense(output.shape)
        self._keep(output, self._allocate(layout.data_size * output.itemsize, self._part(output)), layout)

    def share(self, output: Array, given: Array, layout: Layout) -> None:
        buffer: Buffer = given.buffer
        if output.part is not None and output.part != buffer.part and self.donates(given):
            self._relabel(buffer, output.part)
        self._keep(output, buffer, layout)

    def donates(self, given: Array, output: Array | None = None) -> bool:
        """Every output of an operation holds its inputs (`array::make_arrays`), so one with several writes over none of them."""
        buffer: Buffer = given.buffer
        if given.uses != 1 or self._local[given] != 1 or buffer.arrays != 1 or buffer.holds:
            return False
        return output is None or (given.itemsize == output.itemsize and buffer.nbytes <= output.nbytes + DONATION_EXTRA)

    def scratch(self, nbytes: int) -> None:
        self._scratch.append(self._allocate(nbytes, "overhead"))

    # Buffers.

    def _keep(self, array: Array, buffer: Buffer, layout: Layout) -> None:
        array.buffer, array.layout = buffer, layout
        buffer.arrays += 1

    def _forget(self, array: Array) -> None:
        array.buffer.arrays -= 1
        self._free_if_idle(array.buffer)

    def _part(self, array: Array) -> str:
        """What a buffer is for. Between arguments and results shapes tell: a gradient has that of its parameter."""
        if array.part is not None:
            return array.part
        if len(array.shape) > 1 and array.shape[-1] == self._vocabulary and array.shape not in self._gradients:
            return "logits"
        if array.shape in self._gradients:
            return "gradients"
        return "overhead" if array.is_constant else "activations"

    def _allocate(self, nbytes: int, part: str) -> Buffer:
        size = self._rounded(nbytes)
        at = bisect_left(self._cache, size)
        if at < len(self._cache) and self._cache[at] < min(2 * size, size + 2 * self._allocator.page_bytes):
            size = self._cache.pop(at)
            self._cached -= size
        buffer = Buffer(size, part)
        self._active[part] += size
        self._now += size
        if self._now > self._peak:
            self._peak, self._at_peak = self._now, dict(self._active)
        self._total = max(self._total, self._now + self._cached)
        return buffer

    def _rounded(self, nbytes: int) -> int:
        page = self._allocator.page_bytes
        return -(-nbytes // page) * page if self._allocator.rounds and nbytes > page else nbytes

    def _free_if_idle(self, buffer: Buffer) -> None:
        if buffer.arrays or buffer.holds:
            return
        self._active[buffer.part] -= buffer.nbytes
        self._now -= buffer.nbytes
        insort(self._cache, buffer.nbytes)
        self._cached += buffer.nbytes
        self._most_cached = max(self._most_cached, self._cached)

    def _relabel(self, buffer: Buffer, part: str) -> None:
        self._active[buffer.part] -= buffer.nbytes
        self._active[part] += buffer.nbytes
        buffer.part = part
