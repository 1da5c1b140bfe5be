"""What mlx-lm holds within a training step: the closed form of what `bench.predict.mlx` simulates.

In: a step through MLX, and its model's shape. Out: the moments at which the peak can be, and what the queue of unfinished work
holds on top. What each operation's gradient needs is read off mlx-lm 0.32's models and MLX 0.32; training attention is not fused,
so every block makes its scores. What fusion and the order of evaluation add cannot be read off: those terms were found by
simulating the real graphs of Llama and Qwen3 shapes, and are said to be.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.predict.moments import Moment, Step

LOGITS_CPU, LOGITS_GPU = 3, 1
"""Copies of the logits while their loss is differentiated: on the CPU they, their gradient and one between; on a GPU MLX's fused
cross-entropy writes the gradient over them. Where the head's own gradient is made, one is left by then."""
STAGES, STAGES_TRAINED_GPU = 5, 4
"""Stages of the MLP that a block keeps, each as wide as the MLP. By simulation: on a GPU, a trained one is fused further."""
GRADIENT_BLOCKS = 2.1
"""Blocks whose gradients stand at once: MLX evaluates breadth first, 20 arrays wide (`eval_impl` of mlx/transforms.cpp), so a
weight is updated, and its gradient gone, about two blocks after it was made. By simulation, of 3 to 12 blocks."""
BLOCKS_AHEAD = 6
"""Checkpointed blocks whose inputs stand in further copies, cast or normalised ahead of their use. By simulation."""
MLP_BACKWARD = {"cast": (13, 20), "read": (9, 15), "unread": (6, 6)}
"""Compute elements per token, in widths of the MLP and of the model, while a checkpointed MLP is differentiated: where adapters
cast their inputs, where they or the weights read them as they are, where nothing does. By simulation."""
COMMAND_BUFFERS, ELEMENTS_EACH, SHARE_HELD = 10, 50 * 2**20, 0.85
"""Metal's queue: command buffers that may be unfinished (`MAX_ACTIVE_TASKS`), elements of the distinct arrays that one takes
before it is handed out (`MLX_MAX_MB_PER_BUFFER`, of an M-series Max or Ultra), and how much of their product was seen to be
scratch and freed arrays, by simulation; the rest is weights and what lives anyway."""
UPDATED_BLOCKS = 2.6
"""Blocks whose old weights and AdamW states it holds beside the new ones where weights are trained. By simulation and measured: a
small model's full fine-tune on the CPU, whose activations are no larger than that."""
SCORES_HELD = 2.3
"""Arrays of scores that it holds where these are the largest. By simulation."""


def moments(step: Step) -> Iterator[Moment]:
    """Every moment at which the peak can be, with a queue that holds nothing."""
    saved = saved_bytes(step)
    waiting = step.gradients if step.accumulating else 0
    logits = logits_bytes(step)
    entering = _stream(step) * step.trained_blocks if step.checkpointing and _on_gpu(step) else saved
    copies = LOGITS_GPU if _on_gpu(step) else LOGITS_CPU
    yield Moment(gradients=waiting, activations=entering + _last_forward(step), logits=copies * logits)
    for activations in backward(step):
        yield Moment(gradients=waiting, activations=activations)
    if step.full:
        yield from _trained_weights(step, saved, logits, waiting)


def _trained_weights(step: Step, saved: int, logits: int, waiting: int) -> Iterator[Moment]:
    """Where weights are trained: the head's gradient beside what is saved, and under checkpointing the last blocks' gradients.

    A tied weight waits for both its gradients, and its logits with them.
    """
    block, head = step.shape.block_linear * step.adapter, step.head_gradient
    kept = (1 if _on_gpu(step) else 2) * logits
    made = (block, kept) if step.shape.tied else (max(block - logits, 0), logits)
    yield Moment(gradients=waiting + head + made[0], activations=saved, logits=made[1])
    if step.checkpointing:
        last = min(GRADIENT_BLOCKS, step.shape.layers) * block + 2 * head
        yield Moment(gradients=waiting + last, activations=_stream(step), logits=logits if step.shape.tied else 0)


