"""What a step has to do, by phase: operations of matrix products, bytes moved, kernels started. Closed form.

In: a cell. Out: one `Phase` each of `forward`, `recompute`, `backward`, `optimizer`, `dequantise`; of `prefill` and `decode`
where the cell serves. The operations of matrix products are exact (a test holds them to torch's own counter), but for what
attention's kernel skips of the positions that look ahead. The bytes are what `traffic` says of the stack's
elementwise kernels.

A matrix of n elements takes 2n operations a position forward, 2n for the gradient of its input, 2n for its own. What autograd
leaves out is left out: own gradients of frozen weights, and gradients of an input that no trained parameter lies before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bench.estimate import SIZES
from bench.predict.resident import adapted_layers, affine, trainable, weights_bytes
from bench.predict.shape import Linear, Shape, shape_of
from bench.predict.traffic import EAGER_SCORE, traffic_of
from bench.spec import Cell

PHASES = ("forward", "recompute", "backward", "optimizer", "dequantise", "prefill", "decode")
INPUT_OF = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1, "gate_proj": 2, "up_proj": 2, "down_proj": 3}
"""Where in a block a layer's input is made: before attention, by it, before the MLP, within it."""
BLOCKWISE = 64
"""bitsandbytes' nf4: elements under one float32 scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """`matrix_flops`: operations of matrix products. `operand_bytes`: the weights, and cached keys and values, that these
    products read, which bounds them where few positions share them. `moved_bytes`: what elementwise kernels read and write,
    with optimizer and dequantisation. `kernels`: how many are started, one after the other.
    """

    matrix_flops: float = 0.0
    operand_bytes: float = 0.0
    moved_bytes: float = 0.0
    kernels: int = 0


BACKWARD_TRAFFIC = 2.0
"""Backward kernels read the incoming gradient beside what the forward ones read, and write as many gradients as there are
inputs."""
UNSEEN = 0.5
"""Share of attention's products that a flash kernel computes: it skips blocks that lie wholly ahead (arXiv 2307.08691, section
3.1)."""
FLASH_BACKWARD, WRITTEN_BACKWARD = 2.5, 2.0
"""Attention's backward products over its forward ones: flash computes the scores again, so five for two; with scores kept
four."""
OPTIMIZER_ACCESSES = {"foreach": 19, "fused": 7}
"""How often AdamW touches an element of its parameter's size. Fused: reads gradient, parameter and two moments, writes three.
foreach (read: torch 2.13, `_multi_tensor_adam`, no weight decay): lerp 3, mul 2, addcmul 4, sqrt 2, div 2, add 2, addcdiv 4.
"""
BYTES_8BIT = 10
"""AdamW with 8-bit states on a 16-bit parameter: gradient read, parameter and two states read and written, a byte a state."""


def work(cell: Cell) -> Mapping[str, Phase]:
    """The phases of one step (of one batch of requests), in the order of `PHASES`. Raises BadInput where the model has no
    sizes.
    """
    shape = shape_of(cell.workload.model)
    if cell.workload.serves:
        return {"prefill": _prefill(cell, shape), "decode": _decode(cell, shape)}
    micro = cell.workload.gradient_accumulation
    phases = {
        "forward": _times(_forward(cell, shape), micro),
        "recompute": _times(_recompute(cell, shape), micro),
        "backward": _times(_backward(cell, shape), micro),
        "optimizer": _optimizer(cell, shape),
        "dequantise": _times(_dequantise(cell, shape), micro),
    }
    return {name: phase for name, phase in phases.items() if phase != Phase()}


def _times(phase: Phase, count: int) -> Phase:
    return Phase(
        matrix_flops=phase.matrix_flops * count,
        operand_bytes=phase.operand_bytes * count,
        moved_bytes=phase.moved_bytes * count,
        kernels=phase.kernels * count,
    )


def _positions(cell: Cell) -> int:
    return cell.workload.batch_size * cell.workload.sequence_length


def _forward(cell: Cell, shape: Shape) -> Phase:
    positions = _positions(cell)
    head = 2 * positions * shape.embedding
    return Phase(
        matrix_flops=positions * _block_flops(cell, shape) + _attention(cell, shape, cell.workload.sequence_length) + head,
        operand_bytes=weights_bytes(cell, shape),
        moved_bytes=_block_bytes(cell, shape) + positions * shape.vocabulary * traffic_of(cell).logit,
        kernels=_block_kernels(cell, shape),
    )


def _recompute(cell: Cell, shape: Shape) -> Phase:
    """The blocks once more, but for the last product of each: nothing that autograd keeps comes after it."""
    if not cell.workload.gradient_checkpointing:
        return Phase()
    positions = _positions(cell)
    last = 2 * positions * _last_product(cell, shape)
    return Phase(
        matrix_flops=positions * _block_flops(cell, shape) + _attention(cell, shape, cell.workload.sequence_length) - last,
        operand_bytes=weights_bytes(cell, shape),
        moved_bytes=_block_bytes(cell, shape),
        kernels=_block_kernels(cell, shape),
    )


def _backward(cell: Cell, shape: Shape) -> Phase:
    positions = _positions(cell)
    flops = sum(2 * positions * elements for block in range(shape.layers) for elements in _block_gradients(cell, shape, block))
    head = 2 * positions * shape.embedding * (1 if cell.workload.has_adapters else 2)
    attention = _attention(cell, shape, cell.workload.sequence_length) / shape.layers
    ratio = WRITTEN_BACKWARD if _writes_scores(cell) else FLASH_BACKWARD
    share = (shape.layers - _first(cell, shape)) / shape.layers
    return Phase(
        matrix_flops=flops + head + ratio * attention * _attending_blocks(cell, shape),
        operand_bytes=weights_bytes(cell, shape),
        moved_bytes=BACKWARD_TRAFFIC * share * _block_bytes(cell, shape),
        kernels=round(2 * share * _block_kernels(cell, shape)),
    )


def _first(cell: Cell, shape: Shape) -> int:
    """The lowest block that gradients reach. Under gradient checkpointing peft makes the embedding's output require one."""
    reaches_all = not cell.workload.has_adapters or _input_requires_gradient(cell)
    return 0 if reaches_all else shape.layers - adapted_layers(cell, shape)


