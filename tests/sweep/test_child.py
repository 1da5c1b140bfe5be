"""Real worker processes with the fake backend: every ending is seen for what it is."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_meters import PlayedMeter, lost_after

from bench.backends.fake import Fake
from bench.backends.interface import Backend
from bench.backends.mlx import Mlx
from bench.events import Event, Loaded, Started, Warm
from bench.meters.interface import Value, Watched
from bench.record import Step
from bench.spec import Cell, Measure
from bench.sweep import sampling
from bench.sweep.child import Job, patience_s, watch
from bench.sweep.evidence import PATIENCE, Trace, failed_at, judge
from bench.sweep.interrupt import catch_interrupts
from bench.sweep.watchdog import Watchdog

Watch = Callable[..., tuple[Trace, str, str | None, list[Event]]]


@pytest.fixture
def played(fake_cell: Callable[..., Cell], tmp_path: Path) -> Watch:
    """Play a fake cell in a real worker: (trace, outcome, reason, events)."""

    def play(event_timeout_s: float = 30.0, on_event: Callable[[Event], None] | None = None, **plays: Any) -> Any:
        cell = fake_cell(**plays)
        measure = Measure(warmup_steps=1, warmup_max_steps=1, steps=2)
        events: list[Event] = []

        def take(event: Event) -> None:
            events.append(event)
            if on_event is not None:
                on_event(event)

        job = Job(cell=cell.to_json(), measure=asdict(measure), event_timeout_s=event_timeout_s, log=tmp_path / "logs" / "log")
        with catch_interrupts() as interrupt:
            trace, ending, recording = watch(job, interrupt, take)
            assert recording.readings == []  # no meters were asked for
        return trace, *judge(trace, ending), events

    return play


def test_a_run_that_goes_well_tells_its_story_in_order(played: Watch) -> None:
    trace, outcome, reason, events = played(peak_bytes=5)
    assert (outcome, reason) == ("ok", None)
    kinds = [type(event) for event in events if type(event).__name__ != "Progress"]
    assert kinds == [Started, Loaded, Step, Warm, Step, Step, type(trace.finished)]
    assert [step.phase for step in trace.steps] == ["warmup", "measured", "measured"]
    assert trace.finished is not None
    assert trace.finished.counters.framework_peak_bytes == 5
    assert (trace.finished.host_peak_bytes or 0) > 1_000_000


FAILURES = {
    "oom_device": ("oom_device", "FakeFault: oom_device: played at step 2"),
    "oom_host": ("oom_host", "FakeFault: oom_host: played at step 2"),
    "device_lost": ("device_lost", "FakeFault: device_lost: played at step 2"),
    "unsupported": ("unsupported", "FakeFault: unsupported: played at step 2"),
    "something else": ("crashed", "FakeFault: something else: played at step 2"),
    "exit": ("crashed", "the process ended by exit code 7 after step 1"),
    "sigkill": ("crashed", "the process ended by SIGKILL after step 1"),
    "sigsegv": ("crashed", "the process ended by SIGSEGV after step 1"),
}


@pytest.mark.parametrize("fail", FAILURES)
def test_a_failure_keeps_its_class_its_reason_and_the_steps_before(played: Watch, fail: str) -> None:
    trace, outcome, reason, _ = played(fail=fail, fail_at_step=2)
    assert (outcome, reason) == FAILURES[fail]
    assert [step.step for step in trace.steps] == [1]


def test_other_tokens_than_those_made_are_invalid(played: Watch) -> None:
    _, outcome, reason, _ = played(fail="tokens", fail_at_step=2)
    assert outcome == "invalid"
    assert reason is not None
    assert reason.startswith("WrongTokens: step 2 was given tokens")


def test_a_silent_worker_is_ended_with_its_whole_group(played: Watch) -> None:
    _, outcome, reason, _ = played(event_timeout_s=6, fail="hang", fail_at_step=2)
    assert outcome == "timeout"
    assert reason == f"no sign of life for 6 s after step 1; {PATIENCE}"
    assert not [each for each in psutil.Process().children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]


def test_a_slow_but_steady_worker_is_borne_longer() -> None:
    slow = Step(step=1, phase="warmup", start_s=0, duration_s=10.0, tokens=1, loss_tokens=1, loss=None)
    trace = Trace()
    assert patience_s(60.0, trace) == 60.0
    trace.take(slow)
    assert patience_s(60.0, trace) == 200.0


def test_an_interrupt_ends_the_worker_and_is_no_failure(played: Watch) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Step):
            os.kill(os.getpid(), signal.SIGINT)

    began_s = time.monotonic()
    _, outcome, reason, _ = played(on_event=stop, step_s=0.2)
    assert (outcome, reason) == ("interrupted", "stopped on request after step 1")
    assert time.monotonic() - began_s < 10


def test_a_killed_worker_is_a_crash_and_not_a_hang(played: Watch) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, Step):
            psutil.Process().children()[0].kill()

    _, outcome, reason, _ = played(on_event=kill, step_s=5.0)
    assert outcome == "crashed"
    assert reason is not None
    assert "SIGKILL" in reason


def test_the_parent_sleeps_while_the_child_works(played: Watch) -> None:
    before_s, began_s = time.process_time(), time.monotonic()
    played(step_s=1.0)
    share = (time.process_time() - before_s) / (time.monotonic() - began_s)
    assert share < 0.1


def test_what_the_framework_prints_lands_in_the_log(played: Watch, tmp_path: Path) -> None:
    played(fail="oom_host", fail_at_step=0)
    assert "FakeFault: oom_host: played at step 0" in (tmp_path / "logs" / "log").read_text()


def test_the_folder_of_the_sweep_lends_the_worker_no_modules(
    played: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench").mkdir()
    for name in ("json.py", "numpy.py", "bench/__init__.py"):
        (tmp_path / name).write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    assert played()[1] == "ok"


@pytest.mark.parametrize("plays", [{"step_s": 0.05}, {"fail": "hang", "fail_at_step": 2}], ids=["working", "hung"])
def test_a_worker_whose_parent_is_gone_ends_by_itself(fake_cell: Callable[..., Cell], plays: dict[str, Any]) -> None:
    reading, writing = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-m", "bench.worker", str(writing)],
        stdin=subprocess.PIPE,
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    cell = fake_cell(**plays)
    measure = asdict(Measure(warmup_steps=0, warmup_max_steps=0, steps=10_000))
    assert worker.stdin is not None
    worker.stdin.write(json.dumps({"cell": cell.to_json(), "measure": measure}).encode())
    worker.stdin.close()
    assert os.read(reading, 10)
    os.close(reading)
    timer = threading.Timer(30, worker.kill)
    timer.start()
    assert worker.wait() == 1
    timer.cancel()


def test_meters_are_read_while_the_worker_works_and_for_its_process(
    fake_cell: Callable[..., Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = PlayedMeter(time.monotonic, lambda since_s: [Value("power", 100.0 + since_s)], interval_s=0.05)
    monkeypatch.setattr(sampling, "_meters", lambda: iter([meter]))
    measure = asdict(Measure(warmup_steps=0, warmup_max_steps=0, steps=5))
    watched = Watched(device="cpu")
    job = Job(cell=fake_cell(step_s=0.2).to_json(), measure=measure, event_timeout_s=30, log=tmp_path / "log", watched=watched)
    with catch_interrupts() as interrupt:
        trace, ending, recording = watch(job, interrupt, lambda _: None)
    assert judge(trace, ending)[0] == "ok"
    assert meter.closed == 1
    assert [each.pid is not None and each.device == "cpu" for each in meter.opened] == [True]
    assert trace.origin_s is not None
    during = [each for each in recording.readings if trace.origin_s <= each.t_s <= trace.origin_s + 1.0]
    assert 10 <= len(during) <= 21
    assert recording.readings[-1].t_s >= trace.origin_s + 1.0


def test_a_device_that_its_driver_loses_is_the_reason_of_a_worker_that_died_of_it(
    fake_cell: Callable[..., Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = PlayedMeter(time.monotonic, lost_after(0.01, Value("power", 300.0)), interval_s=0.02)
    monkeypatch.setattr(sampling, "_meters", lambda: iter([meter]))
    cell = fake_cell(step_s=0.1, fail="crashed", fail_at_step=3)
    measure = asdict(Measure(warmup_steps=0, warmup_max_steps=0, steps=5))
    job = Job(cell=cell.to_json(), measure=measure, event_timeout_s=30, log=tmp_path / "log", watched=Watched(device="cpu"))
    with catch_interrupts() as interrupt:
        trace, ending, _ = watch(job, interrupt, lambda _: None)
    assert [step.step for step in trace.steps] == [1, 2]
    assert judge(trace, ending) == ("device_lost", "the driver lost the device after its failure: GPU is lost")


def ended(cell: Cell, tmp_path: Path, backend: Backend, **more: Any) -> tuple[Trace, str, str | None]:
    """Play a cell in a real worker, under what is given, and let the backend's words be known."""
    measure = asdict(Measure(warmup_steps=0, warmup_max_steps=0, steps=20))
    job = Job(cell=cell.to_json(), measure=measure, event_timeout_s=30, log=tmp_path / "log", **more)
    with catch_interrupts() as interrupt:
        trace, ending, _ = watch(job, interrupt, lambda _: None)
    return trace, *judge(trace, ending, backend.fault)


