"""What CUDA would do where a trace on the CPU would do otherwise, and what its kernels allocate unseen.

In: a step that is traced with fake tensors on the device `cpu`. Out: stand-ins for operators and for functions of the stack, so
that the storages that live are those of the same step on a CUDA device. All of it comes from reading source, named beside each;
no figure here was measured on a card.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

from bench.backends.storages import StandIn, Tracker
from bench.predict.trace_fake import replaced

CUBLAS_WORKSPACE_BYTES = 8_519_680
"""`:4096:2:16:8` KiB, aten's default up to compute capability 8.9 and from 10.0 (aten/src/ATen/cuda/CublasHandlePool.cpp).

Compute capability 9.0 takes 32 MiB by the same source; that is not told apart, so a trace is 50 MB low there, until
`doctor --calibrate` has measured the card itself.
"""
CUBLAS_HANDLES = 2
"""One for the thread that calls and one for autograd's, each with a workspace of its own (the same source)."""
CONTEXT_BYTES = 500_000_000
"""What the driver's context and the loaded kernels take of a card beside the allocator: 0.3 to 0.6 GB in what people report for
CUDA 12 on Ada and Hopper. It differs by driver and by which kernels are loaded: uncalibrated until a run has told."""
CONTEXT_LOW_BYTES, CONTEXT_HIGH_BYTES = 300_000_000, 700_000_000

FLASH_HEAD_UP_TO = 256
"""The widest head of torch's flash kernel (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""


@contextmanager
def as_on_cuda() -> Iterator[None]:
    """Within it, attention and trl's loss take the way that they take on CUDA."""
    from torch.nn import functional
    from trl.kernels import chunked_logprob
    from trl.trainer import utils

    with ExitStack() as stack:
        for owner, name, stand_in in (
            (functional, "scaled_dot_product_attention", attention),
            (utils, "_use_triton", lambda device: True),
            (chunked_logprob, "_use_triton", lambda device: True),
            (chunked_logprob, "triton", SimpleNamespace(cdiv=lambda size, block: -(-size // block))),
            (chunked_logprob, "_forward_kernel", _Kernel()),
            (chunked_logprob, "_backward_kernel", _Kernel()),
            (chunked_logprob, "_addmm_fp32", lambda total, left, right: None),  # cuBLAS adds to fp32 in place
        ):
            stack.enter_context(replaced(owner, name, stand_in))
        yield


class _Kernel:
    """A Triton kernel: launched on a grid, it works in place and allocates nothing."""

    def __getitem__(self, grid: Any) -> Any:
        return lambda *_, **__: None


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Scaled dot product by the kernel that torch picks on CUDA: flash, else memory-efficient, else plain mathematics.

    Flash takes 16 bits and no mask; memory-efficient takes no grouped heads (sdp_utils.cpp).
    """
    import torch

    aten = torch.ops.aten
    if attn_mask is None and query.dtype is not torch.float32 and query.shape[-1] <= FLASH_HEAD_UP_TO:
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if enable_gqa:
        plain = aten._scaled_dot_product_attention_math.default
        return plain(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=True)[0]
    bias = None if attn_mask is None else _as_bias(attn_mask, query, key)
    keeps = torch.is_grad_enabled() and any(each.requires_grad for each in (query, key, value))
    efficient = aten._scaled_dot_product_efficient_attention.default
    return efficient(query, key, value, bias, keeps, dropout_p, is_causal, scale=scale)[0]


def _flash(query: Any, key: Any, value: Any, dropout: float, is_causal: bool, scale: float | None) -> Any:
    """Heads whose width is no multiple of eight are padded first, and the output cut (sdp_utils and attention.cpp)."""
    import torch
    from torch.nn.functional import pad

    width = query.shape[-1]
    lacking = -width % 8
    if lacking:
        scale = width**-0.5 if scale is None else scale
        query, key, value = (pad(each, (0, lacking)) for each in (query, key, value))
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    made = flash(query, key, value, dropout, is_causal, False, scale=scale)[0]
    return made[..., :width] if lacking else made


def _as_bias(mask: Any, query: Any, key: Any) -> Any:
    """A mask of booleans becomes one of additions, of the queries' dtype (attention.cpp)."""
    import torch

    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), float("-inf"))
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def workspaces() -> dict[Any, StandIn]:
    """Operators whose CUDA kernels allocate, or whose result's shape depends on values."""
    from torch import ops

    aten = ops.aten
    return {
        aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
        aten.embedding_dense_backward.default: _embedding_backward,
        aten.index.Tensor: _index,
    }


def _flash_backward(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Row sums and the queries' gradient in float32, and the gradients of grouped keys and values head by head.

    Source: `mha_bwd` in aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (softmax_d, dq_accum, dk/dv_expanded).
    """
    made = operator(*args, **kwargs)
    query, key = args[1], args[2]
    batch, heads, length, width = query.shape
    rows, columns = _up(length, 128), _up(width, 32 if width <= 128 else 64)
    sizes = [4 * batch * heads * rows, 4 * batch * rows * heads * columns]
    if key.shape[1] != heads:
        sizes += [batch * key.shape[2] * heads * width * query.element_size()] * 2
    tracker.transient(made, sizes)
    return made


def _embedding_backward(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Indices sorted, with where they came from, and the sort's own copies: four times int64 (Embedding.cu)."""
    made = operator(*args, **kwargs)
    tracker.transient(made, [8 * args[1].numel()] * 4)
    return made


def _index(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A mask of labelled positions picks all of them: every position that is left has a label, in data without padding."""
    import torch

    source, (mask, *others) = args[0], args[1]
    if others or mask is None or mask.dtype is not torch.bool:
        return operator(*args, **kwargs)
    places = torch.empty((mask.ndim, mask.numel()), dtype=torch.int64, device=mask.device)
    return tracker.within(operator, source, list(places.view(mask.ndim, *mask.shape).flatten(1).unbind(0)))


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