def _input_requires_gradient(cell: Cell) -> bool:
    return cell.workload.gradient_checkpointing and not affine(cell)


def _block_gradients(cell: Cell, shape: Shape, block: int) -> Iterator[float]:
    """Elements multiplied for gradients, a position, of one block."""
    work, first = cell.workload, _first(cell, shape)
    if block < first:
        return
    adapted = block >= shape.layers - adapted_layers(cell, shape)
    for linear in shape.linears:
        if not work.has_adapters:
            yield 2.0 * linear.elements
            continue
        passes = block > first or _input_requires_gradient(cell) or _trained_before(cell, linear)
        yield linear.elements * passes
        if adapted and linear.name in work.module_names:
            yield (work.rank or 0) * (2.0 * linear.outputs + linear.inputs * (1 + passes))


def _attending_blocks(cell: Cell, shape: Shape) -> float:
    """Through how many blocks' attention gradients go, the first by the share of its products that it still needs."""
    above = shape.layers - _first(cell, shape) - 1
    if not cell.workload.has_adapters or _input_requires_gradient(cell):
        return above + 1.0
    trained = {name for name in cell.workload.module_names if INPUT_OF[name] == 0}
    if not trained or not _writes_scores(cell):
        return above + float(bool(trained))
    scores = trained & {"q_proj", "k_proj"}
    return above + (len(trained) + bool(scores)) / 4


def _trained_before(cell: Cell, linear: Linear) -> bool:
    """Whether an adapter of the same block lies before the layer's input."""
    return any(INPUT_OF[name] < INPUT_OF[linear.name] for name in cell.workload.module_names)


def _adapted(cell: Cell, shape: Shape) -> list[Linear]:
    return [linear for linear in shape.linears if linear.name in cell.workload.module_names]


def _block_flops(cell: Cell, shape: Shape) -> float:
    """Operations of all blocks' products, a position, forward."""
    rank = cell.workload.rank or 0
    adapters = adapted_layers(cell, shape) * sum(rank * (each.inputs + each.outputs) for each in _adapted(cell, shape))
    return 2.0 * (shape.layers * sum(each.elements for each in shape.linears) + adapters)


def _last_product(cell: Cell, shape: Shape) -> int:
    """Elements multiplied last in all blocks: the adapter's second matrix where the last layer has one, else that layer."""
    last = shape.linears[-1]
    if last.name not in cell.workload.module_names:
        return shape.layers * last.elements
    adapted = adapted_layers(cell, shape)
    return adapted * (cell.workload.rank or 0) * last.outputs + (shape.layers - adapted) * last.elements


