"""What disturbed a run: heat, others on the device and on the processors, sleep, battery, swap, disk, changed settings.

In: a run's readings and the device's settings before and after. Out: the columns `others_cpu_share` and `swap_growth_bytes`, and
flags of `bench.trust.flags`. Whatever could not be judged for want of readings is told in `not_measured`, by its column or its
flag's name, and raises nothing; only others' use of a graphics card, when it cannot be known, is a flag of its own, for there
unknown is not clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bench.record import Reading
from bench.spec import DEVICES, Device
from bench.trust.assessed import Assessed

Window = tuple[float, float]
Series = list[tuple[float, float]]
"""(t_s, value), in order of time."""

THROTTLING = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, software and hardware thermal slowdown, power brake: `nvmlClocksEventReason...` of nvml.h. The others are
no fault: 0x1 idle, 0x2 clocks as set, 0x4 the power limit (where a card under load works by design), 0x10 sync boost, 0x100
display."""
THROTTLED_SHARE = 0.01
"""Of the samples; below it a momentary excursion cannot move a median."""
FOREIGN_SHARE = 0.05
"""Of the device's time, in the mean: a desktop that is being drawn takes a few per cent."""
SLEPT_S = 1.0
LOW_DISK_BYTES = 5e9
SWAPPED_BYTES = 64e6
"""The kernel moves a few idle pages to swap without anybody's need; 64 MB at a disk's 500 MB/s are over a tenth of a second."""
CONTENTION_SHARE: Mapping[Device, float] = {"cpu": 0.10, "metal": 0.10, "mps": 0.10, "cuda": 0.50}
"""Of all logical processors. On Apple silicon the processors share memory bandwidth and the power budget with the GPU. Beside a
graphics card a run needs a core or two to feed it, so others are in its way only when they take most of the machine."""
CONTENTION_CORES_ON_CPU = 0.75
"""On the processor itself at most this many cores, however many there are: threads that meet at barriers wait for the slowest, so
one other busy program holds up all of them."""
TICK_S = 0.05
"""The counters move in ticks of 10 ms, one of the system and one of each process: no less is told apart."""
COVERED_SHARE = 0.5
"""Of the window; readings that cover less of it say nothing about it."""
DISAGREEMENT = 0.05
"""How far a run's own processor time may exceed the system's total: Linux adds up the one exactly and the other by samples."""

NO_READINGS = "no meter gave readings of it"
NO_STEPS = "no step was measured"


def disturbance(
    readings: Sequence[Reading],
    window: Window | None,
    device: Device,
    missing: Mapping[str, str],
    settings_before: Mapping[str, str],
    settings_after: Mapping[str, str],
    idle_settings: Mapping[str, str],
) -> Assessed:
    """Everything that the meters saw beside the run itself.

    `readings` cover the whole run, `window` its measured steps (None: there were none), in seconds of the same clock. `missing`
    maps a meter, or `<meter> <quantity>`, to the reason why it gave nothing. `settings_before` and `settings_after` are those of
    the run, `idle_settings` those of the sweep's baseline. `others_cpu_share` is in cores.
    """
    found = _others(readings, window, device, missing, settings_before) + _swapped(readings, missing)
    found += _foreign(readings, window, device, missing)
    for rule in RULES:
        found += _judge(rule, readings, window, device, missing)
    changed = _changed(idle_settings, settings_before) or _changed(settings_before, settings_after)
    return found + Assessed(flags=("settings-changed",) if changed else ())


class Rule(NamedTuple):
    """A flag that one quantity decides. `devices` are those on which the quantity's absence has to be told."""

    flag: str
    meter: str
    quantity: str
    raised: Callable[[list[float]], bool]
    devices: tuple[Device, ...] = DEVICES
    in_window: bool = False


def _throttled(reasons: list[float]) -> bool:
    return sum(bool(int(bits) & THROTTLING) for bits in reasons) > THROTTLED_SHARE * len(reasons)


RULES: tuple[Rule, ...] = (
    Rule("throttled", "nvml", "throttle_reasons", _throttled, ("cuda",), in_window=True),
    Rule("thermal-pressure", "apple-system", "thermal_pressure", any, ("metal", "mps"), in_window=True),
    Rule("slept", "host", "asleep", lambda slept_s: max(slept_s) - min(slept_s) > SLEPT_S),
    Rule("on-battery", "host", "on_battery", any),
    Rule("low-disk", "host", "disk_free", lambda free_bytes: min(free_bytes) < LOW_DISK_BYTES),
)


def _judge(
    rule: Rule, readings: Sequence[Reading], window: Window | None, device: Device, missing: Mapping[str, str]
) -> Assessed:
    series = _series(readings, rule.quantity)
    if not series:
        why = {rule.flag: _reason(missing, rule.meter, rule.quantity)} if device in rule.devices else {}
        return Assessed(not_measured=why)
    if rule.in_window and window is None:
        return Assessed(not_measured={rule.flag: NO_STEPS})
    values = _within(series, window) if rule.in_window and window else [value for _, value in series]
    return Assessed(flags=(rule.flag,) if rule.raised(values) else ())


