"""One worker process, watched.

In: a job, a log file, the descriptors to inherit. Out: the worker's events as they come, what the meters saw meanwhile, and how
it ended. The parent sleeps in `select` until an event, an interrupt, a meter or a look at memory that is due, or the deadline: it
takes hardly any processor from what it measures. A worker that stays
silent too long is ended with its whole process group: SIGTERM, ten seconds, SIGKILL.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from bench.events import Event, event_from_line
from bench.meters.interface import Watched
from bench.reading.strict import printable
from bench.sweep.evidence import Ending, Trace, kernel_oom_kills, log_lines, log_tail
from bench.sweep.interrupt import Interrupt
from bench.sweep.sampling import Recording, Sampler, sampling
from bench.sweep.watchdog import Watchdog, resident_bytes

GRACE_S = 10.0
EXIT_S = 60.0
SLOWEST_STEPS = 20
CHUNK_BYTES = 65_536
ENVIRONMENT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Cards are counted as the driver's meters count them, so that the card that computes is the one that is metered."""
ROOT = Path(__file__).resolve().parents[2]
"""Where the package lies: the worker takes it from there, and nothing from the folder that the sweep was started in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a worker is told, where its output goes, and for which device the meters are opened (None: no meters).

    `capacity_bytes` is the most memory that the run may have (None: what there is). `watchdog` looks after the computer's.
    `parts` asks for the parts of memory as well.
    """

    cell: Mapping[str, Any]
    measure: Mapping[str, Any]
    event_timeout_s: float
    log: Path
    inherit: tuple[int, ...] = ()
    watched: Watched | None = None
    capacity_bytes: int | None = None
    watchdog: Watchdog | None = None
    parts: bool = False

    def to_json(self) -> str:
        told = ("cell", "measure", "capacity_bytes", "parts")
        return json.dumps({name: getattr(self, name) for name in told})


def watch(job: Job, interrupt: Interrupt, on_event: Callable[[Event], None]) -> tuple[Trace, Ending, Recording]:
    """Start a worker, pass on its events, and return when its process is gone."""
    oom_before = kernel_oom_kills()
    trace = Trace()
    with _worker(job) as (process, events), _metered(job, process.pid) as sampler:
        stop = _listen(events, process.pid, trace, job, interrupt, on_event, sampler)
        sampler.finish()
        exit_code = _end(process, interrupt, willing=stop.closed)
    ending = Ending(
        exit_code=exit_code,
        silence_s=stop.silence_s,
        interrupted=interrupt.requested,
        kernel_oom_kills=kernel_oom_kills() - oom_before,
        protocol_error=stop.protocol_error,
        log_tail=log_tail(job.log),
        device_lost=sampler.recording.lost,
        watchdog=stop.watchdog,
        own_bytes=stop.own_bytes,
        in_use_bytes=job.watchdog.last_bytes if job.watchdog else 0,
        memory_share=job.watchdog.last_share if job.watchdog else 0.0,
        log_lines=log_lines(job.log),
    )
    return trace, ending, sampler.recording


@contextmanager
def _metered(job: Job, pid: int) -> Iterator[Sampler]:
    """The meters for the worker's process; none where the job wants none."""
    if job.watched is None:
        yield Sampler(Recording(), [], time.monotonic)
        return
    with sampling(replace(job.watched, pid=pid)) as sampler:
        yield sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """Why listening ended: the pipe was closed, the worker was silent or spoke nonsense, too much of the computer's memory was in
    use, or (nothing set) an interrupt came.
    """

    closed: bool = False
    silence_s: float | None = None
    protocol_error: str | None = None
    watchdog: str | None = None
    own_bytes: int = 0


