"""What serving holds beside the weights: keys and values of every position, and the largest step of the prefill.

In: a step whose method is `serve`, its model's shape. Out: two moments, the end of the prefill and the end of decoding. Attention
is fused on every stack where nothing is differentiated; MLX's on the CPU is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.predict.moments import Moment, Step
from bench.predict.resident import affine

MLX_CACHE_STEP = 256
"""Positions by which mlx-lm's cache grows (`KVCache.step`), so that it is rounded up."""
MLX_PREFILL = 2048
"""Positions of a prompt that mlx-lm takes at once (`prefill_step_size` of `generate_step`)."""
LOGIT_BYTES = 4 + 2
"""A logit of the last position, cast to float32 to pick from (transformers' `_sample`); mlx-lm takes the log-softmax."""


def moments(step: Step) -> Iterator[Moment]:
    """The key-value cache counts as activations."""
    work, shape, w = step.cell.workload, step.shape, step.size
    prompt, generated, batch = work.prompt_tokens or 0, work.generated_tokens or 0, work.batch_size
    logits = batch * shape.vocabulary * LOGIT_BYTES
    at_once = batch * (min(prompt, MLX_PREFILL) if affine(step.cell) else prompt)
    yield Moment(activations=cache_bytes(step, prompt) + prefill_bytes(step, at_once), logits=logits, overhead=step.dequantised)
    largest = 2 * batch * shape.key_value * w * (prompt + generated)
    yield Moment(activations=cache_bytes(step, prompt + generated) + largest, logits=logits, overhead=step.dequantised)


def cache_bytes(step: Step, positions: int) -> int:
    """Keys and values of all blocks in the dtype of the weights. transformers' cache grows by copying one block's at a time."""
    if affine(step.cell):
        positions = -(-positions // MLX_CACHE_STEP) * MLX_CACHE_STEP
    return 2 * step.shape.layers * step.shape.key_value * step.size * positions * step.cell.workload.batch_size


def prefill_bytes(step: Step, positions: int) -> int:
    """The widest stage of a block's forward pass, nothing saved: the stream and its norm in float32, or gate, up and product."""
    shape, w = step.shape, step.size
    attention = w * (2 * shape.query + 2 * shape.key_value) + 4 * shape.hidden
    mlp = 3 * w * shape.inner
    scores = 0
    if affine(step.cell) and step.cell.device == "cpu":
        scores = 2 * w * shape.heads * positions * (step.cell.workload.prompt_tokens or 0)
    return (max(attention, mlp) + 2 * w * shape.hidden) * positions + scores
