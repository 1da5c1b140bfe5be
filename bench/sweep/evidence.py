"""How a run ended, judged by evidence.

In: the events that a worker sent, the way its process ended, the kernel's counter of processes it killed for memory, the last
lines of its log. Out: an outcome and a reason of one line. What the worker itself reports (the framework's exception, with its
byte counts) comes first; what the system saw comes second; silence is the last resort.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.reading.strict import printable
from bench.record import Event, Failed, Finished, Loaded, Outcome, Progress, Started, Step, Warm

OOM_COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))


@dataclass
class Trace:
    """What a worker told, in order; `last` describes its last sign of life.

    `origin_s` is the start of training on this process's monotonic clock. A step is told of at its end or a little later, so
    the earliest origin that any step suggests is the closest one.
    """

    started: Started | None = None
    loaded: Loaded | None = None
    steps: list[Step] = field(default_factory=list)
    warm: Warm | None = None
    origin_s: float | None = None
    finished: Finished | None = None
    failed: Failed | None = None
    last: str = "start of the process"

    def take(self, event: Event, at_s: float | None = None) -> None:
        """Add one event, received at `at_s` of the monotonic clock (None: not known)."""
        match event:
            case Started():
                self.started, self.last = event, "import of the framework"
            case Loaded():
                self.loaded, self.last = event, "loading"
            case Step():
                self.steps.append(event)
                self.last = f"step {event.step}"
                self._set_origin(event, at_s)
            case Warm():
                self.warm = event
                self.steps = [_in_phase(step, event.warmup_steps) for step in self.steps]
            case Progress():
                self.last = event.what
            case Finished():
                self.finished, self.last = event, "the last step"
            case Failed():
                self.failed, self.last = event, "its failure"

    def _set_origin(self, step: Step, at_s: float | None) -> None:
        if at_s is not None:
            suggested_s = at_s - step.start_s - step.duration_s
            self.origin_s = suggested_s if self.origin_s is None else min(self.origin_s, suggested_s)


def _in_phase(step: Step, warmup_steps: int) -> Step:
    """A step of training, in the phase that the end of warm-up puts it in."""
    return replace(step, phase="warmup" if step.step <= warmup_steps else "measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the worker's process ended. `exit_code` is negative for a signal; `silence_s` is set where the harness killed it.

    `device_lost` is the driver's word, heard by a meter, that the device is gone.
    """

    exit_code: int
    silence_s: float | None = None
    interrupted: bool = False
    kernel_oom_kills: int = 0
    protocol_error: str | None = None
    log_tail: str = ""
    device_lost: str | None = None


def judge(trace: Trace, ending: Ending) -> tuple[Outcome, str | None]:
    """The outcome, and for everything but `ok` the reason.

    Where the driver lost the device, whatever the worker died of is taken for that; a run that finished keeps its result.
    """
    if trace.finished is not None and trace.failed is None:
        return _judge_finished(trace)
    if ending.device_lost is not None and not ending.interrupted:
        return "device_lost", f"the driver lost the device after {trace.last}: {ending.device_lost}"
    if trace.failed is not None:
        return trace.failed.outcome, trace.failed.reason
    return _judge_unfinished(trace, ending)


def _judge_unfinished(trace: Trace, ending: Ending) -> tuple[Outcome, str | None]:
    """A worker that told neither of a result nor of a failure."""
    if ending.interrupted:
        return "interrupted", f"stopped on request after {trace.last}"
    if ending.protocol_error is not None:
        return "crashed", f"the worker sent something that is no event: {ending.protocol_error}"
    if ending.silence_s is not None:
        return "timeout", f"no sign of life for {ending.silence_s:.0f} s after {trace.last}"
    return _judge_exit(trace, ending)


def _judge_finished(trace: Trace) -> tuple[Outcome, str | None]:
    """A run is whole if its model was loaded and at least one step was measured."""
    if trace.loaded is None or not any(step.phase == "measured" for step in trace.steps):
        return "invalid", f"the worker says that it is finished, without a measured step, after {len(trace.steps)} steps"
    return "ok", None


def _judge_exit(trace: Trace, ending: Ending) -> tuple[Outcome, str]:
    """A process that ended without a word: by a signal, or by an exit of its own."""
    where = f"after {trace.last}"
    if ending.exit_code == -signal.SIGKILL and ending.kernel_oom_kills > 0:
        return "oom_host", f"the kernel killed the process for memory {where} (oom_kill counter +{ending.kernel_oom_kills})"
    cause = _signal_name(-ending.exit_code) if ending.exit_code < 0 else f"exit code {ending.exit_code}"
    said = f"; the log ends: {ending.log_tail}" if ending.log_tail else ""
    return "crashed", f"the process ended by {cause} {where}{said}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def kernel_oom_kills(counters: tuple[Path, ...] = OOM_COUNTERS) -> int:
    """How many processes the kernel has killed for memory so far: the highest of the system's and the control group's counter.

    Sources: `oom_kill` in /proc/vmstat (since Linux 4.13) and in cgroup v2's memory.events. 0 where there is neither.
    """
    return max((_counter(path) for path in counters), default=0)


def _counter(path: Path) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    values = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return values[0] if values else 0


def log_tail(path: Path, characters: int = 300) -> str:
    """The log's last non-empty line, shortened; empty where there is no log."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - 4096))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1][-characters:]) if lines else ""
