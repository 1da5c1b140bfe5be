"""What stands between a Hugging Face stack and torch's fake tensors, put aside while a step is traced.

In: a fake mode. Out: contexts in which transformers, peft and bitsandbytes build and train on tensors that have shapes and no
values. Where a value is asked for, it is the one that unpadded data would give. Found with torch 2.13, transformers 5.24, peft
0.21, bitsandbytes 0.50; the tests that compare a fake step with a real one tell when one of these has moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.backends.hf_weights import Values
from bench.backends.storages import StandIn, Tracker
from bench.spec import Cell


def fake_values(mode: Any) -> Any:
    """A source of weights for `hf_build.build`: of the right shape and dtype, and without values."""

    def source(model: Any, cell: Cell) -> Values:
        def values(name: str, empty: Any) -> Any:
            import torch

            with mode:
                return torch.empty(empty.shape, dtype=empty.dtype, device="cpu")

        return values

    return source


@contextmanager
def made_traceable() -> Iterator[None]:
    """Within it, the stack takes fake tensors for tensors."""
    import bitsandbytes
    from bitsandbytes import functional as bnb
    from torch import nn
    from transformers import masking_utils

    with ExitStack() as stack:
        # A mask is built where one sees fake tensors, since its absence cannot be compiled; unpadded data has none.
        stack.enter_context(replaced(masking_utils, "is_tracing", lambda tensor=None: False))
        stack.enter_context(replaced(nn.Module, "_apply", _apply))
        stack.enter_context(replaced(bitsandbytes.nn, "Params4bit", _Unpacked))
        stack.enter_context(replaced(bnb, "create_dynamic_map", _dynamic_map))
        stack.enter_context(replaced(bnb, "name2qmap", {}))
        yield


@contextmanager
def replaced(owner: Any, name: str, stand_in: Any) -> Iterator[None]:
    """An attribute is another one for a while; one that was not there is taken away again."""
    missing = object()
    kept = vars(owner).get(name, missing)
    setattr(owner, name, stand_in)
    try:
        yield
    finally:
        if kept is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, kept)


def answers() -> dict[Any, StandIn]:
    """For each question about a tensor's value, an answer: yes, or one. For the one about its device, the short way."""
    from torch import ops

    return {ops.aten._local_scalar_dense.default: _one, ops.prim.device.default: _device}


def _one(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Every test is true, as it is of data without padding, and every number is one."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if not isinstance(args[0], FakeTensor):
        return operator(*args, **kwargs)
    if args[0].dtype is torch.bool:
        return True
    return 1.0 if args[0].is_floating_point() else 1


def _device(tracker: Tracker, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where a fake tensor pretends to be: asked for so often that dispatching the question takes a seventh of a trace."""
    asked = args[0]
    return operator(*args, **kwargs) if asked.fake_mode.in_kernel_invocation else asked.fake_device


def _apply(module: Any, change: Any, recurse: bool = True) -> Any:
    """`nn.Module._apply` with new parameters in place of old ones: torch's own swaps tensors, which fake ones refuse."""
    import torch

    for child in module.children() if recurse else ():
        child._apply(change)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            with torch.no_grad():
                changed = change(parameter)
            if changed is not parameter:
                module._parameters[name] = torch.nn.Parameter(changed, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = change(buffer)
    return module


class _Unpacked:
    """In place of bitsandbytes' `Params4bit`, a subclass of Tensor's that fake tensors cannot be made into.

    Moved to a device it becomes a plain parameter with what bitsandbytes and peft look for on theirs.
    """

    def __init__(self, values: Any, *, module: Any, quant_storage: Any, **asked: Any) -> None:
        self._values, self._layer, self._storage, self._asked = values, module, quant_storage, asked

    def to(self, device: Any) -> Any:
        from bitsandbytes import functional as bnb
        from torch._guards import detect_fake_mode
        from torch.nn import Parameter

        kind, nested = self._asked["quant_type"], self._asked["compress_statistics"]
        with detect_fake_mode([self._values]):
            packed, state = bnb.quantize_4bit(
                self._values, blocksize=64, compress_statistics=nested, quant_type=kind, quant_storage=self._storage
            )
        weight = Parameter(packed, requires_grad=False)
        weight.quant_state = self._layer.quant_state = state
        weight.blocksize, weight.quant_type, weight.compress_statistics = state.blocksize, kind, nested
        weight.quant_storage, weight.bnb_quantized, weight.module = self._storage, True, self._layer
        return weight


def _dynamic_map(*_: Any, **__: Any) -> Any:
    """Bitsandbytes' code book of 256 values, whose making depends on values."""
    import torch

    return torch.empty(256, device="cpu")
