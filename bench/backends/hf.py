"""The Hugging Face stack: transformers, peft, trl's `SFTTrainer`, and bitsandbytes for 4 bits, as a user would run them.

In: a cell. Out: a run, or the reason why there is none. This file holds the door and its refusals; `hf_build` makes the
model, `hf_train` trains it, `hf_watch` looks on, `hf_readback` says what was really used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from bench.backends import hf_device
from bench.backends.hf_build import attach_adapters, build
from bench.backends.hf_train import train
from bench.backends.interface import Session, absent
from bench.data import Batches
from bench.record import Counters, Outcome
from bench.spec import BackendName, Cell, Device

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "ACCELERATE_MIXED_PRECISION": "no",
    "BITSANDBYTES_NOWELCOME": "1",
}
"""No network, no telemetry, no bars; autocast only where the workload declares it."""

IMPORTED = ("bitsandbytes", "peft", "transformers.models.auto.modeling_auto", "trl.trainer.sft_trainer")
"""What takes seconds to import. transformers and trl are lazy, so their parts are named: these seconds are no load time."""

FAULTS: tuple[tuple[str, Outcome], ...] = (
    (r"can't allocate memory|DefaultCPUAllocator", "oom_host"),
    (r"out of memory|CUBLAS_STATUS_ALLOC_FAILED", "oom_device"),
    (
        r"device-side assert|unspecified launch failure|illegal memory access|launch timed out|uncorrectable"
        r"|device is lost|device lost|GPU is lost|device\(s\) is/are busy or unavailable|hardware error",
        "device_lost",
    ),
)
"""What the messages of torch's runtime errors stand for; the first that matches holds. Sources: c10's `alloc_cpu.cpp` and
`CUDACachingAllocator.cpp`, and the strings of CUDA's `cudaGetErrorString`."""


PACKAGES = ("torch", "transformers", "peft", "trl", "bitsandbytes", "datasets", "accelerate")


class HuggingFace:
    """transformers + peft + trl on CUDA, MPS or the CPU. Satisfies `bench.backends.interface.Backend`."""

    name: BackendName = "hf"
    devices: tuple[Device, ...] = ("cuda", "mps", "cpu")
    distributions: tuple[str, ...] = (*PACKAGES, "tokenizers", "triton")
    extras: Mapping[Device, str] = MappingProxyType({"cuda": "cuda", "mps": "cpu", "cpu": "cpu"})

    def missing(self, device: Device) -> list[str]:
        return absent(*PACKAGES)

    def refuses(self, cell: Cell) -> str | None:
        """The first reason why the cell cannot be done exactly as declared; None if it can."""
        reasons = (*_work_refused(cell), *_architecture_refused(cell), *_implementation_refused(cell))
        return next((reason for refused, reason in reasons if refused), None)

    def prepare(self) -> None:
        """Import the stack, offline and quiet. Where several GPUs are visible and none was chosen, the first is taken."""
        os.environ.update(ENVIRONMENT)
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
        for module in IMPORTED:
            import_module(module)
        import datasets
        import transformers

        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        """Build the model, attach adapters, train. Raises `UnsupportedError` for what shows only once torch is there."""
        started_s = time.perf_counter()
        model = build(cell, session)
        hf_device.synchronize(cell.device)
        build_s = time.perf_counter() - started_s
        model = attach_adapters(model, cell.workload)
        return train(model, cell, batches, session, started_s=started_s, build_s=build_s)

    def fault(self, error: BaseException) -> Outcome | None:
        """The outcome that an exception stands for, read from its kind and its message."""
        if type(error).__name__ == "OutOfMemoryError":
            return "oom_device"
        if not isinstance(error, RuntimeError):
            return None
        return next((outcome for pattern, outcome in FAULTS if re.search(pattern, str(error), re.IGNORECASE)), None)


def _work_refused(cell: Cell) -> tuple[tuple[bool, str], ...]:
    """What of the workload this stack cannot do, each with its reason."""
    work = cell.workload
    blocks = work.model.config.get("num_hidden_layers")
    return (
        (cell.device not in HuggingFace.devices, f"hf does not run on {cell.device}"),
        (work.method == "serve", "hf does not serve yet: it trains"),
        (work.quantization_bits == 8, "hf quantises to 4 bits only: 8-bit weights (LLM.int8) are not wired up"),
        (
            work.optimizer_dtype not in (None, work.trainable_dtype),
            f"torch keeps optimizer state in the dtype of the parameters, {work.trainable_dtype}, not {work.optimizer_dtype}",
        ),
        (
            work.optimizer == "adamw" and work.trainable_dtype == "float16",
            "AdamW's epsilon of 1e-8 is zero in float16, the dtype of what is trained: the first updates would be infinite",
        ),
        (
            work.master_dtype is not None and work.weights_dtype == "float16" and cell.device == "cpu",
            "accelerate has no float16 autocast on the CPU",
        ),
        (
            work.optimizer == "adamw_8bit" and cell.device == "mps",
            "bitsandbytes has no 8-bit optimizer on MPS",
        ),
        (
            bool(work.adapter_layers and blocks and work.adapter_layers > blocks),
            f"adapters on the last {work.adapter_layers} blocks of a model that has {blocks}",
        ),
    )


def _architecture_refused(cell: Cell) -> tuple[tuple[bool, str], ...]:
    """Settings that transformers passes over and mlx-lm honours, or that only the parameter count would show."""
    config = cell.workload.model.config
    family = config.get("model_type")
    counted = family in ("llama", "mistral", "qwen2", "qwen3")
    return (
        (
            counted and bool(config.get("rope_traditional")),
            "transformers rotates halves of a head, never neighbouring pairs (rope_traditional)",
        ),
        (
            counted and family != "llama" and bool(config.get("mlp_bias")),
            f"transformers' {family} has no biases in its MLP (mlp_bias)",
        ),
        (
            family == "mistral" and bool(config.get("attention_bias")),
            "transformers' mistral has no biases in attention (attention_bias)",
        ),
        (
            family in ("llama", "mistral") and "sliding_attention" in (config.get("layer_types") or ()),
            f"transformers' {family} makes no difference between layers (layer_types)",
        ),
    )


def _implementation_refused(cell: Cell) -> tuple[tuple[bool, str], ...]:
    """What of the implementation asked for this stack does not have, each with its reason."""
    work, asked = cell.workload, cell.implementation
    return (
        (
            work.method == "qlora" and asked.quantization_format == "affine",
            "bitsandbytes has no affine groups: use nf4 or nf4-double",
        ),
        (
            work.optimizer == "adamw_8bit" and asked.optimizer_kernel is not None,
            f"bitsandbytes' 8-bit optimizer has one kernel, neither foreach nor fused ({asked.optimizer_kernel} was asked for)",
        ),
    )
