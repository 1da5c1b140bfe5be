"""What a published row proves: the cells that it may have measured, and which of its figures can be used.

In: a `Cited` row. Out: an `Observation`: one cell where the source states every condition, several where it leaves some open (a
prediction is then taken over all of them, and its interval is wider), or the reason why the row is left out. Nothing is guessed
silently: every open condition is named in `missing`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from bench.catalog import MachineProfile
from bench.cited import Cited
from bench.model import Model
from bench.predict.cited_machines import hardware_of
from bench.predict.cited_models import model_named
from bench.predict.cited_stacks import Stack, stack_of
from bench.predict.cited_terms import bits_of, method_of, modules_of, optimizer_of, undeclarable
from bench.predict.resident import weights_bytes
from bench.predict.shape import shape_of
from bench.spec import Attention, Cell, Implementation, OptimizerKernel, workload

BELOW, ABOVE = 0.5, 1.5
"""Of the weights, and of the capacity: what a peak may miss by layouts that are not ours, and by capacities that were raised."""
RANKS, CHOSEN_MODULES = (8, 64), ("q_proj,v_proj", "all")
"""What stands for an unstated rank and choice of modules: the ends of what people use."""
LENGTHS = (256, 512, 1024, 2048)
"""What stands for the unstated length of a training text."""
LONGEST = re.compile(r"longest sample (\d+) tok")
CAPPED = re.compile(
    r"\bcap\b|short samples|Alpaca|LAION|OASST|SlimOrca|wikisql|no packing|TGS|unpacked|user dataset", re.IGNORECASE
)
"""Notes that say of `seq_len` that it is an upper bound of texts of other lengths."""
CUT = "most samples are cut"
"""Then the bound is reached, if not by every text."""
LAYERS = re.compile(r"(\d+)(?: LoRA)? layers")
MLX_LAYERS = 16
"""Blocks from the last that mlx-lm's trainer adapts by default."""


SAME_SIZE = math.log(1.15)
"""Sources round parameters, and count embeddings or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One measurement with the cells that it may be of.

    `stack` is the stack whose rules apply; `own` says whether it is that very stack, or another that computes alike. `missing`
    are the conditions that the source leaves open and that may matter. `peak_bytes` is what `meter` says; `tokens_per_s` is of
    one device, all positions. `capacity_bytes` is the device's. `logit_bytes` are what the loss took for each of all logits,
    zero where it was a fused one. `varied`: texts of several lengths, up to that of the cells.
    """

    id: str
    family: str
    source: str
    stack: str
    framework: str
    own: bool
    cells: tuple[Cell, ...]
    missing: tuple[str, ...]
    logit_bytes: int
    machine: MachineProfile | None = None
    capacity_bytes: int | None = None
    meter: str | None = None
    peak_bytes: int | None = None
    tokens_per_s: float | None = None
    watts: float | None = None
    outcome: str | None = None
    tier: str = "published"
    varied: bool = False

    @property
    def stated(self) -> bool:
        """Whether the source states every condition, and its stack is one of ours."""
        return self.conditions == "stated"

    @property
    def conditions(self) -> str:
        """`stated`, `open conditions`, or `another stack`: rows of different kinds teach different things."""
        if not self.own:
            return "another stack"
        return "open conditions" if self.missing or self.meter == "unstated" else "stated"


def observe(row: Cited) -> Observation | str:
    """What the row proves, or why nothing."""
    stack = stack_of(row)
    hardware = hardware_of(row, stack.device)
    refused = row.unusable or stack.refused or hardware.refused or _refused(row, stack)
    if refused is not None:
        return refused
    cells, missing = _cells(row, stack)
    impossible = _impossible(row, cells, hardware.capacity_bytes)
    if impossible is not None:
        return impossible
    if row.tokens_per_s is None and row.peak_mem_bytes is None and row.outcome == "ok" and hardware.capacity_bytes is None:
        return "no figure to compare"
    return Observation(
        id=row.id,
        family=row.family,
        source=row.source,
        stack=stack.rules,
        framework=row.framework or "",
        own=stack.own,
        cells=cells,
        missing=missing,
        logit_bytes=stack.logit_bytes,
        machine=hardware.profile,
        capacity_bytes=hardware.capacity_bytes,
        meter=row.meter,
        peak_bytes=row.peak_mem_bytes if row.outcome == "ok" else None,
        tokens_per_s=None if row.tokens_per_s is None else row.tokens_per_s / hardware.count,
        watts=row.watts,
        outcome=row.outcome,
        varied=bool(CAPPED.search(row.notes or "") or CUT in (row.notes or "") or row.seq_len is None),
    )


