"""What stands in memory from the first step on: weights, adapters, optimizer state; and the gradients that a step makes.

In: a cell and its model's shape. Out: bytes, exact wherever the stack's own layout is: 16-bit and float32 tensors, bitsandbytes'
nf4 with and without double quantisation, MLX's affine groups, 8-bit AdamW's blocks. Paged optimizers, and an optimizer stepped
within the backward pass, cannot be declared in a suite, so no rule is here for them.
"""

from __future__ import annotations

from bench.estimate import SIZES
from bench.predict.shape import Linear, Shape
from bench.spec import Cell

NF4_BLOCK, NF4_STATISTICS_BLOCK = 64, 256
"""Elements that share one scale, and scales that share one of the second level: `quantize_4bit(blocksize=64)` and
`quantize_blockwise(blocksize=256)` in bitsandbytes 0.50 (`functional.py`; QLoRA, arXiv 2305.14314, section 3)."""
NF4_CODE_BYTES, NF4_OFFSET_BYTES = 16 * 4, 4
"""The 16 levels in float32 and, with double quantisation, the mean of the scales, kept with every weight (`QuantState`)."""
DYNAMIC_CODE_BYTES = 256 * 4
"""The levels of the second level, `create_dynamic_map()` in float32; every weight was seen to hold a copy of its own."""
AFFINE_GROUP = 64
"""Elements that share one scale and one bias, both in the dtype of the weights: `bench.backends.mlx_build.GROUP_SIZE`."""
SMALLEST_8BIT, BLOCK_8BIT = 4096, 256
"""bitsandbytes' `Optimizer2State`: tensors of fewer elements keep float32 states; others one byte an element and state, and a
float32 scale for each block of 256."""


def weights_bytes(cell: Cell, shape: Shape) -> int:
    """The base model's, embeddings, head, norms and biases unquantised, tied weights once."""
    work = cell.workload
    size = SIZES[work.master_dtype or work.weights_dtype]
    if work.quantization_bits is None:
        return shape.parameters * size
    linears = sum(quantised_bytes(cell, each) * shape.copies(each) for each in shape.linears)
    rest = shape.layers * shape.block_other + shape.embeddings + shape.hidden
    return shape.layers * linears + rest * size


def quantised_bytes(cell: Cell, linear: Linear) -> int:
    """One quantised weight with its scales, in bytes."""
    elements, bits = linear.elements, cell.workload.quantization_bits or 4
    packed = _ceil(elements * bits, 8)
    if affine(cell):
        return packed + 2 * SIZES[cell.workload.weights_dtype] * _ceil(elements, AFFINE_GROUP)
    blocks = _ceil(elements, NF4_BLOCK)
    if not doubly_quantised(cell):
        return packed + 4 * blocks + NF4_CODE_BYTES
    tables = NF4_CODE_BYTES + NF4_OFFSET_BYTES + DYNAMIC_CODE_BYTES
    return packed + blocks + 4 * _ceil(blocks, NF4_STATISTICS_BLOCK) + tables


def dequantised_bytes(cell: Cell, elements: int) -> int:
    """What bitsandbytes makes of a weight to multiply with it: the weight in 16 bits, and its scales in float32.

    Its `gemm_4bit` does so above some hundred tokens (between 5 and 1,536 by card and shape, `_gemm_4bit_use_custom_cuda` in
    `backends/cuda/ops.py`), and its backward pass always. MLX multiplies by packed weights directly.
    """
    if cell.workload.quantization_bits is None or affine(cell):
        return 0
    scales = 4 * _ceil(elements, NF4_BLOCK) if doubly_quantised(cell) else 0
    return elements * SIZES[cell.workload.weights_dtype] + scales


def adapted_layers(cell: Cell, shape: Shape) -> int:
    return min(cell.workload.adapter_layers or shape.layers, shape.layers)


def trainable_tensors(cell: Cell, shape: Shape) -> list[tuple[int, int]]:
    """(elements, how many of them) of the tensors that the optimizer updates."""
    work = cell.workload
    if work.serves:
        return []
    if work.has_adapters:
        rank, layers = work.rank or 0, adapted_layers(cell, shape)
        names = work.module_names
        adapted = [each for each in shape.linears if each.name in names]
        return [(rank * side, layers * shape.copies(each)) for each in adapted for side in (each.inputs, each.outputs)]
    linears = [(each.elements, shape.layers * shape.copies(each)) for each in shape.linears]
    biases = [(each.outputs, shape.layers) for each in shape.linears if each.bias]
    head = shape.query // shape.heads
    norms = [(head, 2 * shape.layers)] if shape.head_norms else []
    norms.append((shape.hidden, 1 + shape.layers * (shape.block_norms // shape.hidden)))
    return [*linears, *biases, *norms, (shape.embedding, 1 if shape.tied else 2)]


def trainable(cell: Cell, shape: Shape) -> int:
    """Elements that the optimizer updates."""
    return sum(elements * count for elements, count in trainable_tensors(cell, shape))


def adapters_bytes(cell: Cell, shape: Shape) -> int:
    work = cell.workload
    return trainable(cell, shape) * SIZES[work.trainable_dtype] if work.has_adapters else 0


def gradients_bytes(cell: Cell, shape: Shape) -> int:
    """All gradients at once, each in the dtype of its parameter."""
    return 0 if cell.workload.serves else trainable(cell, shape) * SIZES[cell.workload.trainable_dtype]


def optimizer_bytes(cell: Cell, shape: Shape) -> int:
    """The optimizer's state from the second step on: torch's and MLX's AdamW keep two moments in the dtype of the parameter.

    Plain SGD keeps nothing in torch; MLX's keeps a momentum that it does not use (`mlx.optimizers.SGD.init_single`).
    """
    work = cell.workload
    size, count = SIZES[work.trainable_dtype], trainable(cell, shape)
    if work.serves or work.optimizer is None:
        return 0
    if work.optimizer == "sgd":
        return size * count if affine(cell) else 0
    if work.optimizer == "adamw_8bit":
        return sum(_states_8bit(elements) * times for elements, times in trainable_tensors(cell, shape))
    return 2 * size * count


def affine(cell: Cell) -> bool:
    """Whether MLX does the work, which quantises in affine groups; unsloth trains through it on Apple silicon."""
    return cell.backend == "mlx" or cell.device == "metal"


def doubly_quantised(cell: Cell) -> bool:
    """The way of bitsandbytes unless `nf4` is asked for: `bench.backends.hf_build`."""
    return cell.implementation.quantization_format != "nf4"


def _states_8bit(elements: int) -> int:
    return 8 * elements if elements < SMALLEST_8BIT else 2 * elements + 2 * 4 * _ceil(elements, BLOCK_8BIT)


def _ceil(value: int, by: int) -> int:
    return -(-value // by)
