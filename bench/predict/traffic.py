"""What lies between a stack's matrix products: bytes that elementwise kernels move, and how many kernels there are.

In: a cell, for its stack. Out: a `Traffic`, read off the stack's code where it says so, else estimated; no figure here was
fitted. What these counts miss is in the achievable fractions that calibration fits on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.predict.resident import affine
from bench.spec import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How a stack does what lies between the matrix products: bytes read and written an element, and kernels, all forward.

    `norm` an element of the hidden state and norm; `residual` of the hidden state and addition; `rotary` of queries and keys;
    `gate` of the MLP's inner width; `adapter_in` and `adapter_out` of an adapted layer's input and output; `score` of a score of
    attention where these are written out at all; `logit` of a logit, forward and backward together. `block`, `adapter` and
    `packed` are kernels of a block, of an adapter and of a quantised layer.
    """

    norm: float
    residual: float
    rotary: float
    gate: float
    adapter_in: float
    adapter_out: float
    score: float
    logit: float
    block: int
    adapter: int
    packed: int


EAGER = Traffic(
    norm=36, residual=6, rotary=20, gate=10, adapter_in=6, adapter_out=18, score=0, logit=22, block=44, adapter=6, packed=2
)
"""transformers' modules under eager torch in 16 bits (read: `modeling_llama.py` 5.24, peft 0.21 `lora/layer.py`). A norm casts
to float32 (6), squares (8), averages (4), scales (8), casts back (6), multiplies (4); rotation multiplies twice (8), negates
and joins (6), adds (6); SiLU and its product 4 and 6. A float32 adapter casts its input (6), scales, adds and casts its output
(8, 10). Flash attention writes no scores. The bytes of a logit and the numbers of kernels are estimates: nobody counted them on
a card. """
FUSED = Traffic(
    norm=4, residual=6, rotary=4, gate=6, adapter_in=0, adapter_out=8, score=0, logit=12, block=22, adapter=4, packed=1
)
"""unsloth's Triton kernels: norm and rotation read and write once, the gate reads two and writes one (read: unsloth 2026.10.9,
kernels/rms_layernorm.py, rope_embedding.py, swiglu.py). Adapters, logits and the numbers of kernels are estimates.
"""
LAZY = Traffic(
    norm=4, residual=6, rotary=4, gate=6, adapter_in=6, adapter_out=12, score=10, logit=16, block=24, adapter=5, packed=0
)
"""MLX, by what findings.md and `rules_mlx` say of it: fast norms and rotation, compiled SiLU, scores written and read under a
gradient, full logits, packed weights multiplied as they are. All are estimates: none was counted. """
EAGER_SCORE = 18
"""Bytes a score under eager attention: written, masked, cast to float32, softmaxed, cast back, read."""


def traffic_of(cell: Cell) -> Traffic:
    """By stack; unsloth on Apple silicon trains through MLX."""
    if affine(cell):
        return LAZY
    return FUSED if cell.backend == "unsloth" else EAGER
