"""Runs at the edge of memory: they end, and yet they don't fit, or not at this speed.

In: a run's steps, its readings and the machine. Out: the flags `growing`, `swapping` and `spilled`.

- `growing`: the peak at the last step lies above the peak half way, by more than warm-up's rule calls steady. A run of few steps
  says nothing of the fit then. (`memory-growing` says that warm-up itself was cut short for it.)
- `swapping`: the run works, and slowly. Either later steps took ten times the fastest while pages went to or from swap, or every
  measured step moved pages, so that what it works on does not fit. (`swapped` says that pages moved at some time.)
- `spilled`: under WSL2 the driver moves what a card can't hold into Windows' memory instead of refusing it. It tells nobody:
  the driver's figure for the device stops at what the card has. So: torch holds more than there is; or the card is full and
  steps take ten times the fastest. A run that spills alike in all its steps, by memory that is not torch's, is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.record import Machine, Reading, Step
from bench.spec import Device
from bench.trust.assessed import Assessed
from bench.trust.disturbance import SWAPPED_BYTES
from bench.trust.warmup import GROWTH_BYTES, GROWTH_SHARE

COLLAPSE = 10.0
"""How many times the fastest step a slow one takes."""
FULL_SHARE = 0.97
"""Of a card, by the driver: the desktop's part and what the driver keeps back leave it no fuller."""
FEWEST_SWAPPING = 3
ONE_STEP = "one step cannot show whether memory still grows"

Span = tuple[float, float]
"""From the start of a step to its end, in seconds."""


def edge(
    steps: Sequence[Step], readings: Sequence[Reading], device: Device, machine: Machine, columns: Mapping[str, Any]
) -> Assessed:
    """The flags of the edge. `readings` are in the steps' time; `columns` are the run's so far."""
    found = [flag for flag, holds in (("swapping", _swapping(steps, readings)),) if holds]
    if device == "cuda" and on_wsl(machine) and _spilled(steps, readings, machine, columns):
        found.append("spilled")
    return growing(steps) + Assessed(flags=tuple(found))


def growing(steps: Sequence[Step]) -> Assessed:
    """Whether memory still grew in the last half of all steps, by the framework's count, else by the system's."""
    peaks = [_peak_bytes(step) for step in {step.step: step for step in steps}.values()]
    if not peaks or None in (peaks[-1], peaks[(len(peaks) - 1) // 2]):
        return Assessed()
    if len(peaks) == 1:
        return Assessed(not_measured={"growing": ONE_STEP})
    half_way, last = peaks[(len(peaks) - 1) // 2] or 0, peaks[-1] or 0
    return Assessed(flags=("growing",) if last - half_way > GROWTH_SHARE * half_way + GROWTH_BYTES else ())


def on_wsl(machine: Machine) -> bool:
    """Whether this is Linux under Windows, by the name of its kernel (`…-microsoft-standard-WSL2`)."""
    return "microsoft" in machine.os_version.lower()


def _peak_bytes(step: Step) -> int | None:
    return step.host_peak_bytes if step.framework_peak_bytes is None else step.framework_peak_bytes


def _swapping(steps: Sequence[Step], readings: Sequence[Reading]) -> bool:
    spans = _spans(steps)
    moved = dict(zip(spans, _moved_bytes(readings, spans), strict=True))
    measured = [moved[span] for span in _spans([step for step in steps if step.phase != "warmup"])]
    all_along = len(measured) >= FEWEST_SWAPPING and min(measured) > SWAPPED_BYTES
    return all_along or sum(moved[span] for span in _collapsed(spans)) > SWAPPED_BYTES


def _collapsed(spans: Sequence[Span]) -> list[Span]:
    """The steps that took ten times the fastest. Not the first, which compiles and allocates."""
    fastest_s = min((end_s - start_s for start_s, end_s in spans), default=0.0)
    return [(start_s, end_s) for start_s, end_s in spans[1:] if end_s - start_s >= COLLAPSE * fastest_s]


def _spans(steps: Sequence[Step]) -> list[Span]:
    """One for each step; of a batch of requests from the start of its prefill to the end of its decode."""
    spans: dict[int, Span] = {}
    for step in steps:
        end_s = step.start_s + step.duration_s
        start_s = spans.get(step.step, (step.start_s, end_s))[0]
        spans[step.step] = (start_s, end_s)
    return list(spans.values())


def _moved_bytes(readings: Sequence[Reading], spans: Sequence[Span]) -> list[float]:
    """To and from swap within each span: traffic, or growth of what lies there, whichever is more; 0 where neither was read."""
    pairs = zip(_risen(readings, "swap_traffic", spans), _risen(readings, "swap_used", spans), strict=True)
    return [max(pair) for pair in pairs]


def _risen(readings: Sequence[Reading], quantity: str, spans: Sequence[Span]) -> list[float]:
    series = sorted((each.t_s, each.value) for each in readings if each.quantity == quantity and each.value is not None)
    if not series or not spans:
        return [0.0] * len(spans)
    times, values = np.array(series).T
    before, after = np.interp(np.array(spans).T, times, values)
    return [float(risen) for risen in after - before]


def _spilled(steps: Sequence[Step], readings: Sequence[Reading], machine: Machine, columns: Mapping[str, Any]) -> bool:
    board_bytes = machine.gpus[0].memory_bytes if machine.gpus else None
    if board_bytes is None:
        return False
    held_bytes = max(columns.get(name) or 0 for name in ("framework_peak_bytes", "reserved_peak_bytes"))
    used_bytes = max((each.value or 0.0 for each in readings if each.quantity == "memory_used"), default=0.0)
    full = used_bytes >= FULL_SHARE * board_bytes
    return held_bytes > board_bytes or (full and bool(_collapsed(_spans(steps))))
