"""The `mlx` backend: mlx-lm's own trainer and generators on Apple silicon, and as a control arm on the CPU and on CUDA.

In: a cell, its token batches and a session. Out: steps, or requests, and peaks. Here are the door, what is refused and how the
framework's faults are read; `mlx_architecture` knows the models, `mlx_build` makes one, `mlx_train` trains it and `mlx_serve`
serves it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from bench.backends import mlx_architecture, mlx_build, mlx_serve, mlx_train
from bench.backends.interface import Held, Session, UnsupportedError, absent
from bench.data import Batches
from bench.events import Counters, Loaded
from bench.record import Outcome
from bench.spec import BackendName, Cell, Device

CUDA_DISTRIBUTIONS = ("mlx-cuda-12", "mlx-cuda-13", "mlx-cuda")
"""What the extras of `mlx` install for CUDA, and the plain name under which it was first published."""

FAULTS: tuple[tuple[str, Outcome], ...] = (
    (r"Insufficient Memory|kIOGPUCommandBufferCallbackErrorOutOfMemory", "oom_device"),
    (r"\[metal::malloc\] Attempting to allocate \d+ bytes", "oom_device"),
    (r"\[malloc_async\] Unable to allocate", "oom_device"),
    (r"cuda\w+.* failed: out of memory", "oom_device"),
    (r"\[metal::malloc\] Resource limit", "crashed"),
    (r"kIOGPUCommandBufferCallbackError(SubmissionsIgnored|InnocentVictim|AccessRevoked|DeviceRemoved)", "device_lost"),
    (r"\[METAL\] Command buffer execution failed", "crashed"),
)
"""What MLX says, and what it means, the first match counting. Sources: mlx/backend/metal/{allocator,eval}.cpp and
mlx/backend/cuda/{allocator,utils}.cpp, and messages reported by users. A resource limit counts buffers, not bytes; a timeout,
a hang or a page fault of a command buffer is a failure to be tried again, while the four names of the sixth line say that
the device, or the process's access to it, is gone."""

HOST_OR_DEVICE = r"\[malloc(_or_wait)?\] Unable to allocate"
"""Said by the allocator of the CPU and, word for word, by that of Metal when the driver hands out no buffer."""


class Mlx:
    """The `mlx` backend."""

    name: BackendName = "mlx"
    devices: tuple[Device, ...] = ("metal", "cuda", "cpu")
    distributions: tuple[str, ...] = ("mlx", "mlx-lm", "mlx-metal", "mlx-cpu", *CUDA_DISTRIBUTIONS, "transformers", "numpy")
    extras: Mapping[Device, str] = {"metal": "mac", "cpu": "cpu", "cuda": "mlx-cuda"}

    def __init__(self, device: Device = "cpu") -> None:
        self._device: Device = device

    def missing(self, device: Device) -> list[str]:
        lacks_cuda = device == "cuda" and not any(_is_installed(name) for name in CUDA_DISTRIBUTIONS)
        return absent("mlx", "mlx_lm") + (["mlx-cuda"] if lacks_cuda else [])

    def refuses(self, cell: Cell) -> str | None:
        reasons = (check(cell) for check in CHECKS)
        return next((reason for reason in reasons if reason is not None), None)

    def prepare(self) -> None:
        for module in ("mlx.core", "mlx.nn", "mlx.optimizers", "mlx_lm.generate", "mlx_lm.tuner.trainer"):
            import_module(module)

    def limit_memory(self, device: Device, capacity_bytes: int) -> Held:
        """By accounting: MLX's own limit is a guideline that allocations pass, and the kernel's ends it by a segmentation fault.

        What counts is the peak of active memory. The buffer cache is left out, for MLX gives it back before it fails to allocate.
        """
        import mlx.core as mx

        return Held("accounting", mx.get_peak_memory)

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        self._device = cell.device
        _choose_device(cell.device)
        began_s = time.perf_counter()
        model = mlx_build.build(cell, session)
        build_s = time.perf_counter() - began_s
        if cell.workload.serves:
            model.freeze()
        else:
            mlx_build.attach_adapters(model, cell.workload)
        load_s = time.perf_counter() - began_s
        session.loaded(
            Loaded(
                load_s=load_s,
                parameters=mlx_build.count_parameters(model),
                trainable_parameters=mlx_build.count_trainable(model),
                implementation=describe(model, cell),
                build_s=build_s,
            )
        )
        return (mlx_serve.serve if cell.workload.serves else mlx_train.train)(model, cell, batches, session)

    def fault(self, error: BaseException) -> Outcome | None:
        text = str(error)
        if re.search(HOST_OR_DEVICE, text):
            return "oom_host" if self._device == "cpu" else "oom_device"
        return next((outcome for pattern, outcome in FAULTS if re.search(pattern, text)), None)


