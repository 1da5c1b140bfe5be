"""The memory of a cell on the Hugging Face stack, by tracing the step that the backend itself trains, without memory or values.

In: a cell of the backend hf. Out: its peak by part, what torch's allocator would reserve for it, and the least that a card has
to have. Works on a torch without CUDA. Imports torch and the whole stack, so whoever asks runs it in a process of its own.

A model of many blocks is traced with few, and what a block within does is repeated (`trace_layers`): nothing is approximated.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

from bench.backends.interface import UnsupportedError
from bench.backends.timeline import Timeline
from bench.model import canonical_json
from bench.predict import trace_cache
from bench.predict.allocator import replay, smallest_limit_bytes
from bench.predict.prediction import PARTS, Memory
from bench.predict.trace_cuda import (
    CONTEXT_BYTES,
    CONTEXT_HIGH_BYTES,
    CONTEXT_LOW_BYTES,
    CUBLAS_HANDLES,
    CUBLAS_WORKSPACE_BYTES,
)
from bench.predict.trace_layers import UnlikeBlocks, period_of, plan, repeated
from bench.spec import Cell, Device

LOW, HIGH = 0.98, 1.03
"""The interval around a traced peak, as shares of it. By judgement: on the CPU the trace is exact, and what CUDA's kernels
allocate beside it is known from reading alone. Uncalibrated until runs on cards have told."""
PROCESS_BYTES, PROCESS_LOW_BYTES, PROCESS_HIGH_BYTES = 700_000_000, 400_000_000, 1_100_000_000
"""What the process itself takes of main memory with the stack imported, for a cell on the CPU: 0.6 to 0.8 GB resident were seen
with torch 2.13 and transformers 5.24 on Linux; it depends on which packages are installed beside them."""
UNCALIBRATED = "uncalibrated: cuBLAS workspaces, the CUDA context and its kernels' own memory are stated constants"


def memory(cell: Cell, *, cached: bool = True) -> Memory:
    """The traced memory of a cell. Raises UnsupportedError, with the remedy, for what cannot be traced.

    `cached` False neither reads nor writes the folder of earlier traces.
    """
    if cell.backend != "hf":
        raise UnsupportedError(f"the trace is of hf's step, not of {cell.backend}'s: predict it by the rules")
    found = trace_cache.read(cell) if cached else None
    if found is not None:
        return found
    _import_stack()
    timeline = traced(cell, cell.device)
    made = _on_cuda(timeline) if cell.device == "cuda" else _on_cpu(timeline)
    if cached:
        trace_cache.write(cell, made)
    return made


def _import_stack() -> None:
    """With Python's collector off, which would look for garbage again and again among what imports make and keep.

    That takes 10 s of CPU with it and 7 without. Frozen, what was imported is not searched while tracing either (5 s and 3).
    """
    from bench.backends.hf import HuggingFace

    gc.disable()
    try:
        HuggingFace().prepare()
    finally:
        gc.enable()
    gc.freeze()


def traced(cell: Cell, as_on: Device, *, whole: bool = False) -> Timeline:
    """Two steps of the cell as on a device. `whole` traces every block, which takes longer and gives the same peaks."""
    from bench.backends.hf_build import configuration
    from bench.predict.trace_step import fake_step

    config = cell.workload.model.config
    kinds = list(getattr(_known(configuration, cell), "layer_types", None) or [])
    how = None if whole or cell.workload.adapter_layers else plan(config["num_hidden_layers"], period_of(kinds))
    if how is None:
        return fake_step(cell, as_on)
    try:
        return repeated(fake_step(_shortened(cell, how.traced), as_on), how)
    except UnlikeBlocks:
        return fake_step(cell, as_on)


def _known(configuration: Any, cell: Cell) -> Any:
    try:
        return configuration(cell.workload)
    except ValueError as error:
        raise UnsupportedError(f"transformers knows no {cell.workload.model.config['model_type']}") from error


def _shortened(cell: Cell, blocks: int) -> Cell:
    """The same cell with so many of its model's first blocks."""
    config = cell.workload.model.config
    config["num_hidden_layers"] = blocks
    if config.get("layer_types"):
        config["layer_types"] = config["layer_types"][:blocks]
    model = replace(cell.workload.model, architecture=canonical_json(config), parameters=None)
    return replace(cell, workload=replace(cell.workload, model=model))


def _on_cuda(timeline: Timeline) -> Memory:
    """As torch's counters and the driver would tell. The low end of what is held is the smallest card on which it runs."""
    kept = [CUBLAS_WORKSPACE_BYTES] * CUBLAS_HANDLES
    peaks = replay(timeline, kept)
    smallest = smallest_limit_bytes(timeline, kept)
    return Memory(
        parts=_parts(timeline, peaks.allocated_bytes),
        peak_bytes=peaks.allocated_bytes,
        peak_low_bytes=int(LOW * peaks.allocated_bytes),
        peak_high_bytes=int(HIGH * peaks.allocated_bytes),
        held_bytes=peaks.reserved_bytes + CONTEXT_BYTES,
        held_low_bytes=smallest + CONTEXT_LOW_BYTES,
        held_high_bytes=int(HIGH * peaks.reserved_bytes) + CONTEXT_HIGH_BYTES,
        how="trace",
        reserved_bytes=peaks.reserved_bytes,
        notes=(UNCALIBRATED, f"runs where torch's allocator can have {smallest / 1e9:.2f} GB of the card"),
    )


def _on_cpu(timeline: Timeline) -> Memory:
    """What torch's CPU allocator gives, which counts nothing itself, and beside it the process."""
    total = timeline.peak().total_bytes
    return Memory(
        parts=_parts(timeline, total),
        peak_bytes=total,
        peak_low_bytes=int(LOW * total),
        peak_high_bytes=int(HIGH * total),
        held_bytes=total + PROCESS_BYTES,
        held_low_bytes=int(LOW * total) + PROCESS_LOW_BYTES,
        held_high_bytes=int(HIGH * total) + PROCESS_HIGH_BYTES,
        how="trace",
    )


def _parts(timeline: Timeline, total_bytes: int) -> dict[str, int]:
    """By part at the peak; what the allocator rounds up and keeps for cuBLAS is overhead."""
    peak = timeline.peak()
    parts = {name: peak.parts.get(name, 0) for name in PARTS}
    parts["overhead"] += total_bytes - sum(parts.values())
    return parts
