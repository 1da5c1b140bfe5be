"""What a cell needs, in closed form: about a millisecond, no framework.

In: a cell. Out: its `Memory`, by part. Weights, adapters, gradients and optimizer state are exact (`resident`); activations,
logits and workspaces are those of the fullest moment of a step, by rules for each stack (`rules_hf`, `rules_unsloth`,
`rules_mlx`, `rules_serve`). The interval is that of `spread`, wider for an architecture that is not known.

A suite can declare no paged optimizer, and none that steps within the backward pass, so neither has a rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from bench.predict import resident, rules_hf, rules_mlx, rules_serve, rules_unsloth
from bench.predict.moments import Moment, Step
from bench.predict.prediction import Memory
from bench.predict.shape import Shape, shape_of
from bench.predict.spread import ASSUMED, Spread, Spreads, prior_spreads, stored_spreads
from bench.predict.trace import PROCESS_BYTES, PROCESS_HIGH_BYTES, PROCESS_LOW_BYTES, UNCALIBRATED
from bench.predict.trace_cuda import CONTEXT_BYTES, CONTEXT_HIGH_BYTES, CONTEXT_LOW_BYTES, CUBLAS_HANDLES, CUBLAS_WORKSPACE_BYTES
from bench.spec import Cell

Z80 = NormalDist().inv_cdf(0.9)
"""Standard deviations from the middle to either end of an 80% interval."""
UNKNOWN_SPREAD = 0.15
"""Added (as a standard deviation of the logarithm) where the architecture is not known: biases, norms, a gated MLP or a plain
one, each move a peak by several per cent."""
FRAGMENTS = 0.05
"""Of what a step makes and frees, what torch's allocator reserves beyond its peak: 0 to 10% in traces replayed through
`bench.predict.allocator`."""
MLX_PROCESS_BYTES, MLX_PROCESS_LOW_BYTES, MLX_PROCESS_HIGH_BYTES = 300_000_000, 150_000_000, 500_000_000
"""On the CPU, the process with MLX and mlx-lm imported: 0.2 to 0.4 GB resident were seen on Linux."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What the process takes of the device beside the framework's own count, in bytes: the middle and both ends."""

    middle: int = 0
    low: int = 0
    high: int = 0


def memory(cell: Cell, full_logits: bool = False) -> Memory:
    """The peak of a cell with its interval, as calibrated. `full_logits`: a loss over all logits at once, as older trainers have.

    Raises BadInput for a configuration that does not name its sizes, or a stack without rules.
    """
    return _memory(cell, full_logits, stored_spreads())


def uncalibrated(cell: Cell, full_logits: bool = False) -> Memory:
    """As `memory`, before anything was fitted: what calibration compares observed peaks with."""
    return _memory(cell, full_logits, prior_spreads())


def stack_of(cell: Cell) -> str:
    """Whose rules apply: unsloth on Apple silicon trains through MLX."""
    return "mlx" if resident.affine(cell) else cell.backend


def fullest(cell: Cell, full_logits: bool = False) -> Moment:
    """The moment of the peak."""
    return max(_moments(Step(cell, shape_of(cell.workload.model)), full_logits), key=lambda moment: moment.total)


def _moments(step: Step, full_logits: bool) -> Iterable[Moment]:
    if step.cell.workload.serves:
        return rules_serve.moments(step)
    if stack_of(step.cell) == "mlx":
        return rules_mlx.moments(step)
    if step.cell.backend == "unsloth" and not full_logits:
        return rules_unsloth.moments(step)
    return rules_hf.moments(step, full_logits=full_logits)


def _memory(cell: Cell, full_logits: bool, spreads: Spreads) -> Memory:
    step = Step(cell, shape_of(cell.workload.model))
    parts = _parts(step, full_logits)
    stack, derived = stack_of(cell), sum(parts.values())
    queued = rules_mlx.queued_bytes(step) if stack == "mlx" and not cell.workload.serves else 0
    peak_spread, held_spread = (_spread(spreads, stack, quantity, step.shape) for quantity in ("peak", "held"))
    raw = _reserved_bytes(parts) if stack != "mlx" and cell.device == "cuda" else None
    reserved = None if raw is None else round(raw * _spread(spreads, stack, "reserved", step.shape).factor)
    _corrected(parts, round(derived * peak_spread.factor) - derived)
    peak = sum(parts.values())
    beside = _beside(cell, stack)
    inner = reserved or peak
    if held_spread.factor != 1:
        inner = round(held_spread.factor * ((raw or derived) + beside.middle)) - beside.middle
    standing = parts["weights"] + parts["adapters"] + parts["optimizer"]
    low, high = _ends(peak, peak_spread)
    low = max(round(low - queued), min(standing, peak))
    inner = max(inner, peak)
    held_low, held_high = _ends(inner, held_spread)
    return Memory(
        parts=parts,
        peak_bytes=peak,
        peak_low_bytes=low,
        peak_high_bytes=high,
        held_bytes=inner + beside.middle,
        held_low_bytes=max(round(held_low - queued) + beside.low, low),
        held_high_bytes=held_high + beside.high,
        how="rules",
        reserved_bytes=reserved,
        notes=tuple(_notes(cell, step.shape, stack)),
    )


