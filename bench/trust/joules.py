"""Energy over a window, from the readings of one meter: by its counter, and by its samples of power.

In: readings, a window in seconds, what the meter's readings may leave open. Out: joules; or `NotMeasured` with the reason.

**Counter.** A counter that moves in steps is true only when it has just moved, so only readings at which it had moved count, and
the first reading never does. Between them it is interpolated at the window's ends. Let g be the time between the two movements
on either side of an end: the error there is at most g/4 times the difference of the mean power before and after that end, and
none under steady load. A movement is seen up to one step and one interval of reading late; both ends are, so that over a window
of W seconds at most (step + interval) / W remains: 3% at 10 s for NVML (0.1 s and 0.2 s), and on average none.

**Samples.** The trapezoid rule, values at the window's ends interpolated. A driver's trailing average over one second is taken as
it stands, which replaces the last half second of the window by the half second before it: with warm-up steps before the window
nothing changes, without them the energy of half a second at load less idle is missing. Moving the average by half a second would
instead mix in what follows the window, which is never the same load.

Where readings begin within the window or end before it does (macOS publishes every 2 s), what is left open, at most a quarter of
it, is taken at the mean power of the rest: a quarter of the difference in power between the two at worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.record import Reading

OPEN_SHARE = 0.25
STILL_S = 5.0
"""A sensor that resolves milliwatts does not show one value for so long."""
STILL_SAMPLES = 10

Floats = NDArray[np.float64]
Window = tuple[float, float]


class NotMeasured(ValueError):
    """The readings say nothing about the window; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What readings may leave open.

    `counter_s`: the longest time between two movements of a counter; `sample_s`: between two samples; `samples`: the fewest
    samples in a window; `fine`: whether the sensor resolves so finely that one value over and over means that it stalled.
    """

    counter_s: float
    sample_s: float
    samples: int
    fine: bool


DEVICE = Limits(counter_s=3.0, sample_s=1.0, samples=2, fine=True)
"""Sensors of the computer itself. The slowest counter, macOS's, has been seen to move every 2.23 s, and is read every 0.5 s."""
WALL = Limits(counter_s=10.0, sample_s=10.0, samples=60, fine=False)
"""A meter behind the plug: coarse and slow. 60 samples are what MLPerf Power asks for."""


class Trace(NamedTuple):
    """One quantity of one meter in order of time: seconds, values, the meter's name."""

    t_s: Floats
    values: Floats
    meter: str

    def between(self, start_s: float, end_s: float) -> Trace:
        """The readings from `start_s` to `end_s`, both included."""
        inside = (self.t_s >= start_s) & (self.t_s <= end_s)
        return Trace(self.t_s[inside], self.values[inside], self.meter)


def trace_of(readings: Sequence[Reading], scope: str, quantity: str) -> Trace | None:
    """What was read of `quantity` in `scope`, by the first meter that gave it; None if nothing was."""
    wanted = [reading for reading in readings if (reading.scope, reading.quantity) == (scope, quantity)]
    known = [(r.t_s, r.value, r.meter) for r in wanted if r.value is not None and math.isfinite(r.value)]
    if not known:
        return None
    meter = known[0][2]
    own = sorted((t_s, value) for t_s, value, name in known if name == meter)
    return Trace(np.array([t_s for t_s, _ in own]), np.array([value for _, value in own]), meter)


def counter_j(trace: Trace, window: Window, limits: Limits) -> float:
    """Joules that a counter counted in the window. Raises NotMeasured: stalled, set back, or too far from the window's ends."""
    if (np.diff(trace.values) < 0).any():
        raise NotMeasured("the counter went back")
    moves = np.flatnonzero(np.diff(trace.values) > 0) + 1
    _refuse_standing(trace, moves, window, limits.counter_s)
    times = trace.t_s[moves]
    start_s, end_s = _covered(times, window, limits.counter_s)
    for edge_s in (start_s, end_s):
        after = int(np.searchsorted(times, edge_s))
        if times[after] > edge_s and (apart_s := times[after] - times[after - 1]) > limits.counter_s:
            raise NotMeasured(f"at an end of the window the counter was read {apart_s:.1f} s apart")
    first_j, last_j = np.interp([start_s, end_s], times, trace.values[moves])
    return float(last_j - first_j) * _whole(window, start_s, end_s)


