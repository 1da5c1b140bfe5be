"""What a prediction says: memory by part, whether it fits, rates, power, each with an interval.

In: nothing. Out: the values that every way of predicting fills (`rules`, `trace`, `mlx`, `speed`), and their JSON form, whose
keys are a contract. Intervals are 80%: of ten true values, eight should lie within.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

How = Literal["rules", "trace", "graph"]
"""`rules`: the closed form. `trace`: the hf step itself, under fake tensors. `graph`: the MLX step's own lazy graph."""
Fits = Literal["yes", "tight", "no"]

PARTS = ("weights", "adapters", "gradients", "optimizer", "activations", "logits", "overhead")
YES_FROM, NO_UP_TO = 0.9, 0.1
"""Probabilities of fitting from which a cell is said to fit, and up to which not to."""
EVEN = 0.5
"""From this probability on something is likelier than not: the edge of what fits lies there, and where a winner changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The peak of one cell on one stack.

    `peak_bytes` is the framework's own peak: what torch's allocator has allocated, or MLX's active memory. `parts` hold what of
    it each part takes at that moment, by the names of `PARTS`; they add up to it. `held_bytes` is what the process takes of the
    device: torch's reserved memory and the context, or MLX's active memory and the buffers that its queue and cache still hold;
    it decides whether the cell fits. `reserved_bytes` is torch's reserved memory alone (None for MLX). Each interval is for the
    value of its name. `notes` say what the reader has to know, such as `uncalibrated`.
    """

    parts: Mapping[str, int]
    peak_bytes: int
    peak_low_bytes: int
    peak_high_bytes: int
    held_bytes: int
    held_low_bytes: int
    held_high_bytes: int
    how: How
    reserved_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Rates and power of one cell on one machine; None where the machine's profile lacks what the rate needs.

    Training: `tokens_per_s` counts all token positions. Serving: it is the rate of decoding, `prefill_tokens_per_s` that of the
    prompts. `seconds` are those of a step (a batch of requests) by phase: forward, recompute, backward, optimizer, dequantise;
    prefill, decode. `power_w` is the mean while measuring, in `power_scope`.
    """

    tokens_per_s: float | None = None
    tokens_per_s_low: float | None = None
    tokens_per_s_high: float | None = None
    prefill_tokens_per_s: float | None = None
    seconds: Mapping[str, float] | None = None
    power_w: float | None = None
    power_low_w: float | None = None
    power_high_w: float | None = None
    power_scope: str | None = None
    j_per_token: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Memory, fit and speed of one cell on one machine. `capacity_bytes` is what a process can have there."""

    memory: Memory
    speed: Speed
    capacity_bytes: int | None
    fit_probability: float | None

    @property
    def fits(self) -> Fits | None:
        return None if self.fit_probability is None else verdict(self.fit_probability)

    def to_json(self) -> dict[str, Any]:
        """The document of `predict --json`."""
        memory, speed = self.memory, self.speed
        return {
            "peak_bytes": memory.peak_bytes,
            "peak_low_bytes": memory.peak_low_bytes,
            "peak_high_bytes": memory.peak_high_bytes,
            "reserved_bytes": memory.reserved_bytes,
            "held_bytes": memory.held_bytes,
            "parts": dict(memory.parts),
            "capacity_bytes": self.capacity_bytes,
            "fits": self.fits,
            "fit_probability": self.fit_probability,
            "tokens_per_s": speed.tokens_per_s,
            "tokens_per_s_low": speed.tokens_per_s_low,
            "tokens_per_s_high": speed.tokens_per_s_high,
            "prefill_tokens_per_s": speed.prefill_tokens_per_s,
            "power_w": speed.power_w,
            "power_low_w": speed.power_low_w,
            "power_high_w": speed.power_high_w,
            "power_scope": speed.power_scope,
            "j_per_token": speed.j_per_token,
            "how": memory.how,
            "notes": [*memory.notes, *speed.notes],
        }


def verdict(fit_probability: float) -> Fits:
    """`yes`, `tight` or `no`."""
    if fit_probability >= YES_FROM:
        return "yes"
    return "no" if fit_probability <= NO_UP_TO else "tight"
