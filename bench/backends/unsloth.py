"""The `unsloth` backend: its patched trl on CUDA, and its MLX trainer on Apple silicon.

In: a cell. Out: a run, or the reason why there is none. This file holds the door and its refusals; `unsloth_cuda` and
`unsloth_apple` do the work, each on the models of this project's other backends, so that the weights, the tokens and the adapted
modules are the same. On the CPU unsloth falls back on stock transformers, which says nothing of unsloth: there it is refused, and
kept from falling back.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from shutil import rmtree
from tempfile import mkdtemp
from types import MappingProxyType

from bench.backends import hf_limit
from bench.backends.hf import ENVIRONMENT as OFFLINE
from bench.backends.hf import PACKAGES as TORCH_PACKAGES
from bench.backends.hf import HuggingFace
from bench.backends.interface import Held, Session, UnsupportedError, absent
from bench.backends.mlx import Mlx
from bench.data import Batches
from bench.events import Counters
from bench.record import Outcome
from bench.spec import BackendName, Cell, Device

ENVIRONMENT = {
    **{name: value for name, value in OFFLINE.items() if name != "ACCELERATE_MIXED_PRECISION"},
    "UNSLOTH_DISABLE_CPU_FALLBACK": "1",
    "UNSLOTH_DISABLE_STATISTICS": "1",
    "UNSLOTH_DISABLE_AUTO_PADDING_FREE": "1",
    "UNSLOTH_DISABLE_FLOAT32_UPCAST": "1",
}
"""No network and no counting of downloads; batches in the shape in which they were given; norms in their declared dtype, where a
full fine-tune would make them float32. Autocast is unsloth's own choice, which it makes through accelerate's variable."""

OWN_CHECKPOINTING_TOKENS = 512
"""Below this length unsloth takes torch's checkpointing whatever was asked (`apply_unsloth_gradient_checkpointing`)."""

PACKAGES: Mapping[Device, tuple[str, ...]] = {
    "cuda": ("unsloth", "unsloth_zoo", *TORCH_PACKAGES, "triton"),
    "metal": ("unsloth", "unsloth_zoo", "mlx", "mlx_lm", "transformers", "datasets"),
}

Refusals = tuple[tuple[bool, str], ...]


class Unsloth:
    """unsloth on CUDA and, through MLX, on Metal. Satisfies `bench.backends.interface.Backend`."""

    name: BackendName = "unsloth"
    devices: tuple[Device, ...] = ("cuda", "metal")
    distributions: tuple[str, ...] = (
        *("unsloth", "unsloth_zoo", *TORCH_PACKAGES, "tokenizers", "triton", "xformers", "flash-attn", "torchao"),
        *("cut-cross-entropy", "mlx", "mlx-lm", "mlx-vlm", "mlx-metal", "numpy"),
    )
    extras: Mapping[Device, str] = MappingProxyType({"cuda": "cuda-unsloth", "metal": "mac-unsloth"})

    def __init__(self) -> None:
        self._device: Device | None = None

    def missing(self, device: Device) -> list[str]:
        return absent(*PACKAGES.get(device, PACKAGES["cuda"]))

    def refuses(self, cell: Cell) -> str | None:
        """The first reason why the cell cannot be done exactly as declared; None if it can."""
        own = next((reason for check in CHECKS for refused, reason in check(cell) if refused), None)
        return own or _refused_below(cell)

    def prepare(self) -> None:
        """Import unsloth before anything that it patches. Raises UnsupportedError where it finds no GPU."""
        compiled = mkdtemp(prefix="wingspan-unsloth-")  # else it writes into the working folder
        atexit.register(rmtree, compiled, ignore_errors=True)
        os.environ.update(ENVIRONMENT)
        os.environ["UNSLOTH_COMPILE_LOCATION"] = compiled
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
        try:
            import_module("unsloth")
        except NotImplementedError as error:  # what unsloth_zoo raises without an accelerator
            raise UnsupportedError(f"unsloth finds no GPU here: {error}") from error
        if "mlx" not in _device_type():
            import_module("trl.trainer.sft_trainer")

    def limit_memory(self, device: Device, capacity_bytes: int) -> Held:
        """As on the backend below: torch's allocator on CUDA, accounting on Metal."""
        return Mlx().limit_memory(device, capacity_bytes) if device == "metal" else hf_limit.hold(device, capacity_bytes)

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        self._device = cell.device
        part = "unsloth_apple" if cell.device == "metal" else "unsloth_cuda"
        counters: Counters = import_module(f"bench.backends.{part}").run(cell, batches, session)
        return counters

    def fault(self, error: BaseException) -> Outcome | None:
        """Torch's messages and MLX's, read as on their own backends; no message of one is one of the other's."""
        return HuggingFace().fault(error) or (Mlx("metal").fault(error) if self._device != "cuda" else None)


