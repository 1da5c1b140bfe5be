"""Power and energy of a run, from readings: whose joules, by which means, above what idle power.

In: a run's readings, the window of its measured steps, the tokens in it, the machine's idle state. Out: the columns of power and
energy, each with its value or the reason why there is none, and the flags `energy-disagreement` and `short-energy-window`.

The scope follows from the device: a graphics card's is its board, that of Apple's GPU the chip, the CPU's its package (on a Mac
the chip), and what is behind the plug only where nothing else was read. Scopes are never added to one another: a wall meter's
figures stand in columns of their own. How counters and samples become joules, and how far to trust them: `bench.trust.joules`.

The counter's energy comes first, where there is one; the integral of power samples is kept beside it. Nothing measures well
over a few seconds: below 10 s the figures stand and are flagged. A wall meter is coarse and slow, so that below 60 s it gives
None with the reason: MLPerf Power asks for 60 s at least (arXiv 2410.12032).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.record import Reading
from bench.spec import Device
from bench.trust.assessed import Assessed
from bench.trust.joules import DEVICE, WALL, NotMeasured, Trace, Window, counter_j, integral_j, trace_of

SCOPES: Mapping[Device, tuple[str, ...]] = {
    "cuda": ("gpu-board", "wall"),
    "metal": ("soc", "wall"),
    "mps": ("soc", "wall"),
    "cpu": ("package", "soc", "wall"),
}
"""Of each device, the scopes that tell of it, the first that was read being taken."""
METERS = {"gpu-board": "nvml", "soc": "apple-power", "package": "rapl", "wall": "wall-meter"}
SAMPLES = ("power", "power_average")

MIN_WINDOW_S = 10.0
WALL_WINDOW_S = 60.0
DISAGREEMENT = 0.05
COUNTED_S = 5.0
"""From this span on a counter's difference is a better mean than samples are."""
TRAILING_S = 2.0
FRESH_S = 3.0
BACK_SHARE, BACK_W = 0.10, 2.0

NO_STEPS = "no step was measured"
NO_METER = "nothing measures the power of this device here"
NO_WALL = "no wall meter was given (--wall-meter)"
NO_TOKENS = "no token was counted"
NO_BASELINE = "no idle power was measured before the sweep"
NOT_ABOVE = "the run took no more than the machine at rest"
FLAT_PEAK = "the driver gives a trailing average, in which peaks are flattened"


@dataclass(frozen=True, slots=True)
class Idle:
    """The machine at rest: mean power by scope, and how the device was set at that time."""

    power_w: Mapping[str, float]
    settings: Mapping[str, str] = field(default_factory=dict)

    def changed(self, settings: Mapping[str, str]) -> list[str]:
        """The settings that are not the same; those that follow the load by themselves (`*_now`) do not count."""
        names = sorted({*self.settings, *settings})
        return [name for name in names if not name.endswith("_now") and self.settings.get(name) != settings.get(name)]


class Figure(NamedTuple):
    """One column's value, or the reason why there is none."""

    value: float | None
    reason: str = ""

    def over(self, divisor: float) -> Figure:
        """The same per unit of `divisor`."""
        return self if self.value is None else Figure(self.value / divisor)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What one scope's meter made of the window."""

    scope: str | None
    counter: Figure
    integral: Figure
    peak: Figure

    @property
    def energy(self) -> Figure:
        if self.counter.value is not None:
            return self.counter
        return self.integral if self.integral.value is not None else Figure(None, _joined(self.counter, self.integral))

    @property
    def disagrees(self) -> bool:
        counted, summed = self.counter.value, self.integral.value
        return counted is not None and summed is not None and abs(counted - summed) > DISAGREEMENT * summed


