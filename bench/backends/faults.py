"""What a user can do about a framework's fault that is not a want of memory, told by its message.

In: a message, from an exception or from the log of a process that died. Out: the remedy, or None. The outcomes that messages
stand for are the backends' own (`Backend.fault`); this table is one for all, since one library may lie below several backends.
"""

from __future__ import annotations

import re

DISPLAY = (
    "a command buffer kept the GPU from the display: run with the display off, or lower batch_size or sequence_length "
    "(AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1 helped some)"
)

REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"\[metal::malloc\] Resource limit",
        "this limit counts buffers, not bytes: lower sequence_length, generated_tokens or the number of adapted layers",
    ),
    (r"kIOGPUCommandBufferCallbackErrorImpactingInteractivity|Impacting Interactivity", DISPLAY),
    (
        r"kIOGPUCommandBufferCallbackErrorTimeout|Caused GPU Timeout Error",
        "a command buffer ran longer than macOS allows: lower batch_size or sequence_length, and close what else uses the GPU",
    ),
    (
        r"kIOGPUCommandBufferCallbackErrorHang|Caused GPU Hang Error",
        "the GPU hung: try again; if it comes back, update macOS and MLX, and report it",
    ),
    (
        r"kIOGPUCommandBufferCallbackError(PageFault|InvalidResource)|Caused GPU Address Fault Error|Invalid Resource",
        "a buffer was gone when the GPU asked for it: update MLX, and report it with the worker's log",
    ),
    (
        r"CUDA driver error: device not ready",
        "under WSL2 the driver could not make memory resident, or Windows reset the GPU: leave it more room (--memory-limit), "
        "or raise Windows' TdrDelay",
    ),
    (
        r"Thread creation failed: Resource temporarily unavailable|can't start new thread",
        "no thread could be made: memory for its stack, or the number of processes (ulimit -u), is at its limit",
    ),
)
"""The first pattern that is found counts. Sources, by users of MLX: github.com/ml-explore/mlx issues 1712 and 3849 and pull
request 1718 (resource limit), jundot/omlx issues 1387 and 2029 and dgrauet/ltx-2-mlx issue 75 (interactivity, timeout),
Blaizzy/mlx-vlm issue 270 (invalid resource); of WSL2: microsoft/WSL issue 41176; of libgomp: its team.c."""


def remedy(message: str) -> str | None:
    """What to do about the fault; None where nothing in particular is known."""
    return next((advice for pattern, advice in REMEDIES if re.search(pattern, message)), None)
