"""What the worker itself told of its run, as columns.

In: a run as it was seen. Out: rates, times, the framework's and the process's peaks, losses. Rates and medians are taken over
the measured steps alone; a run that failed keeps whatever it had measured before. Of serving a step is one batch of requests,
from its beginning to its last token, and its prefill and its decode have a rate each.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from bench.events import Counters
from bench.record import Step
from bench.sweep.seen import Seen
from bench.trust.assessed import Assessed

NO_COMPILE_CLOCK = "the framework keeps no account of its compiler's time, which is part of the first steps"
NO_PEAK = "the framework has no counter of its memory on this device"


def told(seen: Seen) -> Assessed:
    """The columns that the worker's events fill, the flags of its warm-up, and why some columns stay empty."""
    trace, steps = seen.trace, seen.steps
    counters = trace.finished.counters if trace.finished else Counters(framework_peak_bytes=_highest(steps, "framework"))
    if counters.framework_peak_bytes is None and trace.parts and trace.parts.parts:
        counters = replace(counters, framework_peak_bytes=sum(trace.parts.parts.values()))
    columns = {
        **_rates(seen.measured),
        **_times(seen),
        "framework_peak_bytes": counters.framework_peak_bytes,
        "reserved_peak_bytes": counters.reserved_peak_bytes,
        "cache_peak_bytes": counters.cache_peak_bytes,
        "compile_s": counters.compile_s,
        "host_peak_bytes": trace.finished.host_peak_bytes if trace.finished else _highest(steps, "host"),
        "host_base_bytes": trace.finished.host_base_bytes if trace.finished else None,
        "implementation": dict(trace.loaded.implementation) if trace.loaded else {},
        "trainable_parameters": trace.loaded.trainable_parameters if trace.loaded else None,
        "warmup_steps": len({step.step for step in steps if step.phase == "warmup"}),
        "steps": len({step.step for step in steps}),
        "outlier_steps": len({step.step for step in steps if step.outlier}) if seen.measured else None,
        "loss_first": steps[0].loss if steps else None,
        "loss_last": steps[-1].loss if steps else None,
        "tokens_digest": steps[0].tokens_digest if steps else None,
    }
    return Assessed(columns, trace.warm.troubles if trace.warm else (), _reasons(seen, counters))


def _times(seen: Seen) -> dict[str, float | None]:
    """Import, build, load and first step, each by itself."""
    started, loaded, steps = seen.trace.started, seen.trace.loaded, seen.steps
    return {
        "import_s": started.import_s if started else None,
        "build_s": loaded.build_s if loaded else None,
        "load_s": loaded.load_s if loaded else None,
        "first_step_s": durations_s(steps)[0] if steps else None,
    }


def durations_s(steps: Sequence[Step]) -> list[float]:
    """The duration of each step in their order; of each batch of requests that of its prefill and its decode together."""
    sums: dict[int, float] = {}
    for step in steps:
        sums[step.step] = sums.get(step.step, 0.0) + step.duration_s
    return list(sums.values())


def _rates(measured: Sequence[Step]) -> dict[str, float | None]:
    """Tokens per median step, and processor time per second. Empty before the first measured step: not measured is not zero."""
    if not measured:
        return {}
    common = {"step_s_median": statistics.median(durations_s(measured)), "host_cpu_share": _cpu_share(measured)}
    prefill, decode = ([step for step in measured if step.phase == phase] for phase in ("prefill", "decode"))
    if not prefill:
        return {**common, "tokens_per_s": _rate(measured, "tokens"), "loss_tokens_per_s": _rate(measured, "loss_tokens")}
    return {
        **common,
        "prefill_tokens_per_s": _rate(prefill, "tokens"),
        "time_to_first_token_s": statistics.median(step.duration_s for step in prefill),
        "tokens_per_s": _rate(decode, "tokens"),
    }


def _rate(steps: Sequence[Step], what: str) -> float | None:
    """The median number of `tokens`, or `loss_tokens`, by the median duration; None where no time passed."""
    median_s = statistics.median(step.duration_s for step in steps) if steps else 0.0
    return statistics.median(getattr(step, what) for step in steps) / median_s if median_s else None


def _cpu_share(measured: Sequence[Step]) -> float | None:
    """Processor seconds of the worker per second; 1.0 is one core at work all the time.

    A batch of requests tells its processor time with its decode, for both parts.
    """
    taken = [step.cpu_s for step in measured if step.phase != "prefill"]
    known = [cpu_s for cpu_s in taken if cpu_s is not None]
    whole_s = sum(step.duration_s for step in measured)
    return sum(known) / whole_s if whole_s and len(known) == len(taken) else None


def _highest(steps: Sequence[Step], whose: str) -> int | None:
    """A peak as of the last steps seen, for a run that never finished."""
    peaks = [getattr(step, f"{whose}_peak_bytes") for step in steps]
    return max((peak for peak in peaks if peak is not None), default=None)


def _reasons(seen: Seen, counters: Counters) -> dict[str, str]:
    if seen.trace.finished is None:
        return {}
    empty = {"framework_peak_bytes": NO_PEAK, "compile_s": NO_COMPILE_CLOCK}
    parts = {"parts": seen.trace.parts.why} if seen.trace.parts and seen.trace.parts.why else {}
    return {**{column: reason for column, reason in empty.items() if getattr(counters, column) is None}, **parts}
