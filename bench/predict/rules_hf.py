"""What transformers, peft and trl hold within a training step.

In: a cell on backend `hf`, its model's shape. Out: the moments at which the peak can be: the head's backward pass, that of the
last block and of the first, the embedding's, and the optimizer. The loss is trl 1.16's (`kernels/chunked_logprob.py`), which
never makes full logits; `full_logits` gives that of older trainers. A test holds the sums to the same step traced under fake
tensors.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.predict import blocks_hf as blocks
from bench.predict.moments import Moment, Step

TILE_TOKENS, TILE_VOCABULARY = 4096, 32_768
"""trl multiplies by the head in tiles: `TOKEN_CHUNK_SIZE`, and `_CHUNKED_LOGPROB_CHUNK_SIZE` in `trainer/utils.py`."""
TORCH_TILE_BYTES = 29
"""An element of a tile, where there is no Triton: what `_backward_tile` makes beside it, five float32 results that stand (y, z,
log_p, p, grad), a mask, and two more while their difference is scaled."""
FULL_LOGITS_BYTES = 12
"""A logit, in a loss over all of them, beside the 16-bit logits themselves: log-softmax, the gradient of the loss and that of the
softmax, in float32 each (transformers' `ForCausalLMLoss`, whose float32 copy of the logits is gone by then). With the logits 14,
which a test counts; unsloth_zoo's tests say that 14 was measured on a B200."""
SORTING_BYTES = 32
"""A token, while the embedding's backward pass sorts its indices: four buffers of 8."""


def moments(step: Step, *, full_logits: bool = False) -> Iterator[Moment]:
    """Every moment at which the peak can be, of a micro-batch once the optimizer's state is there."""
    saved, block = saved_bytes(step), blocks.block_bytes(step)
    again = block if step.checkpointing else 0
    temporary, workspace = blocks.temporaries(step)
    workspace += cast_weights(step) // step.shape.layers
    waiting = step.gradients if step.accumulating else 0
    extra = head_gradients(step, full_logits=full_logits)
    yield Moment(
        gradients=waiting,
        activations=saved + head_saved(step),
        logits=logits_bytes(step, full_logits=full_logits) + extra,
        overhead=cast_weights(step),
    )
    yield Moment(gradients=max(waiting, step.head_gradient), activations=saved + again + temporary, overhead=workspace)
    yield Moment(gradients=max(waiting, before_first_block(step)), activations=block + temporary, overhead=workspace)
    if step.full:
        twice = step.head_gradient if step.shape.tied or step.accumulating else 0
        yield Moment(gradients=step.gradients + twice, overhead=SORTING_BYTES * step.tokens)
    yield Moment(gradients=step.gradients, activations=optimizer_temporaries(step))


def saved_bytes(step: Step) -> int:
    """Of all blocks, before the first backward pass: their inputs under checkpointing, else what autograd saves.

    Without checkpointing, blocks before the first adapted one save nothing, and its first norm needs no gradient. With it, trl
    makes the embeddings require one, so that every block is checkpointed.
    """
    shape = step.shape
    if step.checkpointing:
        return shape.layers * step.stream * shape.hidden * step.tokens
    unneeded = 0 if step.full else 4 * shape.hidden * step.tokens
    return step.trained_blocks * blocks.block_bytes(step) - unneeded


def before_first_block(step: Step) -> int:
    """The gradients that are there when the first block's backward pass begins: not its own, nor an untied embedding's."""
    embedding = step.shape.embedding * step.adapter if step.full and not step.shape.tied else 0
    blocks_gradients = step.gradients - embedding
    return blocks_gradients - blocks_gradients // step.trained_blocks


def head_saved(step: Step) -> int:
    """The last norm's input in float32, its normalised input where it is trained, and its output."""
    return (4 + (step.stream if step.full else 0) + step.stream) * step.shape.hidden * step.tokens


def logits_bytes(step: Step, *, full_logits: bool) -> int:
    """What head and loss need beside what is saved: a tile and the float32 gradient of the hidden states, cast at the end.

    The buffer of a tile is as wide as a tile can be, however small the vocabulary. trl copies the positions that are scored where
    it has Triton's kernel, that is on CUDA. On other devices torch's own operations stand in for the kernel.
    """
    shape, work = step.shape, step.cell.workload
    positions = work.batch_size * (work.sequence_length - 1)
    if full_logits:
        return step.tokens * shape.vocabulary * (step.size + FULL_LOGITS_BYTES)
    on_card = step.cell.device == "cuda"
    rows = min(positions, TILE_TOKENS)
    hidden = (4 + step.stream + (step.stream if on_card else 0)) * shape.hidden * positions
    buffer, beside = TILE_VOCABULARY * step.size, 0 if on_card else min(shape.vocabulary, TILE_VOCABULARY) * TORCH_TILE_BYTES
    return rows * (buffer + beside) + hidden


def head_gradients(step: Step, *, full_logits: bool) -> int:
    """A trained head's gradient: trl sums it in float32 and casts it at the end."""
    own = step.head_gradient
    return own if full_logits or not own or step.adapter == 4 else own + 4 * step.shape.embedding


def cast_weights(step: Step) -> int:
    """Under autocast: the 16-bit copies of the linear weights, which torch keeps until the forward pass is over."""
    return step.shape.layers * step.shape.block_linear * step.size if step.masters else 0


def optimizer_temporaries(step: Step) -> int:
    """Foreach AdamW of torch makes one list the size of all gradients, its plain loop one tensor; fused, 8-bit and SGD none.

    On CUDA torch takes foreach unless told otherwise, elsewhere the loop (`bench.backends.hf_train`).
    """
    cell = step.cell
    if cell.workload.optimizer != "adamw":
        return 0
    kernel = cell.implementation.optimizer_kernel or ("foreach" if cell.device == "cuda" else None)
    largest = max(step.shape.embedding if step.full else 0, step.shape.largest_linear if step.full else 0) * step.adapter
    return {"foreach": step.gradients, "fused": 0}.get(kernel or "", largest)