def test_an_abort_of_metal_is_known_by_the_log_that_it_leaves(fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    """As MLX before 0.32 ended where Metal had no memory: the message of ml-explore/mlx pull request 479."""
    says = (
        "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: "
        "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
    )
    trace, outcome, reason = ended(fake_cell(fail="abort", fail_at_step=1, says=says), tmp_path, Mlx())
    assert outcome == "oom_device"
    assert reason is not None
    assert says in reason
    assert failed_at(trace, "oom_device") == "first step"
    interactivity = says.replace("Insufficient Memory", "Impacting Interactivity")
    interactivity = interactivity.replace("OutOfMemory", "ImpactingInteractivity")
    _, outcome, reason = ended(fake_cell(fail="abort", fail_at_step=1, says=interactivity), tmp_path, Mlx())
    assert outcome == "crashed"
    assert "display off" in (reason or "")


def test_a_full_computer_ends_the_run_and_not_itself(fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    began_s = time.monotonic()

    def look() -> tuple[int, int]:
        return (97 if time.monotonic() > began_s + 1.0 else 50), 100

    watchdog = Watchdog(0.95, look)
    trace, outcome, reason = ended(fake_cell(step_s=0.2), tmp_path, Fake(), watchdog=watchdog)
    assert outcome == "over_limit"
    assert reason is not None
    assert "97 of 100 bytes of the computer's memory were in use" in reason
    assert failed_at(trace, "over_limit") in ("load", "first step", "later step")
    assert not [each for each in psutil.Process().children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]


def test_it_is_heard_though_the_worker_never_falls_silent(fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    watchdog = Watchdog(0.95, lambda: (97, 100))
    assert ended(fake_cell(step_s=0.0), tmp_path, Fake(), watchdog=watchdog)[1] == "over_limit"


def test_a_limit_reaches_the_worker(fake_cell: Callable[..., Cell], tmp_path: Path) -> None:
    peaks = [10, 20, 1001]
    trace, outcome, reason = ended(fake_cell(peak_bytes=peaks), tmp_path, Fake(), capacity_bytes=1000)
    assert (outcome, reason) == ("over_limit", "OverLimit: a peak of 1,001 bytes in step 3, 1,000 allowed")
    assert trace.started is not None
    assert trace.started.memory_limit == "accounting"
    assert [step.step for step in trace.steps] == [1, 2]
    trace, outcome, _ = ended(fake_cell(peak_bytes=peaks), tmp_path, Fake(), capacity_bytes=1001)
    assert outcome == "ok"
