"""How a run ended, judged by evidence.

In: the events that a worker sent, the way its process ended, the kernel's counter of processes it killed for memory, the last
lines of its log, how full the computer's memory was. Out: an outcome and a reason of one line, and how far a run came that memory
ended. What the worker itself reports (the framework's exception, with its
byte counts) comes first; what the system saw comes second; silence is the last resort.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.backends.faults import remedy
from bench.events import Event, Failed, Finished, Loaded, Parts, Progress, Started, Warm
from bench.reading.strict import printable
from bench.record import Outcome, Step

PATIENCE = "if it was only slow, raise event_timeout_s in [measure]"
OOM_COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))
MEMORY_OUTCOMES: frozenset[Outcome] = frozenset({"oom_device", "oom_host", "over_limit"})
FULL_SHARE = 0.95
"""Of the computer's memory. A process that a signal ended there died for memory: where malloc fails, MLX on the CPU and much
other C++ go on to a segmentation fault, and macOS kills by SIGKILL without a counter."""
DEADLY = frozenset({signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT})
UNTOLD = "a failed allocation can end so under a limit that the kernel keeps"
LOG_BYTES = 4096

Fault = Callable[[BaseException], Outcome | None]
"""`bench.backends.interface.Backend.fault` of the run's backend."""


@dataclass
class Trace:
    """What a worker told, in order; `last` describes its last sign of life.

    On this process's monotonic clock, `parts_at_s` is when the parts were told, and `origin_s` the start of training. A step is
    told of at its end or a little later, so the earliest origin that any step suggests is the closest one. `steps` are in the
    phases that are known so far.
    """

    started: Started | None = None
    loaded: Loaded | None = None
    steps: list[Step] = field(default_factory=list)
    warm: Warm | None = None
    parts: Parts | None = None
    parts_at_s: float = 0.0
    origin_s: float | None = None
    finished: Finished | None = None
    failed: Failed | None = None
    last: str = "start of the process"
    _told: list[Step] = field(default_factory=list, repr=False)

    def take(self, event: Event, at_s: float | None = None) -> None:
        """Add one event, received at `at_s` of the monotonic clock (None: not known)."""
        match event:
            case Started():
                self.started, self.last = event, "import of the framework"
            case Loaded():
                self.loaded, self.last = event, "loading"
            case Step():
                self._told.append(event)
                self.steps.append(_in_phase(event, self.warm))
                self.last = f"step {event.step}"
                self._set_origin(event, at_s)
            case Warm():
                self.warm = event
                self.steps = [_in_phase(step, event) for step in self._told]
            case Progress():
                self.last = event.what
            case Parts() | Finished() | Failed():
                self._take_end(event, at_s)

    def _take_end(self, event: Parts | Finished | Failed, at_s: float | None) -> None:
        match event:
            case Parts():
                self.parts, self.parts_at_s, self.last = event, at_s or 0.0, "the parts of memory"
            case Finished():
                self.finished, self.last = event, "the last step"
            case Failed():
                self.failed, self.last = event, "its failure"

    def _set_origin(self, step: Step, at_s: float | None) -> None:
        if at_s is not None:
            suggested_s = at_s - step.start_s - step.duration_s
            self.origin_s = suggested_s if self.origin_s is None else min(self.origin_s, suggested_s)