def energy(
    readings: Sequence[Reading],
    window: Window | None,
    *,
    tokens: int,
    device: Device,
    idle: Idle | None,
    settings: Mapping[str, str],
    missing: Mapping[str, str],
) -> Assessed:
    """The columns `power_w` to `wall_energy_j` of `runs`.

    `readings` and `window` are in seconds from the start of training; `tokens` are those of the measured steps. `settings` are
    the device's in the run: where they are not those of `idle`, nothing is taken off. `missing` maps a meter, or `<meter>
    <quantity>`, to the reason why it gave nothing; a meter that is named there as a whole and gave readings was lost on the way.
    """
    span = window if window is not None and window[1] > window[0] else None
    wall = _measured(readings, span, "wall", missing)
    scope = primary_scope(readings, device)
    own = wall if scope == "wall" else _measured(readings, span, scope, missing, device)
    window_s = span[1] - span[0] if span else 1.0
    figures = {
        "power_w": own.energy.over(window_s),
        "peak_power_w": own.peak,
        "energy_j": own.energy,
        "energy_counter_j": own.counter,
        "energy_integral_j": own.integral,
        "wall_power_w": wall.energy.over(window_s),
        "wall_energy_j": wall.energy,
        **_above_idle(own, window_s, idle, settings),
    }
    for total, per_token in (("energy_j", "j_per_token"), ("energy_above_idle_j", "j_per_token_above_idle")):
        figures[per_token] = figures[total].over(tokens) if tokens else Figure(None, NO_TOKENS)
    found = {name: figure.value for name, figure in figures.items() if figure.value is not None}
    covers = {"energy_window_s": window_s} if "energy_j" in found or "wall_energy_j" in found else {}
    whose = {"power_scope": own.scope} if "energy_j" in found else {}
    reasons = {name: figure.reason for name, figure in figures.items() if figure.value is None}
    return Assessed({**found, **covers, **whose}, _flags(own, window_s), reasons)


def primary_scope(readings: Sequence[Reading], device: Device) -> str | None:
    """The scope whose power is the device's, among those that were read; None where none was."""
    read = {reading.scope for reading in readings if reading.quantity in ("energy", *SAMPLES) and reading.value is not None}
    return next((scope for scope in SCOPES[device] if scope in read), None)


def mean_power_w(readings: Sequence[Reading], start_s: float, end_s: float, scope: str) -> float | None:
    """Mean power in a scope, from the counter where it was read over 5 s and more, else of the samples; None without either.

    Only readings within the time count. A counter that stood still, and samples that are all zero, are no measurement.
    """
    counter = trace_of(readings, scope, "energy")
    if counter is not None and (counted_w := _rate_w(counter.between(start_s, end_s), COUNTED_S)):
        return counted_w
    for quantity in SAMPLES:
        trace = trace_of(readings, scope, quantity)
        if trace is not None and (watts := trace.between(start_s, end_s).values).any():
            return float(watts.mean())
    return None


def settled(readings: Sequence[Reading], now_s: float, scope: str, baseline_w: float) -> bool:
    """Whether the mean of the last 2 s lies within 10% or 2 W, whichever is more, of the baseline.

    False as long as readings do not span those 2 s. A counter that is read more seldom is taken over the least span beyond them.
    """
    trailing_w = _trailing_samples_w(readings, now_s, scope)
    if trailing_w is None:
        trailing_w = _trailing_counter_w(readings, now_s, scope)
    return trailing_w is not None and abs(trailing_w - baseline_w) <= max(BACK_SHARE * baseline_w, BACK_W)


def _trailing_samples_w(readings: Sequence[Reading], now_s: float, scope: str) -> float | None:
    for quantity in SAMPLES:
        trace = trace_of(readings, scope, quantity)
        if trace is not None and trace.t_s[0] <= now_s - TRAILING_S:
            recent = trace.between(now_s - TRAILING_S, now_s).values
            return float(recent.mean()) if recent.any() else None
    return None


def _trailing_counter_w(readings: Sequence[Reading], now_s: float, scope: str) -> float | None:
    counter = trace_of(readings, scope, "energy")
    if counter is None or counter.t_s[-1] < now_s - FRESH_S:
        return None
    before = counter.t_s[counter.t_s <= counter.t_s[-1] - TRAILING_S]
    return _rate_w(counter.between(before[-1], counter.t_s[-1]), TRAILING_S) if before.size else None


def _rate_w(counter: Trace, least_s: float) -> float | None:
    """Mean power between the first and the last reading; None where they lie too close, or the counter did not rise."""
    if counter.t_s.size < 2 or (span_s := float(counter.t_s[-1] - counter.t_s[0])) < least_s:
        return None
    rise_j = float(counter.values[-1] - counter.values[0])
    return rise_j / span_s if rise_j > 0 else None