def _choose_device(device: Device) -> None:
    """Compute there from now on. MLX calls Metal and CUDA alike `gpu`, so which of them it has must be asked."""
    import mlx.core as mx

    there = {"cpu": True, "metal": mx.metal.is_available(), "cuda": mx.cuda.is_available()}
    if not there.get(device):
        raise UnsupportedError(f"MLX sees no {device} device here")
    mx.set_default_device(mx.cpu if device == "cpu" else mx.gpu)


def describe(model: Any, cell: Cell) -> dict[str, str]:
    """How this backend does the cell, read off the built model where it shows there."""
    bits = cell.workload.quantization_bits
    return {
        "attention": _attention(model),
        "quantization_format": "none" if bits is None else f"affine, groups of {mlx_build.GROUP_SIZE}",
        "unquantised": "all" if bits is None else mlx_build.unquantised_modules(model),
        "compile": mlx_train.compile_choice(cell.implementation.compile),
        **(mlx_serve.implementation(model, cell) if cell.workload.serves else _training(model, cell)),
    }


def _training(model: Any, cell: Cell) -> dict[str, str]:
    """What belongs to training alone."""
    workload = cell.workload
    checkpointing = f"mlx_lm grad_checkpoint of every {type(model.layers[0]).__name__}"
    return {
        "loss": "mlx_lm default_loss over full logits",
        "optimizer": "mlx.SGD, keeping an unused momentum" if workload.optimizer == "sgd" else "mlx.AdamW, bias-corrected",
        "checkpointing": checkpointing if workload.gradient_checkpointing else "none",
        "buffer_cache": "emptied after every micro-batch",
    }


def _attention(model: Any) -> str:
    """mlx-lm's models share one attention function; a model that does not import it computes its own."""
    module = type(model).__module__
    shared = hasattr(sys.modules[module], "scaled_dot_product_attention")
    return "mx.fast.scaled_dot_product_attention" if shared else f"as in {module}"


def _refuses_optimizer(cell: Cell) -> str | None:
    workload = cell.workload
    if workload.optimizer == "adamw_8bit":
        return "MLX has no 8-bit AdamW"
    if workload.master_dtype is not None:
        return "MLX has no autocast: weights are updated in the dtype of the forward pass, not in float32 masters"
    if workload.optimizer_dtype not in (None, workload.trainable_dtype):
        return f"MLX keeps optimizer state in the parameters' {workload.trainable_dtype}, not in {workload.optimizer_dtype}"
    return None


def _refuses_implementation(cell: Cell) -> str | None:
    asked = cell.implementation
    if asked.attention not in (None, "sdpa"):
        return f"mlx-lm always attends through mx.fast.scaled_dot_product_attention, never by {asked.attention}"
    if asked.kernels is not None:
        return f"{asked.kernels}'s kernels are Triton's, which MLX has not"
    if asked.checkpointing is not None:
        return f"mlx-lm checkpoints in its own way, not in {asked.checkpointing}'s"
    if asked.optimizer_kernel is not None:
        return f"MLX has no {asked.optimizer_kernel} optimizer kernel"
    if asked.quantization_format not in (None, "affine") and cell.workload.quantization_bits is not None:
        return f"MLX quantises in affine groups, not in {asked.quantization_format}"
    return None


def _refuses_checkpointing(cell: Cell) -> str | None:
    """Seen on MLX 0.32.4: what `mx.checkpoint` computes again draws new random numbers."""
    if cell.workload.gradient_checkpointing and cell.workload.dropout:
        return "mlx-lm's gradient checkpointing draws another dropout mask for the backward pass than the forward pass had"
    return None


def _refuses_quantization(cell: Cell) -> str | None:
    """Quantised rows must divide into groups; `mx.quantize` raises otherwise."""
    if cell.workload.quantization_bits is None:
        return None
    config = cell.workload.model.config
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    head_dim = config.get("head_dim") or (hidden // heads if hidden and heads else None)
    widths = {
        "hidden_size": hidden,
        "intermediate_size": config.get("intermediate_size"),
        "attention width": heads * head_dim if heads and head_dim else None,
    }
    size = mlx_build.GROUP_SIZE
    uneven = [f"{name} {width}" for name, width in widths.items() if width is not None and width % size]
    return f"MLX quantises in groups of {size}, which do not divide {', '.join(uneven)}" if uneven else None


def _refuses_adapters(cell: Cell) -> str | None:
    wanted, there = cell.workload.adapter_layers, cell.workload.model.config.get("num_hidden_layers")
    if wanted is not None and there is not None and wanted > there:
        return f"{wanted} blocks are to be adapted, the model has {there}"
    return None


def _refuses_architecture(cell: Cell) -> str | None:
    work = cell.workload
    return mlx_architecture.refusal(work.model.config, work.sequence_length, work.weights_dtype)


def _refuses_device(cell: Cell) -> str | None:
    return None if cell.device in Mlx.devices else f"mlx does not run on {cell.device}"


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


CHECKS: tuple[Callable[[Cell], str | None], ...] = (
    _refuses_optimizer,
    _refuses_implementation,
    _refuses_checkpointing,
    _refuses_quantization,
    _refuses_adapters,
    _refuses_architecture,
    _refuses_device,
)
