"""One run, from its marker to its stored row.

In: a cell, and what all runs of a sweep share. Out: the stored run. A marker on disk comes first and goes last, so that no run
can vanish; the worker is watched with every meter; after it the device is given time to come back to rest; then all that was
seen is assessed and stored, whatever the outcome.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from bench import store
from bench.backends.interface import load_backend
from bench.events import Event
from bench.meters.interface import Watched
from bench.meters.wall import read_wall_meter
from bench.reading.strict import printable
from bench.record import Reading, Run
from bench.spec import BadInput, Cell, Device, Measure
from bench.sweep import idle, inflight
from bench.sweep.child import Job, watch
from bench.sweep.evidence import judge
from bench.sweep.interrupt import Interrupt
from bench.sweep.rows import Context, run_row
from bench.sweep.seen import Seen
from bench.sweep.watchdog import DEFAULT_SHARE, DEVICES, Watchdog, means
from bench.trust.energy import Idle


@dataclass
class Measuring:
    """What the runs of one sweep share.

    `lock` is inherited by workers. `meters` off measures without any, to know what they cost. `watchdog_share` is the share of
    physical memory that may be in use (None: any). `parts` asks each run for the parts of its memory.
    """

    context: Context
    results: Path
    measure: Measure
    interrupt: Interrupt
    lock: int
    on_event: Callable[[Event], None]
    note: Callable[[str], None]
    wall_meter: Path | None = None
    meters: bool = True
    watchdog_share: float | None = DEFAULT_SHARE
    parts: bool = False
    _idle: dict[Device, Idle] = field(default_factory=dict)

    def rest(self, devices: set[Device]) -> None:
        """Take the idle baseline of these devices, before anything is measured on them."""
        for device in sorted(devices):
            if self.meters and not self.interrupt.requested:
                self._idle[device] = idle.baseline(device, str(self.results), self.interrupt)

    def run(self, cell: Cell) -> Run:
        """Measure the cell once and store what came of it."""
        run_id, started_at = new_run_id(), now()
        with inflight.under_way(self.results, marker(self.context, cell, run_id, started_at)):
            run, seen = self._observe(cell, run_id, started_at)
            try:
                store.append(self.results, run, seen.steps, seen.readings)
            except (ValueError, TypeError, OverflowError) as error:
                reason = printable(f"what the worker told cannot be stored: {error}")
                run = run_row(self.context, cell, run_id, started_at, "invalid", reason)
                store.append(self.results, run)
        return run

    def _observe(self, cell: Cell, run_id: str, started_at: datetime) -> tuple[Run, Seen]:
        """Watch one worker from its start to its end, then its device until it rests."""
        device, began = cell.device, (time.monotonic(), now())
        cpu_before_s = time.process_time()
        trace, ending, recording = watch(self._job(cell, run_id), self.interrupt, self.on_event)
        share = (time.process_time() - cpu_before_s) / (time.monotonic() - began[0])
        baseline = self._idle.get(device)
        came_back = baseline is None or idle.came_back(device, str(self.results), baseline, self.interrupt)
        wall, wall_missing = self._wall(began)  # now: a wall meter's logger writes some seconds late
        seen = Seen(
            trace,
            recording,
            idle=baseline,
            came_back=came_back,
            wall=wall,
            wall_missing=wall_missing,
            parent_cpu_share=share,
        )
        outcome, reason = judge(trace, ending, load_backend(cell.backend).fault)
        row = run_row(self.context, cell, run_id, started_at, outcome, reason, seen, measure=self.measure)
        if ending.watchdog is not None and self.context.limit is None:
            row = replace(row, memory_limit=means(self.watchdog_share))
        return row, seen

    def _job(self, cell: Cell, run_id: str) -> Job:
        return Job(
            cell=cell.to_json(),
            measure=asdict(self.measure),
            event_timeout_s=self.measure.event_timeout_s,
            log=self.results / "logs" / f"{run_id}.log",
            inherit=(self.lock,),
            watched=Watched(device=cell.device, folder=str(self.results)) if self.meters else None,
            capacity_bytes=self.context.limit.capacity_bytes if self.context.limit else None,
            watchdog=Watchdog(self.watchdog_share) if cell.device in DEVICES else None,
            parts=self.parts,
        )

    def _wall(self, began: tuple[float, datetime]) -> tuple[tuple[Reading, ...], str | None]:
        """The wall meter's readings since the run began, on the monotonic clock; or why there are none."""
        if self.wall_meter is None:
            return (), None
        try:
            return tuple(read_wall_meter(self.wall_meter, began[1], now(), origin=began)), None
        except (BadInput, OSError) as error:
            self.note(f"nothing from the wall meter: {printable(str(error))}")
            return (), printable(str(error))


def marker(context: Context, cell: Cell, run_id: str, started_at: datetime) -> inflight.Marker:
    """What stands on disk while the run is under way."""
    return inflight.Marker(
        run_id=run_id,
        started_at=started_at,
        machine=context.machine.name,
        machine_id=context.machine.machine_id,
        suite=context.suite,
        question=context.question,
        boot=inflight.boot_id(),
        cell=cell,
        limit=context.limit,
        night=context.night,
    )


def new_run_id() -> str:
    """Sortable by time, unique without coordination: `20261130T021500Z-` and 8 hex digits."""
    return f"{now():%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def now() -> datetime:
    """The time of day, UTC."""
    return datetime.now(UTC)
