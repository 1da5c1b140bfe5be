"""How fast and at how many watts: a step's work against a machine's rates, phase by phase.

In: a cell, the machine's profile, the calibration. Out: a `Speed`, with watts between idle and load.

Each phase takes the time of its matrix products (bound by
the products' rate, or by reading their operands where few positions share them) and of its elementwise kernels, or that of
starting all its kernels if that is longer. Rates are the profile's rated ones times the share of them that such work was seen
to reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from bench.catalog import MachineProfile
from bench.predict.fractions import Calibration, Fractions, Load, fractions_for, stored_fractions, stored_load
from bench.predict.prediction import Speed
from bench.predict.resident import affine
from bench.predict.work import Phase, work
from bench.spec import Cell

Z80 = 1.2816
"""Standard deviations between the middle and the end of an 80% interval."""
LAUNCH_S: Mapping[str, float] = {"hf": 10e-6, "unsloth": 10e-6, "mlx": 3e-6, "fake": 0.0}
"""Seconds from one small kernel to the next, where the profile has none. Assumptions: eager torch prepares each on the host,
autograd included; MLX encodes its graph in C++. `doctor --calibrate` measures a bare one. """
NO_MPS = "no speed is predicted of torch on MPS: nothing is known of which share of the GPU it reaches"
"""By the shares that torch reaches on CUDA it would be half as fast again as MLX, which is not what its users see."""
FEW_SOURCES = 3
"""From fewer, the interval is mostly what was assumed before."""
IDLE_SHARE = 0.08
"""Of a board's limit, at rest, where no reading is known: an assumption that matters only where the host holds the device up."""


def speed(cell: Cell, profile: MachineProfile | None, calibration: Calibration | None = None, load: Load | None = None) -> Speed:
    """The rates and watts of the cell; empty with a note where the profile lacks a rate. Raises BadInput for a model without
    sizes.
    """
    if profile is None or (cell.device == "cpu" and not _is_of_cpu(profile)):
        return Speed(notes=("no rates are known for this device: no speed predicted",))
    if cell.device == "mps":
        return Speed(notes=(NO_MPS,))
    fractions = fractions_for(stored_fractions() if calibration is None else calibration, stack_of(cell), profile.family)
    phases = work(cell)
    seconds = phase_seconds(cell, profile, fractions, phases)
    if seconds is None:
        return Speed(notes=(f"{profile.name} has no rated bandwidth or products: no speed predicted",))
    total_s = {name: max(seconds[name], kernels_s(cell, profile, phase)) for name, phase in phases.items()}
    busy = sum(seconds.values()) / sum(total_s.values())
    drawn = power(profile, busy, stored_load() if load is None else load)
    rate, prefill = _rates(cell, total_s)
    width = math.exp(Z80 * fractions.spread)
    return Speed(
        tokens_per_s=rate,
        tokens_per_s_low=rate / width,
        tokens_per_s_high=rate * width,
        prefill_tokens_per_s=prefill,
        seconds=total_s,
        power_w=drawn.middle_w,
        power_low_w=drawn.low_w,
        power_high_w=drawn.high_w,
        power_scope=drawn.scope,
        j_per_token=None if drawn.middle_w is None else drawn.middle_w * sum(total_s.values()) / _counted(cell),
        notes=(*_doubts(cell, fractions), *drawn.notes),
    )


def _is_of_cpu(profile: MachineProfile) -> bool:
    """The catalogue's rates are those of GPUs; a CPU's are only ever measured (`bench.own_rates`), and belong to no family."""
    return profile.gpu is None and profile.family is None


def stack_of(cell: Cell) -> str:
    """Whose kernels compute: unsloth on Apple silicon trains through MLX."""
    return "mlx" if affine(cell) else cell.backend


def phase_seconds(
    cell: Cell, profile: MachineProfile, fractions: Fractions, phases: Mapping[str, Phase]
) -> dict[str, float] | None:
    """Seconds of each phase's own work; None where the profile lacks a rate."""
    flops, bandwidth = matrix_rate(cell, profile), profile.memory_bytes_per_s
    if flops is None or bandwidth is None:
        return None
    return {name: _roofline(phase, flops * fractions.matrix, bandwidth * fractions.bandwidth) for name, phase in phases.items()}


