"""Outcomes are told apart by evidence."""

from pathlib import Path

import pytest

from bench.record import Counters, Failed, Finished, Loaded, Progress, Started, Step, Warm
from bench.sweep.evidence import Ending, Trace, judge, kernel_oom_kills, log_tail

STEP = Step(step=4, phase="measured", start_s=0, duration_s=1, tokens=1, loss_tokens=1, loss=1.0)


def trace(*events: Started | Progress | Loaded | Step | Warm | Finished | Failed) -> Trace:
    made = Trace()
    for event in events:
        made.take(event)
    return made


LOADED = Loaded(load_s=1, parameters=1, trainable_parameters=1, implementation={})
CASES = {
    "finished without a step": (
        trace(LOADED, Finished(counters=Counters(), host_peak_bytes=1)), Ending(exit_code=0),
        ("invalid", "the worker says that it is finished, without a measured step, after 0 steps"),
    ),
    "finished": (trace(LOADED, STEP, Finished(counters=Counters(), host_peak_bytes=1)), Ending(exit_code=0), ("ok", None)),
    "finished, then a crash at teardown": (
        trace(LOADED, STEP, Finished(counters=Counters(), host_peak_bytes=1)), Ending(exit_code=-11), ("ok", None),
    ),
    "the framework's own word": (
        trace(Failed(outcome="oom_device", reason="tried to allocate 2 GiB")), Ending(exit_code=0),
        ("oom_device", "tried to allocate 2 GiB"),
    ),
    "silence": (
        trace(Progress(what="block 7")), Ending(exit_code=-15, silence_s=60.0),
        ("timeout", "no sign of life for 60 s after block 7"),
    ),
    "asked to stop": (trace(STEP), Ending(exit_code=-15, interrupted=True), ("interrupted", "stopped on request after step 4")),
    "the kernel's out-of-memory killer": (
        trace(STEP), Ending(exit_code=-9, kernel_oom_kills=1),
        ("oom_host", "the kernel killed the process for memory after step 4 (oom_kill counter +1)"),
    ),
    "killed by someone else": (
        trace(STEP), Ending(exit_code=-9), ("crashed", "the process ended by SIGKILL after step 4"),
    ),
    "a segmentation fault beside an oom kill": (
        trace(), Ending(exit_code=-11, kernel_oom_kills=1),
        ("crashed", "the process ended by SIGSEGV after start of the process"),
    ),
    "an exit with a last word": (
        trace(), Ending(exit_code=3, log_tail="libcuda not found"),
        ("crashed", "the process ended by exit code 3 after start of the process; the log ends: libcuda not found"),
    ),
    "the driver lost the device": (
        trace(STEP), Ending(exit_code=1, device_lost="GPU is lost"),
        ("device_lost", "the driver lost the device after step 4: GPU is lost"),
    ),
    "the device went, and the framework called it something else": (
        trace(STEP, Failed(outcome="crashed", reason="RuntimeError: CUDA error")), Ending(exit_code=0, device_lost="GPU is lost"),
        ("device_lost", "the driver lost the device after its failure: GPU is lost"),
    ),
    "the device went after the last step": (
        trace(LOADED, STEP, Finished(counters=Counters(), host_peak_bytes=1)), Ending(exit_code=0, device_lost="GPU is lost"),
        ("ok", None),
    ),
    "nonsense on the pipe": (
        trace(), Ending(exit_code=-15, protocol_error="hello"),
        ("crashed", "the worker sent something that is no event: hello"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_judgements(case: tuple[Trace, Ending, tuple[str, str | None]]) -> None:
    seen, ending, expected = case
    assert judge(seen, ending) == expected


def numbered(number: int, start_s: float = 0.0, duration_s: float = 1.0) -> Step:
    return Step(step=number, phase="warmup", start_s=start_s, duration_s=duration_s, tokens=1, loss_tokens=1, loss=1.0)


def test_the_end_of_warm_up_puts_the_steps_told_before_in_their_phase() -> None:
    seen = trace(*(numbered(number) for number in (1, 2, 3, 4)))
    assert [step.phase for step in seen.steps] == ["warmup"] * 4
    seen.take(Warm(warmup_steps=2, troubles=("unsteady",)))
    assert [step.phase for step in seen.steps] == ["warmup", "warmup", "measured", "measured"]
    assert seen.warm == Warm(warmup_steps=2, troubles=("unsteady",))


def test_the_start_of_training_is_the_earliest_that_any_step_suggests() -> None:
    seen = trace()
    for number, told_s in ((1, 101.3), (2, 102.002), (3, 103.1)):  # told 300, 2 and 100 ms after the step's end
        seen.take(numbered(number, start_s=number - 1.0), told_s)
    assert seen.origin_s == pytest.approx(100.002)


def test_the_kernels_counters_are_read(tmp_path: Path) -> None:
    system, group = tmp_path / "vmstat", tmp_path / "memory.events"
    system.write_text("pgfault 12\noom_kill 3\n")
    group.write_text("low 0\noom 9\noom_kill 2\n")
    assert kernel_oom_kills((system, group)) == 3
    assert kernel_oom_kills((group,)) == 2
    assert kernel_oom_kills((tmp_path / "absent",)) == 0


def test_the_logs_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 10_000 + b"\nTraceback\n  RuntimeError: \xff no \x1b[31mroom  \n\n")
    assert log_tail(log) == "RuntimeError: \N{REPLACEMENT CHARACTER} no \\x1b[31mroom"
    assert log_tail(tmp_path / "absent") == ""
