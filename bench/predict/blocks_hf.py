"""What autograd saves of one block, and what its backward pass needs beside it, in transformers' own modules.

In: a step on torch. Out: bytes. The terms follow the modules of transformers 5.24 (`modeling_llama.py` and its kin), peft 0.21
(`tuners/lora/layer.py`, `bnb.py`) and torch's derivatives. `w` is the size of a compute element, `h`, `i`, `q`, `k` the widths of
the model, the MLP, the queries and the keys.
"""

from __future__ import annotations

from bench.predict.moments import Step
from bench.spec import Attention

SOFTMAX_BYTES = 4
"""Eager attention's softmax is computed, and saved, in float32 (`eager_attention_forward`)."""
STATISTICS_BYTES = 4
"""Flash attention saves a log-sum-exp in float32 for each head and position; an RMS norm an inverse root for each position."""


def block_bytes(step: Step) -> int:
    """Saved by the forward pass of one block."""
    per_token = norms(step) + attention(step) + inputs(step, ("o_proj",), step.shape.query, shared=not _eager(step)) + mlp(step)
    return per_token * step.tokens + scores(step) + window_bias(step)


def norms(step: Step) -> int:
    """An RMS norm saves its input in float32, and where its weight is trained the normalised input too.

    Liger's saves the input as it is. Gemma's multiplies in float32.
    """
    shape, w = step.shape, step.stream
    if step.cell.implementation.kernels == "liger":
        return (step.hidden_norms * shape.hidden + (shape.query + shape.key_value) * shape.head_norms) * w
    normalised = (4 if shape.family == "gemma3_text" else w) if step.full else 0
    over_heads = (shape.query + shape.key_value) * (4 + normalised) if shape.head_norms else 0
    return step.hidden_norms * shape.hidden * (4 + normalised) + over_heads


def attention(step: Step) -> int:
    """Per token: the inputs of q, k and v; q, k, v and the output; flash's statistics. Eager repeats k and v for every query
    head.

    Rotation saves nothing of its own: only its tables would be needed, and they are shared.
    """
    shape, w = step.shape, step.size
    shared = inputs(step, ("q_proj", "k_proj", "v_proj"), shape.hidden)
    if _eager(step):
        return shared + 3 * w * shape.query
    return shared + 2 * w * shape.query + 2 * w * shape.key_value + STATISTICS_BYTES * shape.heads


def scores(step: Step) -> int:
    """Eager attention: the softmax in float32, and cast to multiply with."""
    cast = step.size if step.size < SOFTMAX_BYTES else 0
    return step.pairs * (SOFTMAX_BYTES + cast) if _eager(step) else 0


def window_bias(step: Step) -> int:
    """Where a window is shorter than the sequence: the mask of positions, as a bias in the compute dtype, on average over blocks.

    Fused kernels take no window, so torch gets a mask, which it keeps (`_as_bias`, attention.cpp): once a batch, not once a head.
    """
    shape, work = step.shape, step.cell.workload
    if _eager(step) or shape.window is None or work.sequence_length <= shape.window:
        return 0
    return round(shape.sliding * step.size * work.batch_size * work.sequence_length**2)


def mlp(step: Step) -> int:
    """Gate, its activation, up, and the inputs of the three projections. Liger's computes the activation again."""
    shape, w = step.shape, step.size
    halves = (2 if step.cell.implementation.kernels == "liger" else 3) * w * shape.inner
    return halves + inputs(step, ("gate_proj", "up_proj"), shape.hidden) + inputs(step, ("down_proj",), shape.inner)


def inputs(step: Step, names: tuple[str, ...], width: int, *, shared: bool = False) -> int:
    """What projections of one input save of it, per token. `shared`: the input is saved by what made it.

    A trained weight needs the input; a frozen one does not. peft casts the input to the adapters' dtype for each adapted module
    anew, and dropout keeps its result and its mask. Each adapter saves what lies between its two matrices. Under autocast every
    projection casts for itself.
    """
    w = step.size
    if step.full:
        casts = len(names) if step.masters and "down_proj" not in names and "o_proj" not in names else 1
        return 0 if shared else casts * w * width
    count = len(step.adapted.intersection(names))
    between = count * step.adapter * (step.cell.workload.rank or 0)
    if step.cell.workload.dropout:
        return between + count * (step.adapter + 1) * width
    if step.adapter != w:
        return between + count * step.adapter * width
    return between + (w * width if count and not shared else 0)


def temporaries(step: Step) -> tuple[int, int]:
    """(activations, workspace) that the backward pass of a block needs at its worst, beside what is saved.

    In the MLP: the gradient that comes in, and those of what the down projection read: by its weight and by its adapter, the
    latter in the adapter's dtype and cast; or, where it is neither trained nor adapted, those of the product's two factors. A
    quantised weight is made 16 bits before the adapter's part is there. In eager attention: the scores' gradient in float32,
    before and after the softmax; by then what the MLP saved is gone, and the cast softmax too.
    """
    shape, w, tokens = step.shape, step.size, step.tokens
    incoming, product = step.stream * shape.hidden * tokens, w * shape.inner * tokens
    if "down_proj" in step.adapted and step.adapter != w:
        promoted = 0 if step.dequantised else step.adapter * shape.hidden * tokens
        through = product + step.adapter * shape.inner * tokens + promoted
    else:
        through = product * (2 if step.full or "down_proj" in step.adapted else 3)
    dequantising = product + step.dequantised > through
    worst = (incoming + product, step.dequantised) if dequantising else (incoming + through, 0)
    eager = step.pairs * (2 * SOFTMAX_BYTES - w) - mlp(step) * tokens if _eager(step) else 0
    return (eager, 0) if eager > sum(worst) else worst


def _eager(step: Step) -> bool:
    asked: Attention | None = step.cell.implementation.attention
    return asked == "eager"
