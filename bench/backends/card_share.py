"""What torch takes of a card beside its tensors, measured: cuBLAS's workspaces, and what is held in all.

In: `torch.cuda`, in a process that has not used the card yet. Out: bytes that stay allocated once products of a dtype were made,
forward and backward; what torch has reserved then, and what everybody holds of the card, so that whoever knows what was held
before can tell the context: the driver's state and the kernels that were loaded. A tiny training step loads some of each kind.
"""

from __future__ import annotations

import gc
from importlib.metadata import version
from typing import Any

SIDE = 64


def card_share(device: str, dtypes: tuple[str, ...]) -> dict[str, Any]:
    """The document. Raises what torch raises where the card is not there."""
    import torch

    cuda = torch.cuda
    kept = {dtype: _kept_bytes(torch, device, getattr(torch, dtype)) for dtype in dtypes}
    free_bytes, total_bytes = cuda.mem_get_info()
    return {
        "workspace_bytes": kept,
        "reserved_bytes": cuda.memory_reserved(),
        "held_bytes": total_bytes - free_bytes,
        "versions": {"torch": version("torch"), "cuda": str(torch.version.cuda)},
    }


def _kept_bytes(torch: Any, device: str, dtype: Any) -> int:
    """What stays allocated when every tensor is gone: a workspace for the thread that calls and one for autograd's.

    They are let go first, by the function that torch's notes on CUDA name for it, so that each dtype makes its own.
    """
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_allocated()
    _tiny_step(torch, device, dtype)
    gc.collect()  # an optimizer is part of a cycle
    torch.cuda.synchronize()
    return int(torch.cuda.memory_allocated() - before)


def _tiny_step(torch: Any, device: str, dtype: Any) -> None:
    """A product, attention, a loss, their backward pass and AdamW: nothing of it is left when it returns."""
    weight = torch.ones(SIDE, SIDE, device=device, dtype=dtype, requires_grad=True)
    heads = (weight @ weight).view(1, 1, SIDE, SIDE)
    attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    attended.float().log_softmax(-1).sum().backward()
    torch.optim.AdamW([weight], foreach=True).step()
