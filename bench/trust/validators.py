"""What cannot be true: a closed list of validators, each with its cause and its remedy. A run that breaks one is `invalid`.

In: what is known of a finished run. Out: the first validator that it breaks, as one line. A flag casts doubt on a figure; a
validator says that a figure contradicts physics, the data, or itself, so that the harness or the framework reports something
that did not happen. So every limit here is drawn where no true run can reach it; what cannot be known is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.record import Machine, Step
from bench.spec import Device, Dtype, Workload
from bench.trust.edge import on_wsl
from bench.trust.work import flops_per_prompt_token, flops_per_token

if TYPE_CHECKING:
    from bench.catalog import MachineProfile

CONSTANT_STEPS = 3
"""So many losses are equal by chance only where the loss is printed more coarsely than any framework prints it."""

BOOST = 1.3
"""Published rates are for the rated clock. A GeForce RTX 4090 (rated 2,520 MHz) was run at 3,150 MHz, 1.25 times that
(wccftech.com, "first gaming graphics card to deliver 100 TFLOPs", October 2022)."""

CPU_HZ = 6e9
"""More than any processor with units as wide as these sustains on all cores."""
CPU_FLOPS_PER_CYCLE: Mapping[Dtype, int] = {"float32": 512, "bfloat16": 2048, "float16": 2048}
"""Of one core, with room. 16 bits: AMX multiplies tiles of 16×32 and 32×16 in 16 cycles, 1,024 operations a cycle (Intel's
figure for the 4th generation of Xeon Scalable), doubled. 32 bits: two AVX-512 units give 64; Apple's matrix unit, shared by a
cluster, gives about 120 a core."""

LEAST_POWER, MOST_POWER = 0.05, 1.30
"""Shares of the board's power between which a mean lies: a board at rest takes more than the first, and its limit, which boards
keep to within some milliseconds, forbids the second."""

MACOS_COMPRESSION = 4
"""On macOS a footprint counts compressed pages at full size, so it may exceed main memory and swap; not by more than this, the
most that its compressor, WKdm, makes of a page that holds anything but zeros."""

TICKS = 1000
"""A step of fewer ticks of the clock is known to no better than a per mille."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a finished run. `columns` are those of `runs`, by name; a missing or None one is not judged.

    `settings` are the device's own, read back. `profile` is the catalogue's for this machine. `swap_total_bytes` is the system's
    swap; `tick_s` the clock's, as `observed_tick_s` found it.
    """

    steps: Sequence[Step]
    device: Device
    workload: Workload
    machine: Machine
    columns: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    profile: MachineProfile | None = None
    swap_total_bytes: int | None = None
    tick_s: float | None = None

    @property
    def losses(self) -> list[float]:
        return [step.loss for step in self.steps if step.loss is not None]

    @property
    def measured(self) -> Mapping[str, list[Step]]:
        """The steps behind warm-up by phase: those of training, or the prefills and the decodes of requests."""
        phases = {step.phase for step in self.steps} - {"warmup"}
        return {phase: [step for step in self.steps if step.phase == phase] for phase in sorted(phases)}


@dataclass(frozen=True, slots=True)
class Validator:
    """One thing that cannot be true. `check` says what was seen that breaks it, or None. `cause` and `remedy` are for people."""

    cause: str
    remedy: str
    check: Callable[[Facts], str | None]


def violation(facts: Facts) -> str | None:
    """The first validator that the run breaks, as "name: what was seen; cause; remedy"; None for a run that can be true."""
    for name, validator in VALIDATORS.items():
        seen = validator.check(facts)
        if seen is not None:
            return f"{name}: {seen}; {validator.cause}; {validator.remedy}"
    return None


def observed_tick_s(clock: Callable[[], float], readings: int = 2000) -> float:
    """The least difference other than zero between readings of a clock in a row, in seconds; infinite if it stood still.

    Where the clock is finer than a call takes, this is the time of a call: as fine as it can be used.
    """
    times = [clock() for _ in range(readings)]
    return min((late - early for early, late in pairwise(times) if late > early), default=math.inf)


def _loss_not_finite(facts: Facts) -> str | None:
    for step in facts.steps:
        if step.loss is not None and not math.isfinite(step.loss):
            return f"the loss of step {step.step} was {step.loss}"
    return None


def _loss_constant(facts: Facts) -> str | None:
    losses = facts.losses
    if len(losses) < CONSTANT_STEPS or len(set(losses)) > 1:
        return None
    return f"the loss was {losses[0]!r} in each of {len(losses)} steps"


def _wrong_tokens(facts: Facts) -> str | None:
    """The worker itself compares every digest with the data's and ends the run; here, that there was one to compare."""
    if facts.workload.serves:
        return _wrong_requests(facts)
    tokens, loss_tokens = facts.workload.tokens_per_step, facts.workload.loss_tokens_per_step
    for step in facts.steps:
        if step.tokens_digest is None:
            return f"step {step.step} has no digest of its tokens"
        if (step.tokens, step.loss_tokens) != (tokens, loss_tokens):
            return f"step {step.step} took {step.tokens} tokens, {step.loss_tokens} in the loss, not {tokens} and {loss_tokens}"
    return None


