"""What a Hugging Face run really used, read from the objects that stand ready to train.

In: a trainer whose training is about to begin. Out: names and values for the run's `implementation` column.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bench.spec import Device

ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def implementation(trainer: Any, device: Device) -> dict[str, str]:
    """The implementation as built. `trainer` is an `SFTTrainer` that has prepared its model and optimizer."""
    import torch

    model = trainer.accelerator.unwrap_model(trainer.model)
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    return {
        "attention": str(model.config._attn_implementation),
        "optimizer": _optimizer_name(optimizer),
        "optimizer_kernel": _optimizer_kernel(optimizer),
        **_quantization(model),
        "loss": _loss(device),
        "checkpointing": _checkpointing(model),
        "autocast": _or_none(trainer.accelerator.mixed_precision),
        "compile": _or_none(trainer.accelerator.state.dynamo_plugin.backend.value.lower()),
        "float32_matmul": torch.get_float32_matmul_precision(),
        "allocator": next((os.environ[name] for name in ALLOCATOR_VARIABLES if os.environ.get(name)), "default"),
    }


def _optimizer_name(optimizer: Any) -> str:
    kind = type(optimizer)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _optimizer_kernel(optimizer: Any) -> str:
    """Which of torch's kernels, or how many bits in bitsandbytes' only one, which works blockwise."""
    group = optimizer.param_groups[0]
    if "fused" not in group:
        return f"{optimizer.args.optim_bits}-bit blockwise"
    return next((name for name in ("fused", "foreach") if group[name]), "for-loop")


def _quantization(model: Any) -> dict[str, str]:
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
