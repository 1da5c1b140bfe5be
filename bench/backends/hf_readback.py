"""What a Hugging Face run really used, read from the objects that stand ready to train.

In: a trainer whose training is about to begin. Out: names and values for the run's `implementation` column.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bench.backends.hf_attention import USED, used
from bench.backends.interface import UnsupportedError
from bench.spec import Device, Implementation

LIGER = "liger_kernel."
ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def implementation(trainer: Any, device: Device) -> dict[str, str]:
    """The implementation as built. `trainer` is an `SFTTrainer` that has prepared its model and optimizer."""
    import torch

    model = trainer.accelerator.unwrap_model(trainer.model)
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    return {
        "attention": used(model),
        "optimizer": _optimizer_name(optimizer),
        "optimizer_kernel": _optimizer_kernel(optimizer),
        **quantization(model),
        **_kernels(model),
        "loss": _loss(device),
        "checkpointing": _checkpointing(model),
        "autocast": _or_none(trainer.accelerator.mixed_precision),
        "compile": _or_none(trainer.accelerator.state.dynamo_plugin.backend.value.lower()),
        "float32_matmul": torch.get_float32_matmul_precision(),
        "allocator": allocator(),
    }


def refuse_fallback(asked: Implementation, found: Mapping[str, str]) -> None:
    """Raises UnsupportedError where what was found is not what was asked for, so that no rung of a ladder passes for another."""
    unlike = {
        "attention": asked.attention is not None and found["attention"] != USED[asked.attention],
        "kernels": asked.kernels is not None and "kernels" not in found,
        "compile": bool(asked.compile) and found["compile"] == "none",
    }
    for name in (name for name, differs in unlike.items() if differs):
        wanted = "true" if name == "compile" else getattr(asked, name)
        raise UnsupportedError(f"{name} {wanted} was asked for, and the stack made it {found.get(name, 'none')}")


def _kernels(model: Any) -> dict[str, str]:
    """Which of Liger's kernels stand in the model, by the methods that it bound to the modules; no entry where none does."""
    forwards = [module.__dict__.get("forward") for module in model.modules()]
    family = sys.modules[type(_base(model)).__module__]
    bound = [*forwards, getattr(family, "apply_rotary_pos_emb", None)]
    kernels = {
        each.__qualname__.partition(".")[0] for each in bound if (getattr(each, "__module__", None) or "").startswith(LIGER)
    }
    return {"kernels": f"liger {version('liger-kernel')}: {', '.join(sorted(kernels))}"} if kernels else {}


def _base(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def allocator() -> str:
    """The settings of torch's allocator, as the environment gives them."""
    return next((os.environ[name] for name in ALLOCATOR_VARIABLES if os.environ.get(name)), "default")


def _optimizer_name(optimizer: Any) -> str:
    kind = type(optimizer)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _optimizer_kernel(optimizer: Any) -> str:
    """Which of torch's kernels, or how many bits in bitsandbytes' only one, which works blockwise."""
    group = optimizer.param_groups[0]
    if "fused" not in group:
        return f"{optimizer.args.optim_bits}-bit blockwise"
    return next((name for name in ("fused", "foreach") if group[name]), "for-loop")


def quantization(model: Any) -> dict[str, str]:
    """The 4-bit format, and the kinds of modules that kept their weights unquantised."""
    packed = [weight for weight in model.parameters() if getattr(weight, "quant_state", None) is not None]
    if not packed:
        return {"quantization_format": "none", "unquantised": "all"}
    suffix = "-double" if packed[0].quant_state.nested else ""
    plain = {
        name.rpartition(".")[0].rpartition(".")[2]
        for name, weight in model.named_parameters()
        if getattr(weight, "quant_state", None) is None and ".lora_" not in name
    }
    return {"quantization_format": packed[0].quant_type + suffix, "unquantised": ",".join(sorted(plain))}


def _loss(device: Device) -> str:
    """No full logits are built by trl; where Triton works, its kernels compute the tiles, elsewhere torch does."""
    tiles = "triton" if device == "cuda" and find_spec("triton") else "torch"
    return f"trl {version('trl')} nll from a tiled head ({tiles})"


def _checkpointing(model: Any) -> str:
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False) and hasattr(module, "_gradient_checkpointing_func"):
            return f"use_reentrant={str(module._gradient_checkpointing_func.keywords['use_reentrant']).lower()}"
    return "none"


def _or_none(value: str) -> str:
    return "none" if value == "no" else value