@contextmanager
def _worker(job: Job) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process in a group of its own, with the reading end of its event pipe."""
    reading, writing = os.pipe()
    job.log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with job.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "bench.worker", str(writing)],
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(ROOT), *_python_path()])},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(writing, *job.inherit),
                start_new_session=True,
            )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        _hand_over(process.stdin, job)
        yield process, reading
    finally:
        os.close(reading)
        if process.poll() is None:
            _signal_group(process, signal.SIGKILL)
        process.wait()


def _python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _hand_over(stdin: IO[bytes] | None, job: Job) -> None:
    """Write the job; a worker that died before reading it shows soon enough."""
    if stdin is None:
        return
    try:
        stdin.write(job.to_json().encode())
        stdin.close()
    except BrokenPipeError:
        return


def _listen(
    events: int, pid: int, trace: Trace, job: Job, interrupt: Interrupt, on_event: Callable[[Event], None], sampler: Sampler
) -> _Stop:
    """Read events, and the meters, until the pipe ends, an interrupt comes, or the worker is silent longer than it may be."""
    pending, heard_s = b"", time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(events, selectors.EVENT_READ)
        selector.register(interrupt.descriptor, selectors.EVENT_READ)
        while not interrupt.requested:
            allowed_s = patience_s(job.event_timeout_s, trace)
            left_s = heard_s + allowed_s - time.monotonic()
            ready = {key.fd for key, _ in selector.select(max(0.0, min(left_s, _due_in_s(sampler, job.watchdog))))}
            sampler.sample()
            if events in ready:
                chunk, heard_s = os.read(events, CHUNK_BYTES), time.monotonic()
                *lines, pending = (pending + chunk).split(b"\n")
                stop = _Stop(closed=True) if not chunk else _take_all(lines, trace, on_event)
            else:
                stop = _Stop(silence_s=allowed_s) if left_s <= 0 else None
            stop = stop or _look_after(job.watchdog, pid)
            if stop is not None:
                return stop
    return _Stop()


def _due_in_s(sampler: Sampler, watchdog: Watchdog | None) -> float:
    """Seconds until a meter or the computer's memory is to be looked at."""
    return sampler.due_in_s() if watchdog is None else min(sampler.due_in_s(), watchdog.due_in_s())


def _look_after(watchdog: Watchdog | None, pid: int) -> _Stop | None:
    """Look at the computer's memory, if it is time to; why to stop, or None."""
    reason = watchdog.bark() if watchdog else None
    return _Stop(watchdog=reason, own_bytes=resident_bytes(pid)) if reason else None


def _take_all(lines: list[bytes], trace: Trace, on_event: Callable[[Event], None]) -> _Stop | None:
    """Take lines of the pipe, up to one that is no event, which is why to stop."""
    wrong = next((wrong for line in lines if (wrong := _take(line, trace, on_event))), None)
    return None if wrong is None else _Stop(protocol_error=wrong)


def patience_s(event_timeout_s: float, trace: Trace) -> float:
    """Seconds of silence to bear: the suite's, or twenty median steps where that is longer."""
    if not trace.steps:
        return event_timeout_s
    return max(event_timeout_s, SLOWEST_STEPS * statistics.median(step.duration_s for step in trace.steps))


def _take(line: bytes, trace: Trace, on_event: Callable[[Event], None]) -> str | None:
    """One line of the pipe: an event, or what is wrong with it."""
    try:
        event = event_from_line(line)
    except ValueError:
        return printable(line[:200].decode(errors="replace"))
    trace.take(event, time.monotonic())
    on_event(event)
    return None


def _end(process: subprocess.Popen[bytes], interrupt: Interrupt, willing: bool) -> int:
    """See the process out: a willing one (its pipe is closed) gets a minute, any other SIGTERM and ten seconds, then SIGKILL."""
    if not (willing and _gone_within(process, EXIT_S, interrupt)):
        _signal_group(process, signal.SIGTERM)
        if not _gone_within(process, GRACE_S, interrupt):
            _signal_group(process, signal.SIGKILL)
    return process.wait()


def _gone_within(process: subprocess.Popen[bytes], limit_s: float, interrupt: Interrupt) -> bool:
    """Wait for the process's end; less long when the user insists."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s and not interrupt.insisted:
        try:
            process.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
        return True
    return process.poll() is not None


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
