"""What a cell of mlx needs, from the training step's own lazy graph, evaluated on paper.

In: a cell of the mlx backend. Out: its `Memory`. The step is built and exported without allocating anything (`mlx_step`,
`mlx_graph`), on a Mac's GPU with its primitives (`mlx_metal`), fused as by `mx.compile` (`mlx_fusion`), and simulated
(`mlx_simulation`) twice: with a device whose queue of unfinished work is always full, which is the value, and with one that
finishes everything at once, which is the least that the step can take. Imports MLX: call it in a child process.

The whole depth is simulated: peaks do not grow in a straight line with it, for what the queue holds and what a freed buffer is
used for next shift from block to block (of 16 blocks, those of 8 and 12 carried on told 4% too much).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from bench.collector import collector_paused
from bench.predict import mlx_metal, rules
from bench.predict.mlx_fusion import fuse
from bench.predict.mlx_graph import Graph, NotExported, export
from bench.predict.mlx_placement import UnknownPrimitive
from bench.predict.mlx_queue import AtOnce, CpuQueue, MetalQueue, Queue
from bench.predict.mlx_simulation import CPU, METAL, Peak, Simulation
from bench.predict.mlx_step import training_step
from bench.predict.prediction import PARTS, Memory
from bench.predict.trace_cuda import CONTEXT_BYTES, CONTEXT_HIGH_BYTES, CONTEXT_LOW_BYTES
from bench.spec import Cell

SPREAD = 0.011
"""By how much a peak may lie above a full queue's: the most that was seen of 15 held-out shapes on the CPU, where the first
dispatch of a step falls differently (`tests/predict/mlx_held_out.py`); of so few the largest stands for the upper end of 80%. The
others lay up to 2.2% below it."""
EAGER_SPREAD = 0.08
"""The same of a step that is not compiled: the export merges equal operations (an adapter's casts of one input), which running it
does not. Of the shapes looked at the peak lay up to 7.5% above."""
FALLBACK_SPREAD = 0.2
"""Added on either side where the closed form stands in for the graph."""


class Both(NamedTuple):
    """The step with a full queue, and with none."""

    full: Peak
    at_once: Peak


def memory(cell: Cell) -> Memory:
    """Peak active memory of a training step (`mx.get_peak_memory`), by part, with its bracket.

    `peak_bytes` is that of a full queue, its low end that of none; `held_bytes` adds what the process takes beside. The
    allocator's cache comes on top as long as there is room, for MLX gives it back before it fails to allocate: so it is told in
    the notes, and counts at the high end of `held_bytes` alone. Serving, and steps whose graph cannot be had, are left to the
    closed form, with a note. Raises UnsupportedError as the backend does.
    """
    if cell.workload.serves:
        return _by_rules(cell, "serving is predicted by the closed form", spread=0.0)
    try:
        return _memory(simulate(cell), cell)
    except (NotExported, UnknownPrimitive) as error:
        return _by_rules(cell, f"the step's graph could not be had ({error}), so the closed form stands in", FALLBACK_SPREAD)


def simulate(cell: Cell) -> Both:
    """The two simulations of a cell's training step. Raises NotExported, UnknownPrimitive, and what building it raises."""
    with collector_paused():
        return _simulated(cell)


def _simulated(cell: Cell) -> Both:
    on_cpu = cell.device == "cpu"
    graph = _graph(cell, on_cpu)
    if not _is_eager(cell):
        graph = fuse(graph)
    queue: Queue = CpuQueue() if on_cpu else MetalQueue()
    vocabulary = int(cell.workload.model.config["vocab_size"])

    def run(queue: Queue) -> Peak:
        return Simulation(graph, queue, CPU if on_cpu else METAL, vocabulary=vocabulary, on_cpu=on_cpu).run()

    return Both(run(queue), run(AtOnce()))


def _graph(cell: Cell, on_cpu: bool) -> Graph:
    """Exported for the CPU on every machine, so that one step has one graph."""
    import mlx.core as mx

    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    try:
        if on_cpu:
            return export(training_step(cell))
        with mlx_metal.stand_ins():
            graph = export(training_step(cell))
        return mlx_metal.as_on_gpu(graph)
    finally:
        mx.set_default_device(before)


def _memory(found: Both, cell: Cell) -> Memory:
    full, low = found.full, min(found.at_once.nbytes, found.full.nbytes)
    high = round(full.nbytes * (1 + (EAGER_SPREAD if _is_eager(cell) else SPREAD)))
    beside = _beside(cell)
    return Memory(
        parts=_parts(full.parts),
        peak_bytes=full.nbytes,
        peak_low_bytes=low,
        peak_high_bytes=high,
        held_bytes=full.nbytes + beside.middle,
        held_low_bytes=low + beside.low,
        held_high_bytes=max(high, full.total_bytes) + beside.high,
        how="graph",
        notes=tuple(_notes(found, cell)),
    )


def _beside(cell: Cell) -> rules.Beside:
    """As the closed form has it: on the CPU the process itself, on a CUDA card its context, nothing on Metal that is known."""
    if cell.device == "cpu":
        return rules.Beside(rules.MLX_PROCESS_BYTES, rules.MLX_PROCESS_LOW_BYTES, rules.MLX_PROCESS_HIGH_BYTES)
    if cell.device == "cuda":
        return rules.Beside(CONTEXT_BYTES, CONTEXT_LOW_BYTES, CONTEXT_HIGH_BYTES)
    return rules.Beside()


def _is_eager(cell: Cell) -> bool:
    return cell.implementation.compile is False


def _parts(found: Mapping[str, int]) -> dict[str, int]:
    return {part: found.get(part, 0) for part in PARTS}


def _notes(found: Both, cell: Cell) -> list[str]:
    notes = [f"buffer cache up to {found.full.cached_bytes / 1e9:.2f} GB within a step, given back under pressure"]
    if cell.device != "cpu":
        notes.append("queue of unfinished work by reading MLX's source, not measured: low end with none, value with ten full")
    if cell.device == "cuda":
        notes.append("simulated by Metal's rules")
    if _is_eager(cell):
        notes.append("not compiled: operations that are there twice are simulated as one, hence a wider interval")
    return notes


def _by_rules(cell: Cell, why: str, spread: float) -> Memory:
    found = rules.memory(cell)
    wider = {name: round(getattr(found, name) * (1 - spread)) for name in ("peak_low_bytes", "held_low_bytes")}
    wider |= {name: round(getattr(found, name) * (1 + spread)) for name in ("peak_high_bytes", "held_high_bytes")}
    return replace(found, **wider, notes=(*found.notes, why))