def _wrong_requests(facts: Facts) -> str | None:
    """Every request is a prefill, with the digest of its prompts, and behind it a decode of what follows the first tokens."""
    work = facts.workload
    prompt = work.batch_size * (work.prompt_tokens or 0)
    decoded = work.batch_size * ((work.generated_tokens or 0) - 1)
    parts: dict[int, list[Step]] = {}
    for step in facts.steps:
        parts.setdefault(step.step, []).append(step)
    for number, told in parts.items():
        if told[0].tokens_digest is None:
            return f"request {number} has no digest of its prompts"
        tokens = [part.tokens for part in told]
        if tokens != [prompt, decoded]:
            came = " and ".join(map(str, tokens))
            return f"request {number} took {came} tokens, not {prompt} in its prefill and {decoded} in its decode"
    return None


def _impossible_rate(facts: Facts) -> str | None:
    limit = _flops_limit(facts)
    rates = (
        ("tokens/s", "tokens_per_s", flops_per_token(facts.workload)),
        ("prompt tokens/s", "prefill_tokens_per_s", flops_per_prompt_token(facts.workload)),
    )
    for unit, column, work in rates:
        rate = facts.columns.get(column)
        if rate is not None and limit is not None and work is not None and rate * work > limit:
            return f"{rate:.4g} {unit} are at least {rate * work:.3g} FLOP/s, above the device's {limit:.3g}"
    return None


def _flops_limit(facts: Facts) -> float | None:
    """The most that the device can compute in a second; None where it is not known."""
    if facts.device == "cpu":
        return facts.machine.cpu_cores * CPU_HZ * CPU_FLOPS_PER_CYCLE[facts.workload.weights_dtype]
    if facts.profile is None or facts.profile.peak_flops_per_s is None:
        return None
    return BOOST * facts.profile.peak_flops_per_s


def _impossible_power(facts: Facts) -> str | None:
    power_w, board_w = facts.columns.get("power_w"), _board_power_w(facts)
    if power_w is None or board_w is None:
        return None
    low_w, high_w = LEAST_POWER * board_w, MOST_POWER * board_w
    if facts.columns["power_scope"] == "soc":
        low_w = 0.0  # the limit is of the whole computer: its chip alone may take far less
    if low_w <= power_w <= high_w:
        return None
    return f"a mean of {power_w:.4g} W lies outside {low_w:.4g} to {high_w:.4g} W for a board of {board_w:.4g} W"


def _board_power_w(facts: Facts) -> float | None:
    """The power that the scope's hardware is made for: as the driver gives it for this very board, else as published.

    Behind a plug, or for a machine as a whole, none is known.
    """
    published_w = facts.profile.board_power_w if facts.profile else None
    match facts.columns.get("power_scope"):
        case "gpu-board":
            return _watts(facts.settings, "power_limit_default_w") or published_w
        case "package":
            return _watts(facts.settings, "package_power_limit_w")
        case "soc":
            return published_w
        case _:
            return None