def queued_bytes(step: Step) -> float:
    """What unfinished work may hold beyond the peak at which all had finished; zero is the other end."""
    bound = COMMAND_BUFFERS * ELEMENTS_EACH * step.size * SHARE_HELD
    updated = UPDATED_BLOCKS * 3 * step.shape.block_linear * step.adapter if step.full else 0
    return max(min(bound, max(2 * block_bytes(step), updated)), SCORES_HELD * step.size * step.pairs)


def block_bytes(step: Step) -> int:
    """Kept of one block for its backward pass.

    Per token, in the compute dtype: the residual stream and the normalised input of both halves and two sums; q, k, v and the
    attention's result; gate, up, and the stages of the activation up to what the down projection reads. Inputs of adapters in
    another dtype are cast, once for all adapters of one input. Per pair of positions: the softmax.
    """
    shape, w = step.shape, step.size
    stages = STAGES_TRAINED_GPU if step.full and _on_gpu(step) else STAGES
    per_token = w * (6 * shape.hidden + 2 * shape.query + 2 * shape.key_value + stages * shape.inner)
    per_token += w * (shape.query + shape.key_value) * shape.head_norms
    return (per_token + _adapters(step)) * step.tokens + w * step.pairs


def _adapters(step: Step) -> int:
    """Per token: what adapters keep between their matrices, and casts of their inputs in place of what lies there uncast."""
    shape, rank = step.shape, step.cell.workload.rank or 0
    if step.full:
        return 0
    between = len(step.adapted) * rank * step.adapter
    wider = max(0, step.adapter - step.size)
    groups = (
        (("q_proj", "k_proj", "v_proj"), shape.hidden),
        (("o_proj",), shape.query),
        (("gate_proj", "up_proj"), shape.hidden),
        (("down_proj",), shape.inner),
    )
    unread = sum(width for names, width in groups if not step.adapted.intersection(names))
    casts = sum(width for names, width in groups if step.adapted.intersection(names))
    return between + wider * casts - step.size * unread


def saved_bytes(step: Step) -> int:
    """Before the first backward pass: of checkpointed blocks the stream that enters them and its sum, else all that they keep."""
    if step.checkpointing:
        return 2 * _stream(step) * step.trained_blocks
    return block_bytes(step) * step.trained_blocks


def backward(step: Step) -> tuple[float, float]:
    """Activations at the worst of the MLP's backward pass, and of the attention's."""
    shape, w, tokens = step.shape, step.size, step.tokens
    cast = "down_proj" in step.adapted and step.adapter > w
    if not step.checkpointing:
        ahead = (3 if cast else 2) * w * shape.inner + (5 if cast else 3) * w * shape.hidden // 2
        saved = saved_bytes(step)
        return saved + ahead * tokens, saved + w * step.pairs - 2 * w * shape.inner * tokens
    copies = (3 if cast else 1) * min(step.trained_blocks, BLOCKS_AHEAD)
    entering = (step.trained_blocks + copies) * _stream(step)
    inner, hidden = MLP_BACKWARD[("cast" if cast else "read") if step.full or "down_proj" in step.adapted else "unread"]
    mlp = w * (inner * shape.inner + hidden * shape.hidden)
    attention = w * 26 * shape.hidden * tokens + (3 if cast else 2) * w * step.pairs
    return entering + mlp * tokens + w * step.pairs, entering + attention


def _last_forward(step: Step) -> int:
    """Of a checkpointed model: what of the last block's forward pass is not gone when the loss is there."""
    return step.pairs * step.size + 8 * _stream(step) if step.checkpointing else 0


def logits_bytes(step: Step) -> int:
    """One copy of the logits. unsloth's MLX loss makes them in parts; it is taken to hold an eighth."""
    whole = step.tokens * step.shape.vocabulary * step.size
    return whole // 8 if step.cell.backend == "unsloth" else whole


def _stream(step: Step) -> int:
    return step.size * step.shape.hidden * step.tokens


def _on_gpu(step: Step) -> bool:
    return step.cell.device != "cpu"
