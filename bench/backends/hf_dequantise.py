"""bitsandbytes' 4-bit product spelled out, so that the dequantised weight within it is seen.

In: a tracker that comes to that product. Out: the same product from its pieces, each seen: scales, weight, then a plain product.
Its own kernel on the CPU does just that, and CUDA's above 1,536 rows (bitsandbytes 0.50.2, backends/default/ops.py and
backends/cuda/ops.py). Below, CUDA's kernel may multiply without a dequantised weight, by card and shape; backward never does.
"""

from __future__ import annotations

from typing import Any

from bench.backends.storages import StandIn, Tracker


def dequantised() -> dict[Any, StandIn]:
    """What to do in place of bitsandbytes' operator."""
    import bitsandbytes  # registers its operators
    from torch import ops

    assert bitsandbytes
    return {ops.bitsandbytes.gemm_4bit.default: _gemm_4bit}


def _gemm_4bit(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracker.within(_dequantise_and_multiply, *args, **kwargs)


def _dequantise_and_multiply(
    rows: Any,
    packed: Any,
    shape: Any,
    absmax: Any,
    blocksize: int,
    quant_type: str,
    bias: Any = None,
    absmax_8bit: Any = None,
    absmax_code: Any = None,
    absmax_offset: Any = None,
) -> Any:
    """With double quantisation, the scales themselves are dequantised first."""
    import torch

    bnb = torch.ops.bitsandbytes
    if absmax_8bit is not None:
        absmax = bnb.dequantize_blockwise.default(absmax_8bit, absmax, absmax_code, 256, torch.float32) + absmax_offset
    weight = bnb.dequantize_4bit.default(packed, absmax, blocksize, quant_type, list(shape), rows.dtype)
    return torch.nn.functional.linear(rows, weight, bias)
