"""Which of our stacks a published framework computes like.

In: a `Cited` row. Out: a `Stack`: the backend and implementation whose rules apply to it, whether it is that very stack or
another that computes alike, and what its loss stood on; or why no rules apply. fms-acceleration's baseline casts the
unquantised rest of a 4-bit model to float32 first (k-bit preparation), which no cell can declare: so it is another stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from bench.cited import Cited
from bench.spec import Attention, BackendName, Device, Dtype, Implementation


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """`rules` names the stack in calibration and score card. `logit_bytes` are those that the loss takes for each of all
    logits, zero where it never makes them all. `attentions` are the kernels that it may have used, None for the default.
    `missing` are conditions of the stack that the source leaves open. `refused` says why a framework has no rules here.
    """

    rules: str = "hf"
    backend: BackendName = "hf"
    device: Device = "cuda"
    own: bool = True
    logit_bytes: int = 0
    adapter_dtype: Dtype = "float32"
    implementation: Implementation = field(default_factory=Implementation)
    attentions: tuple[Attention | None, ...] = (None,)
    missing: tuple[str, ...] = ()
    refused: str | None = None


UNSLOTH = Stack(rules="unsloth", backend="unsloth", implementation=Implementation(checkpointing="unsloth"))
MLX = Stack(rules="mlx", backend="mlx", device="metal")
FULL_LOGITS_BYTES, FAST_LOGITS_BYTES = 14, 8
"""Bytes a logit of losses over all logits. transformers before trl's fused one: those in 16 bits, and in float32 log-softmax
and two gradients (`rules_hf`). fms-acceleration's (read: fms_acceleration_foak/kernels/unsloth/cross_entropy_loss.py,
`FastForCausalLMLoss`): float32 logits and their shifted copy, into which the gradient is written. That 8 fit the rows was seen
before the source was read. """
ALIKE = Stack(own=False, logit_bytes=FULL_LOGITS_BYTES, adapter_dtype="bfloat16")
"""torch with the trainer's own modules and adapters in 16 bits: torchtune, litgpt, fsdp_qlora."""
FUSED = re.compile(r"liger|Cut Cross Entropy|chunked CE", re.IGNORECASE)
"""Losses that never make full logits. transformers' own made them in float32 until trl 1.16 replaced it here."""
FAST_KERNELS = Implementation(kernels="liger")
"""fms-acceleration's fused kernels, for which Liger's stand in, an approximation: both fuse norms and rotation."""


HF_NAMES = re.compile(
    r"(?<![a-z])(hf|hugging ?face|transformers|peft|trl|sft ?trainer|ms-?swift|swift|axolotl|llama[-_ ]?factory|alpaca-lora"
    r"|autotrain|qlora|firefly)(?![a-z])",
    re.IGNORECASE,
)
"""Trainers over transformers' modules and peft's adapters."""
ALIKE_NAMES = re.compile(r"(torchtune|lit-?gpt|fsdp_qlora)", re.IGNORECASE)
MLX_NAMES = re.compile(
    r"(apple )?mlx([-_ ]lm)?(\.lora|[ -]examples( lora)?| lora| fine-?tun\w*)?( v?\d[\d.]*)?|mlx-examples lora", re.IGNORECASE
)
"""mlx-lm's own trainer and its forerunner; `mlx-lm-lora`, forks and wrappers are others' programs."""
OTHERS = re.compile(r"GRPO|DPO|PPO|\bMPS\b|deepspeed|megatron|nemo|vllm|jax|keras|\bfork\b", re.IGNORECASE)
"""Names with one of these are not the plain step that is predicted here."""
TRL = re.compile(r"trl[ =v]*(\d+)\.(\d+)", re.IGNORECASE)
TRL_FUSED = (1, 16)
TRL_NAMED = re.compile(r"trl[ =v]*\d", re.IGNORECASE)
FUSED_SINCE = "2026-10-15"
"""From this day on, on which PyPI got trl 1.16.0, a source that does not name its trl may have either loss; so may one without a
date."""
SWIFT = re.compile(r"(ms-?)?swift", re.IGNORECASE)
SDPA_SINCE = "2024-03"
"""transformers 4.36 of December 2023 took torch's fused attention by default, and its users in the months after; before,
eager's."""


def stack_of(row: Cited) -> Stack:
    """By the framework's name as printed, in whatever case and separators."""
    name = row.framework or ""
    fused = bool(FUSED.search(f"{name} {row.notes or ''}"))
    mlx, unsloth = bool(MLX_NAMES.fullmatch(name.strip())), bool(re.search("unsloth", name, re.IGNORECASE))
    if OTHERS.search(name) or (re.search("mlx", name, re.IGNORECASE) and not mlx):
        return _refused(name)
    if ALIKE_NAMES.match(name):
        return replace(ALIKE, logit_bytes=0) if fused else ALIKE
    if mlx or unsloth:
        return MLX if mlx else UNSLOTH
    return _hf(row, fused) if HF_NAMES.search(name) else _refused(name)


def _hf(row: Cited, fused: bool) -> Stack:
    if "foak" in (row.framework or ""):
        return Stack(logit_bytes=0 if fused else FAST_LOGITS_BYTES, implementation=FAST_KERNELS)
    full = 0 if fused or _fuses(row) else FULL_LOGITS_BYTES
    either = full and not TRL_NAMED.search(_versions(row)) and (row.date or FUSED_SINCE) >= FUSED_SINCE
    missing = ("trl version",) if either else ()
    own = "baseline-peft-bnb" not in (row.framework or "")
    return Stack(logit_bytes=full, own=own, attentions=_attentions(row), missing=missing)


def _refused(name: str) -> Stack:
    return Stack(refused=f"framework {name or 'unstated'}: no rules here for how it trains")


def _versions(row: Cited) -> str:
    return f"{row.framework or ''} {row.framework_version or ''}"


def _fuses(row: Cited) -> bool:
    """Whether this trl's own loss makes no full logits: `rules_hf` reads it in 1.16."""
    found = TRL.search(_versions(row))
    return found is not None and (int(found.group(1)), int(found.group(2))) >= TRL_FUSED


def _attentions(row: Cited) -> tuple[Attention | None, ...]:
    """The kernels that may have computed attention: as said, else by what was the default then."""
    said = f"{row.framework or ''} {row.notes or ''}"
    if "attention off" in said:
        return ("eager",)
    if re.search(r"FA2?\b|FlashAttention|attention on", said):
        return (None,)
    return (None,) if not SWIFT.match(row.framework or "") and (row.date or SDPA_SINCE) >= SDPA_SINCE else (None, "eager")
