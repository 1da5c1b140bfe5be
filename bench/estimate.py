"""How long a plan takes and how much disk, roughly.

In: cells, the machine's profile, and how long stored runs of a cell took. Out: seconds and bytes a run. A cell that was measured
here takes what its runs took. Where a step's seconds were predicted, any other takes those, and what comes before the first. The
rest is guessed by rules that are good to a factor of 2 or 3 and no better, which is enough to tell an evening from a week; where
not even the machine's peak rates are known, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.catalog import MachineProfile
from bench.spec import Cell, Dtype, Measure, Workload
from bench.trust.work import flops_per_prompt_token, flops_per_token

IMPORT_S = 15.0
"""Seconds until a framework is imported and a device awake: 8 to 17 were seen for transformers and trl, over 24 for unsloth."""
BUILD_BYTES_PER_S = 1e9
"""16-bit weights drawn, and quantised, a second."""
COMPILE_S = 60.0
ACHIEVED_FLOPS, ACHIEVED_BYTES = 0.4, 0.5
"""Shares of the peak rates of matrix products and of memory that training and decoding reach. Guesses until they are fitted."""
SETTLING_STEPS = 3
"""Steps of warm-up beyond the fewest, where a rule ends it."""
RUN_BYTES, STEP_BYTES, READING_BYTES_PER_S = 25_000, 60, 400
"""On disk for a run with its log, a step, and a second of readings. A run of suites/smoke.toml left 15,000, 50 and 40, where no
meter reads ten times a second as those of a GPU do.
"""
SIZES: Mapping[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Estimate:
    """One run of a cell: `duration_s` in seconds (None: nothing is known), `disk_bytes` that it leaves in the results."""

    duration_s: float | None
    disk_bytes: int


def estimate(
    cell: Cell,
    measure: Measure,
    profile: MachineProfile | None,
    known_s: Sequence[float] = (),
    step_s: float | None = None,
) -> Estimate:
    """What one run of the cell takes: the median of `known_s` where it was run here, else by prediction, else by rule.

    `step_s` are the predicted seconds of a step, or of a batch of requests: none where the run will end while it loads, for lack
    of memory. Without them the profile's rates tell.
    """
    steps = _steps(measure)
    duration_s = median(known_s) if known_s else _before_s(cell) + steps * step_s if step_s is not None else None
    if duration_s is None:
        duration_s = _by_rule(cell, steps, profile)
    return Estimate(duration_s, RUN_BYTES + steps * STEP_BYTES + round((duration_s or 0.0) * READING_BYTES_PER_S))


def hub_bytes(cells: Iterable[Cell]) -> int:
    """Bytes of the real weights that the cells download, each model once, in 16 bits; random ones need no disk."""
    models = {cell.workload.model.architecture: cell.workload.model for cell in cells if cell.workload.weights == "hub"}
    return sum(2 * (model.parameters or 0) for model in models.values())


def least_bytes(work: Workload) -> float | None:
    """Memory that the work needs before activations: weights, and where all are trained gradients and the optimizer's states.

    A full fine-tune in bfloat16 with AdamW makes 8 bytes a parameter, with float32 masters 16. None: no parameter count is known.
    """
    parameters = work.model.parameters
    if parameters is None:
        return None
    if work.method != "full":
        bits = work.quantization_bits
        return parameters * (SIZES[work.weights_dtype] if bits is None else bits / 8)
    size = SIZES[work.trainable_dtype]
    states = {"adamw": 2 * size, "adamw_8bit": 2, "sgd": 0}[work.optimizer or "sgd"]
    return float(parameters * (2 * size + states))


def _steps(measure: Measure) -> int:
    return min(measure.warmup_max_steps, measure.warmup_steps + SETTLING_STEPS) + measure.steps


def _before_s(cell: Cell) -> float:
    """Importing, building and compiling."""
    load_s = IMPORT_S + 2 * (cell.workload.model.parameters or 0) / BUILD_BYTES_PER_S
    return load_s + (COMPILE_S if cell.implementation.compile else 0.0)


def _by_rule(cell: Cell, steps: int, profile: MachineProfile | None) -> float | None:
    """Importing, building, compiling and stepping; a run that cannot fit ends while it loads, or soon after."""
    work = cell.workload
    least = least_bytes(work)
    if cell.device == "cpu" or profile is None or least is None:
        return None
    if least > profile.capacity_bytes:
        return _before_s(cell) - (COMPILE_S if cell.implementation.compile else 0.0)
    step_s = (_request_s if work.serves else _step_s)(work, least, profile)
    return None if step_s is None else _before_s(cell) + steps * step_s


def _step_s(work: Workload, least: float, profile: MachineProfile) -> float | None:
    """One optimizer step: the floor of its operations, and a forward pass more under gradient checkpointing."""
    flops = flops_per_token(work)
    if flops is None or profile.peak_flops_per_s is None:
        return None
    passes = 2 if work.has_adapters else 3
    again = (passes + work.gradient_checkpointing) / passes
    return work.tokens_per_step * flops * again / (ACHIEVED_FLOPS * profile.peak_flops_per_s)


def _request_s(work: Workload, least: float, profile: MachineProfile) -> float | None:
    """One batch of requests: prompts by the rate of products, then each token by the time to read all weights once."""
    flops = flops_per_prompt_token(work)
    if flops is None or profile.peak_flops_per_s is None or profile.memory_bytes_per_s is None:
        return None
    prefill_s = work.batch_size * (work.prompt_tokens or 0) * flops / (ACHIEVED_FLOPS * profile.peak_flops_per_s)
    return prefill_s + (work.generated_tokens or 0) * least / (ACHIEVED_BYTES * profile.memory_bytes_per_s)