def _others(
    readings: Sequence[Reading],
    window: Window | None,
    device: Device,
    missing: Mapping[str, str],
    settings: Mapping[str, str],
) -> Assessed:
    """Processor time of everybody less that of the run, from readings of both at the same moments."""
    if window is None:
        return Assessed(not_measured={"others_cpu_share": NO_STEPS})
    run = dict(_series(readings, "cpu_of_run"))
    both = [(t_s, busy_s, run[t_s]) for t_s, busy_s in _series(readings, "cpu_busy") if t_s in run]
    if not both:
        lacking = "cpu_of_run" if _series(readings, "cpu_busy") else "cpu_busy"
        return Assessed(not_measured={"others_cpu_share": _reason(missing, "host", lacking)})
    t_s, busy_s, run_s = np.array(both).T
    ends = np.clip(window, t_s[0], t_s[-1])
    covered_s = float(np.diff(ends)[0])
    if covered_s <= COVERED_SHARE * (window[1] - window[0]):
        return Assessed(not_measured={"others_cpu_share": "its readings cover less than half of the measured steps"})
    own_s = float(np.diff(np.interp(ends, t_s, run_s))[0])
    others_s = float(np.diff(np.interp(ends, t_s, busy_s))[0]) - own_s
    if others_s < -(TICK_S + DISAGREEMENT * own_s):
        return Assessed(not_measured={"others_cpu_share": "the system counts less processor time than the run itself took"})
    contended = others_s - TICK_S > _bearable_cores(device, settings) * covered_s
    return Assessed({"others_cpu_share": max(0.0, others_s / covered_s)}, ("cpu-contention",) if contended else ())


def _bearable_cores(device: Device, settings: Mapping[str, str]) -> float:
    """How many cores others may take. A number of cores that is not known counts as one, the strictest."""
    cores = settings.get("cpu_cores", "1")
    bearable = CONTENTION_SHARE[device] * (int(cores) if cores.isdecimal() else 1)
    return min(bearable, CONTENTION_CORES_ON_CPU) if device == "cpu" else bearable


def _swapped(readings: Sequence[Reading], missing: Mapping[str, str]) -> Assessed:
    """Growth is the most that lay in swap less what lay there at first, over the whole run."""
    used, traffic = _values(readings, "swap_used"), _values(readings, "swap_traffic")
    growth_bytes = max(used) - used[0] if used else 0.0
    moved_bytes = traffic[-1] - traffic[0] if traffic else 0.0
    if max(growth_bytes, moved_bytes) > SWAPPED_BYTES:
        found = Assessed(flags=("swapped",))
    elif used and traffic:
        found = Assessed()
    else:
        found = Assessed(not_measured={"swapped": _reason(missing, "host", "swap_traffic" if used else "swap_used")})
    if used:
        return found + Assessed({"swap_growth_bytes": int(growth_bytes)})
    return found + Assessed(not_measured={"swap_growth_bytes": _reason(missing, "host", "swap_used")})


def _foreign(readings: Sequence[Reading], window: Window | None, device: Device, missing: Mapping[str, str]) -> Assessed:
    """Others on the device: by their number at any time of the run, or by their share in the mean of the measured steps."""
    if device == "cpu":
        return Assessed()  # whose other users are `others_cpu_share`
    shares = _series(readings, "foreign_utilization")
    used = _within(shares, window) if window else [share for _, share in shares]
    if any(_values(readings, "foreign_processes")) or (used and float(np.mean(used)) > FOREIGN_SHARE):
        return Assessed(flags=("foreign-process",))
    meter = "nvml" if device == "cuda" else "apple-system"
    if any(_known(readings, missing, meter, quantity) for quantity in ("foreign_processes", "foreign_utilization")):
        return Assessed()
    why = {_reason(missing, meter, quantity) for quantity in ("foreign_processes", "foreign_utilization")} - {NO_READINGS}
    return Assessed(flags=("foreign-unknown",), not_measured={"foreign-process": "; ".join(sorted(why)) or NO_READINGS})


def _known(readings: Sequence[Reading], missing: Mapping[str, str], meter: str, quantity: str) -> bool:
    """Whether it was read, and the meter stood by it in the end: one that came to distrust its list takes all of it back."""
    return bool(_values(readings, quantity)) and f"{meter} {quantity}" not in missing


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a setting that both name differs. Names that end in `_now` follow the load by themselves."""
    return any(after.get(name, value) != value for name, value in before.items() if not name.endswith("_now"))


def _series(readings: Sequence[Reading], quantity: str) -> Series:
    given = ((reading.t_s, reading.value) for reading in readings if reading.quantity == quantity)
    return sorted((t_s, value) for t_s, value in given if value is not None)


def _values(readings: Sequence[Reading], quantity: str) -> list[float]:
    return [value for _, value in _series(readings, quantity)]


def _within(series: Series, window: Window) -> list[float]:
    """The values within the window; where it lies between two readings, those on either side."""
    inside = [value for t_s, value in series if window[0] <= t_s <= window[1]]
    before = [value for t_s, value in series if t_s < window[0]][-1:]
    after = [value for t_s, value in series if t_s > window[1]][:1]
    return inside or before + after


def _reason(missing: Mapping[str, str], meter: str, quantity: str) -> str:
    """Why there are no readings, in the meter's words where it has some, the more particular first."""
    return missing.get(f"{meter} {quantity}") or missing.get(meter) or NO_READINGS