def _device_type() -> str:
    """`cuda` or `mlx`, as unsloth calls what it found."""
    return str(getattr(sys.modules["unsloth"], "DEVICE_TYPE", ""))


def _place_refused(cell: Cell) -> Refusals:
    return (
        (
            cell.device == "cpu",
            "on the CPU unsloth falls back on stock transformers, with none of its kernels: measure hf@cpu",
        ),
        (cell.device not in Unsloth.devices, f"unsloth does not run on {cell.device}"),
        (
            cell.workload.serves,
            "unsloth's fast inference is not measured: it needs vLLM, which no extra brings; serve with hf or mlx",
        ),
    )


def _work_refused(cell: Cell) -> Refusals:
    """What unsloth would do otherwise than declared, without a word."""
    work, cuda = cell.workload, cell.device == "cuda"
    longest = work.model.config.get("max_position_embeddings")
    return (
        (work.quantization_bits == 8, "unsloth quantises to 4 bits only here: 8-bit weights are not wired up"),
        (
            bool(cuda and longest and work.sequence_length > longest),
            f"unsloth stretches the rotary embedding beyond {longest} positions, and others do not",
        ),
        (
            cuda and work.weights_dtype == "float32",
            "unsloth computes in 16 bits under autocast where weights are float32: declare bfloat16, with master_dtype float32",
        ),
        (
            work.method == "full" and work.weights_dtype == "float16" and work.master_dtype is None,
            "unsloth trains float16 weights in float32: declare master_dtype float32 (CUDA), or bfloat16",
        ),
        (
            not cuda and work.optimizer == "adamw_8bit",
            "unsloth's 8-bit AdamW on MLX packs its moments in another way than bitsandbytes: not wired up",
        ),
    )


def _implementation_refused(cell: Cell) -> Refusals:
    """Kernels are unsloth's own choice; what it chose is recorded in the run."""
    work, asked, cuda = cell.workload, cell.implementation, cell.device == "cuda"
    own = work.gradient_checkpointing and asked.checkpointing == "unsloth"
    return (
        (asked.attention is not None, f"unsloth chooses its attention by itself: {asked.attention} cannot be asked of it"),
        (asked.kernels is not None, f"unsloth brings its own kernels: {asked.kernels} cannot be put in their place"),
        (cuda and asked.compile is not None, "unsloth compiles what it chooses: leave compile out"),
        (
            cuda and own and work.sequence_length < OWN_CHECKPOINTING_TOKENS,
            f"unsloth takes torch's checkpointing below {OWN_CHECKPOINTING_TOKENS} tokens",
        ),
        (
            not cuda and asked.checkpointing == "torch",
            "on MLX unsloth checkpoints by mx.checkpoint, never by torch's checkpointing",
        ),
    )


def _refused_below(cell: Cell) -> str | None:
    """What the stack under unsloth cannot do either. Who checkpoints is settled by then."""
    asked = replace(cell.implementation, checkpointing=None)
    backend = HuggingFace() if cell.device == "cuda" else Mlx()
    return backend.refuses(replace(cell, implementation=asked))


CHECKS: tuple[Callable[[Cell], Refusals], ...] = (_place_refused, _work_refused, _implementation_refused)
