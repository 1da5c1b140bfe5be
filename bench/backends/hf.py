"""The Hugging Face stack: transformers, peft, trl's `SFTTrainer`, and bitsandbytes for 4 bits, as a user would run them.

In: a cell. Out: a run, or the reason why there is none. This file holds the door and its refusals; `hf_build` makes the
model, `hf_train` trains it, `hf_watch` looks on, `hf_serve` serves it, `hf_readback` says what was really used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from bench.backends import hf_device, hf_limit
from bench.backends.hf_build import attach_adapters, build
from bench.backends.hf_serve import serve
from bench.backends.hf_train import train
from bench.backends.interface import Held, Session, absent
from bench.data import Batches
from bench.events import Counters
from bench.model import FAMILIES
from bench.record import Outcome
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
    (r"can't allocate memory|DefaultCPUAllocator|Cannot allocate memory|std::bad_alloc", "oom_host"),
    (r"out of memory|(CUBLAS|CUDNN|CUSPARSE|CUSOLVER)_STATUS_ALLOC_FAILED|Invalid buffer size: ", "oom_device"),
    (
        r"device-side assert|unspecified launch failure|illegal memory access|launch timed out|uncorrectable"
        r"|device is lost|device lost|GPU is lost|device\(s\) is/are busy or unavailable|hardware error",
        "device_lost",
    ),
)
"""What the messages of torch's runtime errors stand for; the first that matches holds. Sources: c10's `alloc_cpu.cpp` and
`CUDACachingAllocator.cpp`, `MPSAllocator.mm` (which refuses a buffer larger than Metal's largest by its size), glibc's
`strerror(ENOMEM)`, and the strings of CUDA's `cudaGetErrorString`, which bitsandbytes prints before it ends the process."""


PACKAGES = ("torch", "transformers", "peft", "trl", "bitsandbytes", "datasets", "accelerate")


class HuggingFace:
    """transformers + peft + trl on CUDA, MPS or the CPU. Satisfies `bench.backends.interface.Backend`."""

    name: BackendName = "hf"
    devices: tuple[Device, ...] = ("cuda", "mps", "cpu")
    distributions: tuple[str, ...] = (*PACKAGES, "tokenizers", "triton")
    extras: Mapping[Device, str] = MappingProxyType({"cuda": "cuda", "mps": "hf-mps", "cpu": "cpu"})

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

    def limit_memory(self, device: Device, capacity_bytes: int) -> Held:
        """By torch's allocators on a GPU, by the kernel or by accounting on the CPU: see `hf_limit`."""
        return hf_limit.hold(device, capacity_bytes)

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        """Build the model; train it with its adapters, or serve. Raises `UnsupportedError` for what only torch can tell."""
        started_s = time.perf_counter()
        model = build(cell, session)
        hf_device.synchronize(cell.device)
        build_s = time.perf_counter() - started_s
        if cell.workload.serves:
            return serve(model, cell, batches, session, started_s=started_s, build_s=build_s)
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
    counted = family in FAMILIES
    width, heads = config.get("hidden_size"), config.get("num_attention_heads")
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
        (
            family in ("llama", "gemma3_text") and bool(width and heads and width % heads),
            f"transformers' {family} wants hidden_size {width} to be a multiple of its {heads} heads",
        ),
        (
            family == "gemma3_text" and config.get("attn_logit_softcapping") is not None,
            "transformers' gemma3_text caps no scores of attention (attn_logit_softcapping)",
        ),
    )


def _implementation_refused(cell: Cell) -> tuple[tuple[bool, str], ...]:
    """What of the implementation asked for this stack does not have, each with its reason."""
    work, asked = cell.workload, cell.implementation
    return (
        (
            work.quantization_bits is not None and asked.quantization_format == "affine",
            "bitsandbytes has no affine groups: use nf4 or nf4-double",
        ),
        (
            work.optimizer == "adamw_8bit" and asked.optimizer_kernel is not None,
            f"bitsandbytes' 8-bit optimizer has one kernel, neither foreach nor fused ({asked.optimizer_kernel} was asked for)",
        ),
        (
            work.serves and bool(asked.compile) and cell.device != "cuda",
            f"transformers compiles generation on CUDA, not on {cell.device}",
        ),
        (asked.checkpointing == "unsloth", "hf checkpoints as torch does; unsloth's own way is its own backend's"),
        *_kernels_refused(cell),
    )


def _kernels_refused(cell: Cell) -> tuple[tuple[bool, str], ...]:
    """Kernels that are for one device, for 16 bits or for training alone."""
    work, asked = cell.workload, cell.implementation
    flash, packaged, liger = (asked.attention == "flash", asked.attention == "flash-attn", asked.kernels == "liger")
    return (
        (packaged and cell.device != "cuda", f"the package flash-attn computes on CUDA, not on {cell.device}"),
        (flash and cell.device == "mps", "torch has no flash kernel on MPS"),
        (
            (packaged or (flash and cell.device == "cuda")) and work.weights_dtype == "float32",
            f"{asked.attention} attention computes in 16 bits on CUDA, not in float32",
        ),
        (liger and cell.device != "cuda", f"Liger's kernels are Triton's, which hf has on CUDA, not on {cell.device}"),
        (work.serves and (flash or liger), "hf holds attention to the flash kernel, and puts Liger's in, in training alone"),
    )
