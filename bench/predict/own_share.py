"""What torch takes of this computer's own card, in the place of the constants that stand for any card's.

In: a memory as the rules or the trace have it, and the `Share` that `doctor --calibrate` measured. Out: the memory with cuBLAS's
workspaces and the context as they are here.
"""

from __future__ import annotations

from dataclasses import replace

from bench.own_rates import Share
from bench.predict.prediction import Memory
from bench.predict.trace import UNCALIBRATED
from bench.predict.trace_cuda import CONTEXT_BYTES, CONTEXT_HIGH_BYTES, CONTEXT_LOW_BYTES, CUBLAS_HANDLES, CUBLAS_WORKSPACE_BYTES

KERNELS_BYTES = 100_000_000
"""What kernels that the tiny step did not load may add to the measured context: the high end. By judgement; CUDA loads each
when it is first used."""


def with_share(memory: Memory, share: Share) -> Memory:
    """The constants' difference to what was measured, added wherever the constants are in it."""
    workspaces = share.workspace_bytes - CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES
    torch = share.versions.get("torch", "an unknown version")
    measured = f"context ({share.context_bytes / 1e6:.0f} MB) and cuBLAS workspaces as measured here with torch {torch}"
    return replace(
        memory,
        parts={**memory.parts, "overhead": memory.parts["overhead"] + workspaces},
        peak_bytes=memory.peak_bytes + workspaces,
        peak_low_bytes=memory.peak_low_bytes + workspaces,
        peak_high_bytes=memory.peak_high_bytes + workspaces,
        reserved_bytes=None if memory.reserved_bytes is None else memory.reserved_bytes + workspaces,
        held_bytes=memory.held_bytes + workspaces + share.context_bytes - CONTEXT_BYTES,
        held_low_bytes=memory.held_low_bytes + workspaces + share.context_bytes - CONTEXT_LOW_BYTES,
        held_high_bytes=memory.held_high_bytes + workspaces + share.context_bytes + KERNELS_BYTES - CONTEXT_HIGH_BYTES,
        notes=(measured, *(note for note in memory.notes if note != UNCALIBRATED)),
    )
