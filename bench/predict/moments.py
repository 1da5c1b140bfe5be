"""What a step holds beside what always stands, at the moments at which its peak can be.

In: a cell and its model's shape. Out: `Moment`s, bytes by part; the largest, with what is resident, is the peak. `Step` gives the
rules of every stack the same few sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bench.estimate import SIZES
from bench.predict import resident
from bench.predict.shape import Shape
from bench.spec import Cell


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Bytes beyond weights, adapters and optimizer state.

    `activations` hold all temporaries of the step, the optimizer's too, as the trace counts them; `overhead` holds workspaces.
    """

    gradients: float = 0
    activations: float = 0
    logits: float = 0
    overhead: float = 0

    @property
    def total(self) -> float:
        return self.gradients + self.activations + self.logits + self.overhead


@dataclass(frozen=True)
class Step:
    """One training step: sizes in bytes an element, counts in tokens and elements."""

    cell: Cell
    shape: Shape

    @cached_property
    def tokens(self) -> int:
        """Positions of one micro-batch."""
        return self.cell.workload.batch_size * self.cell.workload.sequence_length

    @cached_property
    def pairs(self) -> int:
        """Scores that unfused attention makes in a block: every head, every pair of positions of a sequence."""
        work = self.cell.workload
        return work.batch_size * self.shape.heads * work.sequence_length**2

    @cached_property
    def size(self) -> int:
        """Bytes an element of what blocks compute in."""
        return SIZES[self.cell.workload.weights_dtype]

    @cached_property
    def stream(self) -> int:
        """Bytes an element of what flows from block to block: float32 where the weights are (autocast)."""
        return 4 if self.masters else self.size

    @cached_property
    def masters(self) -> bool:
        """Float32 weights under autocast."""
        return self.cell.workload.master_dtype is not None and self.size < 4

    @cached_property
    def adapter(self) -> int:
        return SIZES[self.cell.workload.trainable_dtype]

    @cached_property
    def full(self) -> bool:
        return self.cell.workload.method == "full"

    @cached_property
    def adapted(self) -> frozenset[str]:
        return frozenset(self.cell.workload.module_names)

    @cached_property
    def checkpointing(self) -> bool:
        return self.cell.workload.gradient_checkpointing

    @cached_property
    def trained_blocks(self) -> int:
        """Blocks from the first adapted one on: those before it need no gradient, unless their inputs are checkpointed."""
        return resident.adapted_layers(self.cell, self.shape)

    @cached_property
    def hidden_norms(self) -> int:
        """Norms of a block over the width of the model."""
        return self.shape.block_norms // self.shape.hidden

    @cached_property
    def gradients(self) -> int:
        return resident.gradients_bytes(self.cell, self.shape)

    @cached_property
    def accumulating(self) -> bool:
        """Gradients of earlier micro-batches stand throughout."""
        return self.cell.workload.gradient_accumulation > 1

    @cached_property
    def head_gradient(self) -> int:
        """The gradient of the head's weight in its own dtype; zero where it is frozen."""
        return self.shape.embedding * self.adapter if self.full else 0

    @cached_property
    def dequantised(self) -> int:
        """The largest weight that is made 16 bits again to multiply with it."""
        return resident.dequantised_bytes(self.cell, self.shape.largest_linear)
