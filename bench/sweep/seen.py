"""Everything that was seen of one run, on one clock.

In: a worker's trace, the meters' recording, the machine's idle state, a wall meter's readings. Out: steps with their outliers
marked, readings whose time counts from the start of training, and the window of the measured steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.record import Reading, Step
from bench.sweep.evidence import Trace
from bench.sweep.sampling import Recording
from bench.trust.energy import Idle
from bench.trust.outliers import marked

Window = tuple[float, float]


@dataclass(frozen=True)
class Seen:
    """One run as it was watched.

    `wall` are a wall meter's readings on the monotonic clock, `wall_missing` why there are none. `idle` is None where the sweep
    took no baseline. `came_back` is False where the device did not return to its idle power after the run.
    """

    trace: Trace
    recording: Recording = field(default_factory=Recording)
    idle: Idle | None = None
    came_back: bool = True
    wall: tuple[Reading, ...] = ()
    wall_missing: str | None = None
    parent_cpu_share: float | None = None

    @cached_property
    def steps(self) -> list[Step]:
        """The steps, each in its phase, outliers marked."""
        return marked(self.trace.steps)

    @property
    def measured(self) -> list[Step]:
        """The steps behind warm-up; of requests the prefill and the decode of each."""
        return [step for step in self.steps if step.phase != "warmup"]

    @property
    def window(self) -> Window | None:
        """From the start of the first measured step to the end of the last, in seconds since training began."""
        measured = self.measured
        return (measured[0].start_s, measured[-1].start_s + measured[-1].duration_s) if measured else None

    @cached_property
    def readings(self) -> list[Reading]:
        """All readings in time since training began, or since the first reading where it never began."""
        taken = [*self.recording.readings, *self.wall, *self._parts]
        first_s = min((reading.t_s for reading in taken), default=0.0)
        origin_s = first_s if self.trace.origin_s is None else self.trace.origin_s
        return sorted((replace(reading, t_s=reading.t_s - origin_s) for reading in taken), key=lambda reading: reading.t_s)

    @property
    def _parts(self) -> list[Reading]:
        """The parts of memory as readings of the moment at which they were told."""
        told, at_s = self.trace.parts, self.trace.parts_at_s
        sizes = told.parts if told else {}
        return [
            Reading(t_s=at_s, meter="parts", scope=part, quantity="part_bytes", unit="bytes", value=float(size))
            for part, size in sizes.items()
        ]

    @property
    def missing(self) -> Mapping[str, str]:
        """Why meters, or quantities of theirs, gave no readings."""
        wall = {"wall-meter": self.wall_missing} if self.wall_missing else {}
        return {**self.recording.missing, **wall}

    @property
    def settings(self) -> Mapping[str, str]:
        """How the device was set after the run, or before it where it was not asked again."""
        return self.recording.settings_after or self.recording.settings_before