def _measured(
    readings: Sequence[Reading],
    window: Window | None,
    scope: str | None,
    missing: Mapping[str, str],
    device: Device | None = None,
) -> _Measured:
    """What there is in one scope, in joules over the window and watts at its peak."""
    if window is None:
        return _nothing(scope, NO_STEPS)
    if scope is None:
        return _nothing(None, _why_silent(missing, device))
    counter, power, average = (trace_of(readings, scope, quantity) for quantity in ("energy", *SAMPLES))
    if scope == "wall" and (reason := _no_wall(counter or power, window, missing)):
        return _nothing(scope, reason)
    limits = WALL if scope == "wall" else DEVICE
    counted = _tried(counter, "energy", scope, missing, lambda trace: counter_j(trace, window, limits))
    summed = _tried(power or average, "power", scope, missing, lambda trace: integral_j(trace, window, limits))
    return _Measured(scope, counted, summed, _peak(power, summed, window))


def _nothing(scope: str | None, reason: str) -> _Measured:
    return _Measured(scope, Figure(None, reason), Figure(None, reason), Figure(None, reason))


def _no_wall(trace: Trace | None, window: Window, missing: Mapping[str, str]) -> str | None:
    """Why a wall meter says nothing about this window, if it does not."""
    if trace is None:
        return missing.get(METERS["wall"], NO_WALL)
    window_s = window[1] - window[0]
    if window_s < WALL_WINDOW_S:
        return f"the measured steps lasted {window_s:.1f} s, and a wall meter needs {WALL_WINDOW_S:.0f} s"
    return None


def _why_silent(missing: Mapping[str, str], device: Device | None) -> str:
    """The reasons of the meters that could have told of the device."""
    meters = [METERS[scope] for scope in SCOPES[device] if scope != "wall"] if device else []
    return "; ".join(f"{meter}: {missing[meter]}" for meter in meters if meter in missing) or NO_METER


def _tried(
    trace: Trace | None, quantity: str, scope: str, missing: Mapping[str, str], measure: Callable[[Trace], float]
) -> Figure:
    """A figure of one trace; without it, what its meter says of the quantity."""
    if trace is None:
        return Figure(None, missing.get(f"{METERS[scope]} {quantity}", f"{METERS[scope]} gave no readings of {quantity}"))
    if trace.meter in missing:
        return Figure(None, f"{trace.meter}: {missing[trace.meter]}")
    try:
        return Figure(measure(trace))
    except NotMeasured as error:
        said = missing.get(f"{trace.meter} {quantity}")
        return Figure(None, f"{error} ({said})" if said else str(error))


def _peak(power: Trace | None, integral: Figure, window: Window) -> Figure:
    """The largest sample in the window, where its samples can be believed at all."""
    if integral.value is None:
        return integral
    if power is None:
        return Figure(None, FLAT_PEAK)
    samples = power.between(*window).values
    return Figure(float(samples.max())) if samples.size else Figure(None, "no sample of power in the window")


def _above_idle(own: _Measured, window_s: float, idle: Idle | None, settings: Mapping[str, str]) -> dict[str, Figure]:
    """The idle power of the same scope, and what the run took above it if the device was set alike."""
    idle_w = idle.power_w.get(own.scope) if idle and own.scope else None
    if idle is None or idle_w is None:
        unknown = NO_BASELINE if idle is None else f"the idle power of scope {own.scope} was not measured"
        missing = Figure(None, unknown if own.scope else own.energy.reason)
        return {"idle_power_w": missing, "energy_above_idle_j": missing}
    return {"idle_power_w": Figure(idle_w), "energy_above_idle_j": _less(own.energy, idle_w * window_s, idle.changed(settings))}


def _less(gross: Figure, idle_j: float, changed: Sequence[str]) -> Figure:
    """Energy less that at rest, where the two can be compared and something is left."""
    if gross.value is None:
        return gross
    if changed:
        return Figure(None, f"the device was set otherwise when its idle power was measured: {', '.join(changed)}")
    return Figure(gross.value - idle_j) if gross.value > idle_j else Figure(None, NOT_ABOVE)


def _flags(own: _Measured, window_s: float) -> tuple[str, ...]:
    """A short window shows no disagreement: there it is the window's."""
    if own.energy.value is None:
        return ()
    if window_s < MIN_WINDOW_S:
        return ("short-energy-window",)
    return ("energy-disagreement",) if own.disagrees else ()


def _joined(*figures: Figure) -> str:
    """Reasons in one line, each once."""
    return "; ".join(dict.fromkeys(figure.reason for figure in figures))