def _writes_scores(cell: Cell) -> bool:
    return affine(cell) or cell.implementation.attention == "eager"


def _attention(cell: Cell, shape: Shape, length: int) -> float:
    """Operations of scores and of their sums over values, all blocks, forward."""
    share = 1.0 if _writes_scores(cell) else UNSEEN
    return share * 4.0 * shape.layers * cell.workload.batch_size * length**2 * shape.query


def _block_bytes(cell: Cell, shape: Shape) -> float:
    """Bytes that the elementwise kernels of all blocks read and write, forward."""
    unit = traffic_of(cell)
    wide = SIZES[cell.workload.weights_dtype] / 2
    element = 2 * (unit.norm + unit.residual) * shape.hidden + unit.rotary * (shape.query + shape.key_value)
    element += unit.gate * shape.inner
    block = _positions(cell) * element * shape.layers
    adapters = sum(unit.adapter_in * each.inputs + unit.adapter_out * each.outputs for each in _adapted(cell, shape))
    score = unit.score or (EAGER_SCORE if _writes_scores(cell) else 0)
    scores = score * shape.layers * shape.heads * cell.workload.batch_size * cell.workload.sequence_length**2
    return wide * (block + scores) + _positions(cell) * adapted_layers(cell, shape) * adapters


def _block_kernels(cell: Cell, shape: Shape) -> int:
    unit = traffic_of(cell)
    packed = unit.packed * len(shape.linears) if cell.workload.quantization_bits else 0
    return shape.layers * (unit.block + packed) + adapted_layers(cell, shape) * unit.adapter * len(_adapted(cell, shape))


def _optimizer(cell: Cell, shape: Shape) -> Phase:
    elements, size = trainable(cell, shape), SIZES[cell.workload.trainable_dtype]
    kernel = cell.implementation.optimizer_kernel or ("foreach" if cell.device == "cuda" else "fused")
    if cell.workload.optimizer == "adamw_8bit":
        touched = float(elements * BYTES_8BIT)
    elif cell.workload.optimizer == "sgd":
        touched = 3.0 * elements * size
    else:
        touched = float(elements * size * OPTIMIZER_ACCESSES[kernel])
    return Phase(moved_bytes=touched, kernels=OPTIMIZER_ACCESSES[kernel])


def _dequantise(cell: Cell, shape: Shape) -> Phase:
    """A 4-bit weight is written out in 16 bits before it multiplies, in every pass, by bitsandbytes; not by MLX."""
    work = cell.workload
    if work.quantization_bits is None or affine(cell):
        return Phase()
    passes = 2 + work.gradient_checkpointing
    element = work.quantization_bits / 8 + 4 / BLOCKWISE + SIZES[work.weights_dtype]
    linears = shape.layers * shape.block_linear
    return Phase(moved_bytes=passes * linears * element, kernels=passes * shape.layers * len(shape.linears))


def _prefill(cell: Cell, shape: Shape) -> Phase:
    """All prompts through all blocks; the head on the last position of each alone."""
    batch, prompt = cell.workload.batch_size, cell.workload.prompt_tokens or 0
    return Phase(
        matrix_flops=batch * prompt * _block_flops(cell, shape) + _attention(cell, shape, prompt) + 2.0 * batch * shape.embedding,
        operand_bytes=weights_bytes(cell, shape),
        moved_bytes=_block_bytes(cell, shape) * prompt / max(1, cell.workload.sequence_length),
        kernels=_block_kernels(cell, shape),
    )


def _decode(cell: Cell, shape: Shape) -> Phase:
    """Token by token after the first, which the prefill gives: all weights and all keys and values so far, read for each."""
    work = cell.workload
    steps = max(0, (work.generated_tokens or 0) - 1)
    cached = sum((work.prompt_tokens or 0) + step for step in range(1, steps + 1))
    token = 2.0 * shape.layers * sum(each.elements for each in shape.linears) + 2.0 * shape.embedding
    cache_bytes = 2.0 * shape.layers * shape.key_value * SIZES[work.weights_dtype]
    embedding = 0 if shape.tied else shape.embedding * SIZES[work.weights_dtype]
    return Phase(
        matrix_flops=work.batch_size * (steps * token + 4.0 * shape.layers * shape.query * cached),
        operand_bytes=steps * (weights_bytes(cell, shape) - embedding) + work.batch_size * cache_bytes * cached,
        kernels=steps * _block_kernels(cell, shape),
    )
