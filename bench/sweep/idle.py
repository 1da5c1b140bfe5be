"""The machine at rest: what it draws before a sweep, and whether it comes back to that after a run.

In: a device, an interrupt to heed. Out: the idle power by scope, with the device's settings at that time; and after a run, a
wait until the device draws no more than that again, so that each run starts from the same state. Where nothing measures power
there is nothing to wait for, and no time is spent.
"""

from __future__ import annotations

import select
import time

from bench.meters.interface import Watched
from bench.spec import Device
from bench.sweep.interrupt import Interrupt
from bench.sweep.sampling import Recording, Sampler, sampling
from bench.trust.energy import Idle, mean_power_w, primary_scope, settled

BASELINE_S = 10.0
SETTLING_S = 15.0
SLICE_S = 0.5


def baseline(device: Device, folder: str, interrupt: Interrupt, duration_s: float = BASELINE_S) -> Idle:
    """What the machine draws at rest, by scope, over `duration_s`; empty where nothing measures power for this device."""
    with sampling(Watched(device=device, folder=folder)) as sampler:
        if not _measures_power(sampler.recording):
            return Idle({}, sampler.recording.settings_before)
        began_s = time.monotonic()
        watch_at_rest(sampler, interrupt, duration_s)
        sampler.finish()
    found = sampler.recording
    scopes = {reading.scope for reading in found.readings if reading.quantity in ("energy", "power", "power_average")}
    means = {scope: mean_power_w(found.readings, began_s, began_s + duration_s, scope) for scope in sorted(scopes)}
    return Idle({scope: power_w for scope, power_w in means.items() if power_w is not None}, found.settings_after)


def came_back(device: Device, folder: str, idle: Idle, interrupt: Interrupt, limit_s: float = SETTLING_S) -> bool:
    """Wait until the device draws its idle power again, at most `limit_s`. True at once where there is no baseline."""
    if not idle.power_w:
        return True
    with sampling(Watched(device=device, folder=folder)) as sampler:
        scope = primary_scope(sampler.recording.readings, device)
        if scope is None or scope not in idle.power_w:
            return True
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s and not interrupt.requested:
            watch_at_rest(sampler, interrupt, SLICE_S)
            if settled(sampler.recording.readings, time.monotonic(), scope, idle.power_w[scope]):
                return True
    return interrupt.requested


def _measures_power(recording: Recording) -> bool:
    return any(reading.quantity in ("energy", "power", "power_average") for reading in recording.readings)


def watch_at_rest(sampler: Sampler, interrupt: Interrupt, duration_s: float) -> None:
    """Read the meters for that long, asleep in between; an interrupt ends it."""
    deadline_s = time.monotonic() + duration_s
    while (left_s := deadline_s - time.monotonic()) > 0 and not interrupt.requested:
        select.select([interrupt.descriptor], [], [], min(left_s, sampler.due_in_s()))
        sampler.sample()
