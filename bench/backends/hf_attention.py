"""Attention in transformers: its names for it, and torch's flash kernel with nothing to fall back on.

In: what a cell asks for. Out: the name to build a model with, a context to compute in, and the name of what is really used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from bench.backends.interface import UnsupportedError
from bench.spec import Attention

PINNED = "sdpa, by the flash kernel alone"
BUILT: Mapping[Attention, str] = MappingProxyType(
    {"eager": "eager", "sdpa": "sdpa", "flash": "sdpa", "flash-attn": "flash_attention_2"}
)
"""What each is called in a model's configuration."""
USED: Mapping[Attention, str] = MappingProxyType({**BUILT, "flash": PINNED})
"""What `used` must say of each."""
NO_KERNEL = "No available kernel"
"""Torch's message where no kernel that is switched on takes the tensors (aten's `attention.cpp`)."""


@contextmanager
def held_to(attention: Attention | None) -> Iterator[None]:
    """Within it, `flash` means flash: every other kernel of torch's scaled dot product is switched off, process-wide.

    So what that kernel cannot do (a mask, float32 on CUDA, a wide head) raises UnsupportedError instead of being done otherwise.
    Any other attention is left as it is.
    """
    if attention != "flash":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel

    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            yield
    except RuntimeError as error:
        if NO_KERNEL not in str(error):
            raise
        raise UnsupportedError(
            "torch's flash kernel does not take this model's attention, and nothing may stand in for it"
        ) from error


def used(model: Any) -> str:
    """The attention of a built model, and whether torch's flash kernel is all that it may use."""
    name = str(model.config._attn_implementation)
    return PINNED if name == "sdpa" and _flash_alone() else name


def _flash_alone() -> bool:
    from torch.backends import cuda

    others = (cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled())
    return cuda.flash_sdp_enabled() and not any(others)