def _watts(settings: Mapping[str, str], name: str) -> float | None:
    """A setting as a number; None where it is missing or no positive number."""
    try:
        value = float(settings.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _memory_above_capacity(facts: Facts) -> str | None:
    for column, capacity in (*_device_capacities(facts), *_host_capacities(facts)):
        peak = facts.columns.get(column)
        if peak is not None and peak > capacity:
            return f"{column} is {peak:,} bytes, of {capacity:,} that there are"
    return None


def _device_capacities(facts: Facts) -> list[tuple[str, int]]:
    """What a graphics card has. Where it is not said, nothing is judged.

    Nor is, under WSL2, what torch counts: there the driver lends it the computer's memory (the flag `spilled`).
    """
    board_bytes = facts.machine.gpus[0].memory_bytes if facts.machine.gpus else None
    if facts.device != "cuda" or board_bytes is None:
        return []
    counted = () if on_wsl(facts.machine) else ("framework_peak_bytes", "reserved_peak_bytes")
    return [(column, board_bytes) for column in (*counted, "device_peak_bytes")]


def _host_capacities(facts: Facts) -> list[tuple[str, int]]:
    """What a process can have of main memory and swap; the framework's count too, where it allocates there."""
    if facts.swap_total_bytes is None:
        return []
    compression = MACOS_COMPRESSION if facts.machine.system == "Darwin" else 1
    capacity = compression * (facts.machine.memory_bytes + facts.swap_total_bytes)
    columns = ("host_peak_bytes",) if facts.device == "cuda" else ("host_peak_bytes", "framework_peak_bytes")
    return [(column, capacity) for column in columns]


def _steps_too_short(facts: Facts) -> str | None:
    for phase, steps in facts.measured.items():
        step_s = median(step.duration_s for step in steps)
        if facts.tick_s is not None and step_s < TICKS * facts.tick_s:
            what = "step" if phase == "measured" else phase
            return f"the median {what} took {step_s:.3g} s, the clock ticks every {facts.tick_s:.3g} s"
    return None


VALIDATORS: Mapping[str, Validator] = {
    "loss-not-finite": Validator(
        "training had diverged or overflowed, and arithmetic on infinities is not the work that was asked for",
        "lower learning_rate, or take bfloat16 or float32 for float16",
        _loss_not_finite,
    ),
    "loss-constant": Validator(
        "nothing was trained on changing data, or one number was reported over and over",
        "look into the worker's log; check the versions of the framework and its trainer",
        _loss_constant,
    ),
    "wrong-tokens": Validator(
        "the framework packed, padded, cut or dropped what bench.data made, so its rate counts other work",
        "check the versions of the framework and its trainer; report it with the worker's log",
        _wrong_tokens,
    ),
    "impossible-rate": Validator(
        "steps ended before their work did, or did not do it",
        "check that the backend synchronises at the end of a step, and the model's layers and dtype in `implementation`",
        _impossible_rate,
    ),
    "impossible-power": Validator(
        "the sensor stalled, covers another device, or gives another unit than its driver says",
        "compare with nvidia-smi or a wall meter; if the board is another one, add its row to suites/catalog/machines.toml",
        _impossible_power,
    ),
    "memory-above-capacity": Validator(
        "the counter is wrong, or the driver moved what did not fit into main memory, at another speed",
        "under WSL2 set `CUDA - Sysmem Fallback Policy` to prefer none in NVIDIA's control panel; else compare with nvidia-smi",
        _memory_above_capacity,
    ),
    "steps-too-short": Validator(
        "steps of less than a thousand ticks of the clock cannot be timed one by one",
        "raise batch_size, sequence_length or gradient_accumulation; of serving, prompt_tokens or generated_tokens",
        _steps_too_short,
    ),
}
