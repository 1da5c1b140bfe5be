"""What unsloth holds within a training step on CUDA.

In: a step on backend `unsloth`, its model's shape. Out: the moments at which the peak can be. Its own kernels keep less of a
block than transformers' modules (`unsloth/kernels/fast_lora.py`, `rms_layernorm.py`, `rope_embedding.py` of unsloth 2026.10),
its checkpointing moves the blocks' inputs to main memory, and its loss takes the logits in parts. None of it could be run here:
no GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bench.predict import rules_hf
from bench.predict.moments import Moment, Step

RECKONED_BYTES, PART_BYTES, PARTS_COME_IN = 16, 4 * 2**30, 4
"""unsloth sizes the parts of its loss as if a logit took 16 bytes (`_CE_BYTES_PER_LOGIT` of unsloth_zoo 2026.10's
`fused_losses/cross_entropy_loss.py`), so that none takes more than 4 GiB (`_CE_TARGET_GB_CAP`), or half of what is free, if that
is less. One part if all fits, else a multiple of four (`get_chunk_size`)."""
OFFLOADED = 2
"""Blocks' inputs that are on the card while they are moved: the one that leaves and the one that comes."""


def moments(step: Step) -> Iterator[Moment]:
    """As of transformers, with unsloth's own sizes."""
    block, saved = block_bytes(step), saved_bytes(step)
    again = block if step.checkpointing else 0
    temporary = 3 * step.size * step.shape.inner * step.tokens + step.size * step.shape.hidden * step.tokens
    waiting = step.gradients if step.accumulating else 0
    workspace = step.dequantised + rules_hf.cast_weights(step) // step.shape.layers
    head = 3 * step.size * step.shape.hidden * step.tokens
    yield Moment(
        gradients=max(waiting, step.head_gradient),
        activations=saved + head,
        logits=logits_bytes(step) + (4 * step.shape.embedding if step.full else 0),
        overhead=rules_hf.cast_weights(step),
    )
    yield Moment(gradients=max(waiting, step.head_gradient), activations=saved + again + temporary, overhead=workspace)
    yield Moment(gradients=max(waiting, rules_hf.before_first_block(step)), activations=block + temporary, overhead=workspace)
    if step.full:
        twice = step.head_gradient if step.shape.tied or step.accumulating else 0
        yield Moment(gradients=step.gradients + twice)
    yield Moment(gradients=step.gradients, activations=rules_hf.optimizer_temporaries(step))


def block_bytes(step: Step) -> int:
    """Kept of one block: both norms' inputs and outputs, q, k, v, the attention's result and statistics, gate and up.

    The MLP's activation and product are computed again in its backward pass.
    """
    shape, w = step.shape, step.size
    per_token = w * (4 * shape.hidden + 2 * shape.query + 2 * shape.key_value + 2 * shape.inner) + 4 * shape.heads
    per_token += w * (shape.query + shape.key_value) * shape.head_norms
    return per_token * step.tokens


def saved_bytes(step: Step) -> int:
    if not step.checkpointing:
        return step.trained_blocks * block_bytes(step)
    kept = step.shape.layers if step.cell.implementation.checkpointing == "torch" else min(OFFLOADED, step.shape.layers)
    return kept * step.size * step.shape.hidden * step.tokens


def logits_bytes(step: Step) -> int:
    """Of the part of the positions whose loss is made at once: its logits in 16 bits, overwritten by their gradient.

    unsloth compiles each part, and inductor makes one array of logits of it, in the code that it generates for the CPU. Where
    compiling fails, each part takes 14 bytes a logit (`rules_hf.FULL_LOGITS_BYTES`).
    """
    logits = step.tokens * step.shape.vocabulary
    parts = RECKONED_BYTES * logits / PART_BYTES
    if parts > 1:
        parts = math.ceil(parts / PARTS_COME_IN) * PARTS_COME_IN
    return int(step.size * logits / max(parts, 1))