def _impossible(row: Cited, cells: Sequence[Cell], capacity_bytes: int | None) -> str | None:
    """Why a peak cannot be what it says: below what the weights alone take, or above what the device has."""
    if row.peak_mem_bytes is None or row.outcome != "ok" or row.meter == "mlx_marginal":
        return None
    least = min(weights_bytes(cell, shape_of(cell.workload.model)) for cell in cells)
    if row.peak_mem_bytes < BELOW * least:
        return f"its peak is below the weights of the model ({least / 1e9:.2g} GB): another unit, or another meter"
    if capacity_bytes is not None and row.peak_mem_bytes > ABOVE * capacity_bytes:
        return "its peak is above what its device has: another unit, or several devices"
    return None


def rate_usable(seen: Observation) -> bool:
    """Whether the observation has a rate, of texts whose length has a bound at least, on a machine whose rates are known."""
    machine = seen.machine
    lengths = {cell.workload.sequence_length for cell in seen.cells}
    rated = machine is not None and machine.rated_flops_per_s is not None
    return seen.tokens_per_s is not None and rated and len(lengths) < len(LENGTHS)


def _refused(row: Cited, stack: Stack) -> str | None:
    """The first of what stands in the way."""
    model = model_named(row.model or "")
    if method_of(row) is not None and model is None:
        return "model: no architecture known here for the name"
    return undeclarable(row, affine=stack.backend == "mlx") or (None if model is None else _misnamed(row, model))


def _misnamed(row: Cited, model: Model) -> str | None:
    """A name found by rule is held to the size that the source prints beside it."""
    known = shape_of(model).parameters / 1e9
    if row.params_b is None or abs(math.log(row.params_b / known)) < SAME_SIZE:
        return None
    return f"model: {row.model} has {known:.3g} billion parameters here, and {row.params_b:.3g} in the source"


def _cells(row: Cited, stack: Stack) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """Every cell that the row may be of, and what it leaves open."""
    choices: dict[str, Sequence[Any]] = {
        "sequence_length": _lengths(row),
        "batch_size": (row.batch,) if row.batch else (1, 4),
        "gradient_checkpointing": _checkpointing(row),
    }
    missing = [_named(name) for name, values in choices.items() if len(values) > 1]
    method = method_of(row)
    fixed: dict[str, Any] = {"model": model_named(row.model or ""), "method": method, "weights_dtype": "bfloat16"}
    fixed |= {"quantization_bits": bits_of(row)} if method == "qlora" else {}
    fixed |= {"optimizer": optimizer_of(row), "gradient_accumulation": row.grad_accum or 1}
    if method == "full":
        missing += [] if row.optimizer else ["optimizer"]
    else:
        choices |= {"rank": (row.lora_rank,) if row.lora_rank else RANKS, "modules": _modules(row)}
        missing += [_named(name) for name in ("rank", "modules") if len(choices[name]) > 1]
        fixed |= {"adapter_dtype": stack.adapter_dtype, "adapter_layers": _adapter_layers(row, stack)}
    names, values = list(choices), product(*choices.values())
    made = [workload(**fixed, **dict(zip(names, each, strict=True))) for each in values]
    missing += ["attention kernel"] if len(stack.attentions) > 1 else []
    missing += stack.missing
    ways = [_way(row, stack, attention) for attention in stack.attentions]
    return tuple(Cell(each, stack.backend, stack.device, way) for each in made for way in ways), tuple(missing)


def _way(row: Cited, stack: Stack, attention: Attention | None) -> Implementation:
    """Unsloth's own checkpointing only where the row says so; unstated, unsloth takes it by default."""
    plain = row.grad_checkpointing == "yes" and stack.backend == "unsloth"
    checkpointing = "unsloth" if row.grad_checkpointing == "unsloth" else stack.implementation.checkpointing
    kernel: OptimizerKernel | None = "fused" if "fused" in (row.optimizer or "").lower() else None
    checkpointing = None if plain else checkpointing
    return replace(stack.implementation, attention=attention, checkpointing=checkpointing, optimizer_kernel=kernel)


def _lengths(row: Cited) -> Sequence[int]:
    """The length of the longest text of a batch: as stated, else what it may be."""
    notes = row.notes or ""
    longest = LONGEST.search(notes)
    if longest:
        return (int(longest.group(1)),)
    if row.seq_len is None:
        return LENGTHS
    if CUT in notes or not CAPPED.search(notes):
        return (row.seq_len,)
    return (row.seq_len // 2, row.seq_len)  # a peak is made by the longest batch, which comes near the bound


def _checkpointing(row: Cited) -> Sequence[bool]:
    return (True, False) if row.grad_checkpointing is None else (row.grad_checkpointing != "no",)


def _modules(row: Cited) -> Sequence[str]:
    stated = modules_of(row.lora_targets)
    return CHOSEN_MODULES if stated is None else (stated,)


def _adapter_layers(row: Cited, stack: Stack) -> int | None:
    """mlx-lm adapts the last blocks only, unless told otherwise."""
    if stack.backend != "mlx":
        return None
    told = LAYERS.search(row.notes or "")
    return int(told.group(1)) if told else MLX_LAYERS


def _named(name: str) -> str:
    return name.replace("_", " ")