def _in_phase(step: Step, warm: Warm | None) -> Step:
    """A step, or a part of a request, in the phase that the end of warm-up puts it in.

    The parts of requests are told as what they are, and belong to warm-up until that is known to be over. A step of training is
    told in the phase that it seems to have, which holds until then.
    """
    serves = step.phase in ("prefill", "decode")
    if warm is None:
        return replace(step, phase="warmup") if serves else step
    if step.step <= warm.warmup_steps:
        return replace(step, phase="warmup")
    return step if serves else replace(step, phase="measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the worker's process ended. `exit_code` is negative for a signal; `silence_s` is set where the harness killed it.

    `device_lost` is the driver's word, heard by a meter, that the device is gone. `watchdog` is why the watch on the computer's
    memory ended the run, when the worker itself had `own_bytes` of the `in_use_bytes`; `memory_share` is the share in use at its
    last look. `log_lines` are the last, `log_tail` the very last.
    """

    exit_code: int
    silence_s: float | None = None
    interrupted: bool = False
    kernel_oom_kills: int = 0
    protocol_error: str | None = None
    log_tail: str = ""
    device_lost: str | None = None
    watchdog: str | None = None
    own_bytes: int = 0
    in_use_bytes: int = 0
    memory_share: float = 0.0
    log_lines: tuple[str, ...] = ()


def judge(trace: Trace, ending: Ending, fault: Fault = lambda _: None) -> tuple[Outcome, str | None]:
    """The outcome, and for everything but `ok` the reason.

    Where the driver lost the device, whatever the worker died of is taken for that; a run that finished keeps its result. `fault`
    reads the log of a process that a library ended over Python's head.
    """
    if trace.finished is not None and trace.failed is None:
        return _judge_finished(trace)
    if ending.device_lost is not None and not ending.interrupted:
        return "device_lost", f"the driver lost the device after {trace.last}: {ending.device_lost}"
    if trace.failed is not None:
        return trace.failed.outcome, trace.failed.reason
    return _judge_unfinished(trace, ending, fault)


def failed_at(trace: Trace, outcome: Outcome) -> str | None:
    """How far a run came that memory ended: `load`, `first step` (or request) or `later step`; None for other outcomes."""
    if outcome not in MEMORY_OUTCOMES:
        return None
    if trace.loaded is None:
        return "load"
    return "later step" if trace.steps else "first step"


def _judge_unfinished(trace: Trace, ending: Ending, fault: Fault) -> tuple[Outcome, str | None]:
    """A worker that told neither of a result nor of a failure."""
    if ending.interrupted:
        return "interrupted", f"stopped on request after {trace.last}"
    if ending.protocol_error is not None:
        return "crashed", f"the worker sent something that is no event: {ending.protocol_error}"
    if ending.watchdog is not None:
        return _judge_watched(trace, ending)
    if ending.silence_s is not None:
        return "timeout", f"no sign of life for {ending.silence_s:.0f} s after {trace.last}; {PATIENCE}"
    return _judge_exit(trace, ending, fault)


def _judge_watched(trace: Trace, ending: Ending) -> tuple[Outcome, str]:
    """Ended by the watch on the computer's memory: an answer only where most of what was in use was the worker's own."""
    said = f"after {trace.last} {ending.watchdog}"
    if 2 * ending.own_bytes >= ending.in_use_bytes:
        return "over_limit", said
    return (
        "invalid",
        f"{said}; the run itself had {ending.own_bytes:,} bytes, other programs the rest: close them",
    )


def _judge_finished(trace: Trace) -> tuple[Outcome, str | None]:
    """A run is whole if its model was loaded and at least one step was measured."""
    if trace.loaded is None or not any(step.phase != "warmup" for step in trace.steps):
        return "invalid", f"the worker says that it is finished, without a measured step, after {len(trace.steps)} steps"
    return "ok", None


def _judge_exit(trace: Trace, ending: Ending, fault: Fault) -> tuple[Outcome, str]:
    """A process that ended without an event: by a signal, or by an exit of its own."""
    where = f"after {trace.last}"
    if ending.exit_code == -signal.SIGKILL and ending.kernel_oom_kills > 0:
        return "oom_host", f"the kernel killed the process for memory {where} (oom_kill counter +{ending.kernel_oom_kills})"
    cause = _signal_name(-ending.exit_code) if ending.exit_code < 0 else f"exit code {ending.exit_code}"
    ended = f"the process ended by {cause} {where}"
    found = _last_words(ending, fault)
    if found is not None and found[0] != "crashed":
        return found[0], f"{ended}, and its log says: {found[1]}"
    if -ending.exit_code in DEADLY and ending.memory_share >= FULL_SHARE:
        return "oom_host", f"{ended}, with {ending.memory_share:.1%} of the computer's memory in use"
    said = f"; the log ends: {ending.log_tail}" if ending.log_tail else ""
    advice = remedy(found[1] if found else ending.log_tail) or _under_limit(trace, ending)
    return "crashed", f"{ended}{said}{f'; {advice}' if advice else ''}"


def _last_words(ending: Ending, fault: Fault) -> tuple[Outcome, str] | None:
    """The last line of the log that the backend knows, where a library ended the process: by abort(), or exit() with a code."""
    if ending.exit_code <= 0 and ending.exit_code != -signal.SIGABRT:
        return None
    for line in reversed(ending.log_lines):
        outcome = fault(RuntimeError(line))
        if outcome is not None:
            return outcome, line
    return None


def _under_limit(trace: Trace, ending: Ending) -> str | None:
    held = trace.started is not None and trace.started.memory_limit == "rlimit-data"
    return UNTOLD if held and ending.exit_code < 0 and ending.exit_code != -signal.SIGKILL else None


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
    lines = log_lines(path, characters)
    return lines[-1] if lines else ""


def log_lines(path: Path, characters: int = 300) -> tuple[str, ...]:
    """The log's last non-empty lines, of 4 KiB in all, each shortened to its end; none where there is no log."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - LOG_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(printable(line.strip()[-characters:]) for line in text.splitlines() if line.strip())