def integral_j(trace: Trace, window: Window, limits: Limits) -> float:
    """Joules by the trapezoid rule over samples of power. Raises NotMeasured: stalled, with gaps, too few, not covering."""
    start_s, end_s = _covered(trace.t_s, window, limits.sample_s)
    first = int(np.searchsorted(trace.t_s, start_s, "right")) - 1
    last = int(np.searchsorted(trace.t_s, end_s, "left"))
    times, watts = trace.t_s[first : last + 1], trace.values[first : last + 1]
    if (gap_s := np.diff(times).max()) > limits.sample_s:
        raise NotMeasured(f"no sample of power for {gap_s:.1f} s")
    if times.size < limits.samples:
        raise NotMeasured(f"{times.size} samples of power where {limits.samples} are needed")
    _refuse_still(times, watts, limits.fine)
    inner = times[(times > start_s) & (times < end_s)]
    grid = np.concatenate([[start_s], inner, [end_s]])
    return float(np.trapezoid(np.interp(grid, times, watts), grid)) * _whole(window, start_s, end_s)


def _refuse_standing(trace: Trace, moves: NDArray[np.intp], window: Window, limit_s: float) -> None:
    """Refuse a counter that was read in the window and did not move, be it for a part of it."""
    starts = np.concatenate([[0], moves])
    ends = np.concatenate([moves - 1, [trace.t_s.size - 1]])
    stood_s = np.minimum(trace.t_s[ends], window[1]) - np.maximum(trace.t_s[starts], window[0])
    longest = int(stood_s.argmax())
    never = moves.size < 2 and trace.t_s[-1] - trace.t_s[0] > limit_s
    if never or stood_s[longest] > limit_s:
        raise NotMeasured(f"stalled: the counter stood at {trace.values[starts[longest]]:g} J while steps ran")


def _covered(times: Floats, window: Window, limit_s: float) -> Window:
    """The part of the window from the first to the last reading. Raises NotMeasured where too much is left open."""
    start_s, end_s = window
    first_s, last_s = (float(times[0]), float(times[-1])) if times.size else (end_s, start_s)
    from_s, to_s = max(start_s, first_s), min(end_s, last_s)
    covered_s, whole_s = max(0.0, to_s - from_s), end_s - start_s
    if covered_s < (1 - OPEN_SHARE) * whole_s or max(from_s - start_s, end_s - to_s) > limit_s:
        raise NotMeasured(f"the readings cover {covered_s:.1f} s of a window of {whole_s:.1f} s")
    return from_s, to_s


def _whole(window: Window, start_s: float, end_s: float) -> float:
    """By how much the window is longer than its covered part."""
    return (window[1] - window[0]) / (end_s - start_s)


def _refuse_still(times: Floats, watts: Floats, fine: bool) -> None:
    """Refuse a sensor that shows zero throughout, or, where it should resolve finely, one value for too long."""
    changes = np.flatnonzero(np.diff(watts)) + 1
    starts, ends = np.concatenate([[0], changes]), np.concatenate([changes - 1, [watts.size - 1]])
    stood_s = times[ends] - times[starts]
    longest = int(stood_s.argmax())
    alike = fine and (stood_s[longest] > STILL_S or (changes.size == 0 and watts.size >= STILL_SAMPLES))
    if alike or not watts.any():
        raise NotMeasured(f"stalled: the sensor showed {watts[starts[longest]]:g} W for {stood_s[longest]:.1f} s")