def _parts(step: Step, full_logits: bool) -> dict[str, int]:
    """What stands always, and the fullest moment; cuBLAS's workspaces and MLX's queue count as overhead."""
    cell, shape = step.cell, step.shape
    moment = max(_moments(step, full_logits), key=lambda each: each.total)
    torch_on_card = stack_of(cell) != "mlx" and cell.device == "cuda"
    beside = CUBLAS_HANDLES * CUBLAS_WORKSPACE_BYTES if torch_on_card else 0
    if stack_of(cell) == "mlx" and not cell.workload.serves:
        beside += round(rules_mlx.queued_bytes(step))
    return {
        "weights": resident.weights_bytes(cell, shape),
        "adapters": resident.adapters_bytes(cell, shape),
        "gradients": round(moment.gradients),
        "optimizer": resident.optimizer_bytes(cell, shape),
        "activations": round(moment.activations),
        "logits": round(moment.logits),
        "overhead": round(moment.overhead) + beside,
    }


def _corrected(parts: dict[str, int], extra: int) -> None:
    """Put what calibration adds, or takes, where the rules are least sure; what is exact stays."""
    for name in ("activations", "overhead"):
        taken = max(extra, -parts[name])
        parts[name] += taken
        extra -= taken


def _reserved_bytes(parts: dict[str, int]) -> int:
    standing, total = parts["weights"] + parts["adapters"] + parts["optimizer"], sum(parts.values())
    return round(total + FRAGMENTS * (total - standing))


def _beside(cell: Cell, stack: str) -> Beside:
    """The CUDA context of a card; on the CPU the process itself, which has to fit too; nothing on Metal that is known."""
    if cell.device == "cuda":
        return Beside(CONTEXT_BYTES, CONTEXT_LOW_BYTES, CONTEXT_HIGH_BYTES)
    if cell.device != "cpu":
        return Beside()
    if stack == "mlx":
        return Beside(MLX_PROCESS_BYTES, MLX_PROCESS_LOW_BYTES, MLX_PROCESS_HIGH_BYTES)
    return Beside(PROCESS_BYTES, PROCESS_LOW_BYTES, PROCESS_HIGH_BYTES)


def _spread(spreads: Spreads, stack: str, quantity: str, shape: Shape) -> Spread:
    """What is held is no surer than what torch reserves, which is most of it."""
    found = spreads.get((stack, quantity)) or Spread(1.0, spreads.get((stack, "held"), ASSUMED).spread)
    if quantity == "held" and (stack, "reserved") in spreads:
        found = Spread(found.factor, max(found.spread, spreads[stack, "reserved"].spread))
    return found if shape.known else Spread(found.factor, math.hypot(found.spread, UNKNOWN_SPREAD))


def _ends(middle: int, spread: Spread) -> tuple[int, int]:
    width = math.exp(Z80 * spread.spread)
    return round(middle / width), round(middle * width)


def _notes(cell: Cell, shape: Shape, stack: str) -> Iterable[str]:
    work, asked = cell.workload, cell.implementation
    if not shape.known:
        kind = "a Llama" if shape.experts == 1 else f"a mixture of {shape.experts} experts"
        yield f"unknown architecture {shape.family}: read as {kind} with its sizes, hence a wider interval"
    if cell.device == "cuda" and stack != "mlx":
        yield UNCALIBRATED
    if stack == "unsloth":
        yield "unsloth's rules come from reading its source, and its interval is by judgement: nothing of it was traced or run"
    if stack == "mlx" and not work.serves:
        yield "low end: MLX's queue of unfinished work is empty; value: it is full"
    if cell.device == "mps":
        yield "computed by CUDA's rules: torch's attention on MPS may make scores of length × length on top"
    if asked.compile:
        yield "computed as if nothing were compiled" if stack != "mlx" else "computed as compiled"
    if asked.attention == "eager" and stack == "hf" and not work.serves:
        yield "eager attention keeps scores of length × length in every block"