def _roofline(phase: Phase, flops_per_s: float, bytes_per_s: float) -> float:
    products_s = max(phase.matrix_flops / flops_per_s, phase.operand_bytes / bytes_per_s)
    return products_s + phase.moved_bytes / bytes_per_s


def kernels_s(cell: Cell, profile: MachineProfile, phase: Phase) -> float:
    """Seconds to start a phase's kernels one after the other."""
    return phase.kernels * (profile.launch_s or LAUNCH_S[stack_of(cell)])


def matrix_rate(cell: Cell, profile: MachineProfile) -> float | None:
    """Rated products a second in the dtype of the cell's: float32 weights multiply in 32 bits, unless they are masters of 16."""
    if cell.workload.weights_dtype == "float32":
        return profile.float32_flops_per_s
    return profile.rated_flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Mean watts with an 80% interval, what was metered, and what the reader has to know."""

    middle_w: float | None = None
    low_w: float | None = None
    high_w: float | None = None
    scope: str | None = None
    notes: tuple[str, ...] = ()


def power(profile: MachineProfile, busy: float, load: Load) -> Drawn:
    """Where the device is busy that share of the time: from idle to load, of which `load` says how far readings lie apart.

    Load is the profile's reading where it has one, else the share of the limit that other machines drew. Nothing draws more than
    its limit for long, so the interval ends there.
    """
    watts, scope, limit = profile.load_power_w, profile.power_scope, profile.board_power_w
    notes: tuple[str, ...] = ()
    if watts is None and limit is not None:
        watts, scope = load.share * limit, "gpu-board" if profile.gpu is not None else "wall"
        notes = (
            f"watts: {load.share:.0%} of the limit of {limit:.0f} W, as other machines drew; no reading of this one is known",
        )
    if watts is None:
        return Drawn()
    idle = profile.idle_power_w if profile.idle_power_w is not None else IDLE_SHARE * (limit or watts)
    width = math.exp(Z80 * load.spread)
    ends = (watts / width, watts, min(watts * width, max(watts, limit or math.inf)))
    low_w, middle_w, high_w = (idle + busy * max(0.0, end - idle) for end in ends)
    return Drawn(middle_w=middle_w, low_w=low_w, high_w=high_w, scope=scope, notes=notes)


def tokens_per_s(cell: Cell, profile: MachineProfile, fractions: Fractions) -> float | None:
    """The middle of `speed` alone; None where the profile lacks a rate."""
    phases = _phases(cell)
    seconds = phase_seconds(cell, profile, fractions, phases)
    if seconds is None:
        return None
    return _rates(cell, {name: max(took, kernels_s(cell, profile, phases[name])) for name, took in seconds.items()})[0]


_phases = cache(work)
"""Calibration asks for the same work again and again."""


def _rates(cell: Cell, seconds: Mapping[str, float]) -> tuple[float, float | None]:
    """Tokens a second: of training, all positions; of serving, those decoded, and beside them the prompts'."""
    work = cell.workload
    if not work.serves:
        return work.tokens_per_step / sum(seconds.values()), None
    decoded = work.batch_size * ((work.generated_tokens or 1) - 1)
    return decoded / seconds["decode"], work.batch_size * (work.prompt_tokens or 0) / seconds["prefill"]


def _counted(cell: Cell) -> int:
    """The tokens over which a run's joules are divided: all of training, those generated of serving."""
    work = cell.workload
    return work.batch_size * (work.generated_tokens or 1) if work.serves else work.tokens_per_step


def _doubts(cell: Cell, fractions: Fractions) -> tuple[str, ...]:
    if cell.workload.serves:
        return (
            "speed: of generating, shares of the rated bandwidth are assumed (reports/prediction.md: published rates beside)",
        )
    if fractions.rows == 0:
        return ("speed: assumed shares of the rated speed, nothing was fitted",)
    if fractions.sources < FEW_SOURCES:
        seen = f"few sources (rates: {fractions.rows}, sources: {fractions.sources})"
        return (f"speed: its share of the machine's rates was fitted on {seen}, so its interval is mostly an assumption",)
    return ()
