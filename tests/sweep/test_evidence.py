"""Outcomes are told apart by evidence."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.backends.interface import load_backend
from bench.events import Counters, Failed, Finished, Loaded, Progress, Started, Warm
from bench.record import Outcome, Step
from bench.spec import BackendName
from bench.sweep.evidence import Ending, Trace, failed_at, judge, kernel_oom_kills, log_lines, log_tail

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
        ("timeout", "no sign of life for 60 s after block 7; if it was only slow, raise event_timeout_s in [measure]"),
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


def parts(number: int) -> list[Step]:
    """A batch of requests as the worker tells it."""
    prefill = replace(numbered(number, start_s=number), phase="prefill")
    return [prefill, replace(prefill, phase="decode", start_s=number + 1.0, duration_s=3.0)]


def test_the_end_of_warm_up_puts_requests_told_before_and_after_in_their_phase() -> None:
    seen = trace(*parts(1), *parts(2), *parts(3))
    assert [step.phase for step in seen.steps] == ["warmup"] * 6
    for event in (Warm(warmup_steps=2), *parts(4)):
        seen.take(event)
    assert [step.phase for step in seen.steps] == [*["warmup"] * 4, *["prefill", "decode"] * 2]
    assert [step.step for step in seen.steps] == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize(
    ("warm", "outcome"), [((), "invalid"), ((Warm(warmup_steps=1),), "invalid"), ((Warm(warmup_steps=0),), "ok")]
)
def test_requests_without_a_measured_one_are_no_result(warm: tuple[Warm, ...], outcome: str) -> None:
    seen = trace(LOADED, *parts(1), *warm, Finished(counters=Counters(), host_peak_bytes=1))
    assert judge(seen, Ending(exit_code=0))[0] == outcome


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


ABORT = (
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: "
    "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
)
LEAKED = "resource_tracker: There appear to be 1 leaked semaphore objects to clean up at shutdown"
DISPLAY = (
    ABORT.replace("Insufficient Memory", "Impacting Interactivity")
    .replace("00000008:", "0000000e:")
    .replace("OutOfMemory", "ImpactingInteractivity")
)
BITSANDBYTES = "Error out of memory at line 351 in file /home/developer/bitsandbytes/csrc/pythonInterface.c"
HELD = Started(import_s=1, versions={}, memory_limit="rlimit-data")
DEATHS = {
    "Metal's abort, before MLX 0.32": (
        "mlx", trace(LOADED), Ending(exit_code=-6, log_tail=LEAKED, log_lines=("step", ABORT, LEAKED)),
        "oom_device", f"the process ended by SIGABRT after loading, and its log says: {ABORT}",
    ),
    "an abort that is no want of memory": (
        "mlx", trace(LOADED, STEP), Ending(exit_code=-6, log_tail=DISPLAY, log_lines=(DISPLAY,)),
        "crashed", f"the process ended by SIGABRT after step 4; the log ends: {DISPLAY}; a command buffer kept the GPU",
    ),
    "bitsandbytes' exit": (
        "hf", trace(LOADED), Ending(exit_code=1, log_tail=BITSANDBYTES, log_lines=(BITSANDBYTES,)),
        "oom_device", f"the process ended by exit code 1 after loading, and its log says: {BITSANDBYTES}",
    ),
    "C++ out of memory": (
        "hf", trace(), Ending(exit_code=-6, log_lines=("terminate called after throwing 'std::bad_alloc'", "Aborted")),
        "oom_host", "the process ended by SIGABRT after start of the process, and its log says: terminate called",
    ),
    "a word of memory in the log of one that was killed": (
        "mlx", trace(LOADED), Ending(exit_code=-9, log_tail="x", log_lines=(ABORT,)),
        "crashed", "the process ended by SIGKILL after loading; the log ends: x",
    ),
    "MLX on the CPU, where malloc failed": (
        "mlx", trace(LOADED, STEP), Ending(exit_code=-11, memory_share=0.991),
        "oom_host", "the process ended by SIGSEGV after step 4, with 99.1% of the computer's memory in use",
    ),
    "a segmentation fault with memory to spare": (
        "mlx", trace(LOADED, STEP), Ending(exit_code=-11, memory_share=0.6),
        "crashed", "the process ended by SIGSEGV after step 4",
    ),
    "an exit with memory full": (
        "mlx", trace(), Ending(exit_code=3, memory_share=0.99), "crashed", "the process ended by exit code 3",
    ),
    "a segmentation fault under the kernel's limit": (
        "hf", trace(HELD), Ending(exit_code=-11), "crashed",
        "the process ended by SIGSEGV after import of the framework; a failed allocation can end so under a limit",
    ),
    "no thread": (
        "hf", trace(), Ending(exit_code=1, log_tail="libgomp: Thread creation failed: Resource temporarily unavailable"),
        "crashed", "the process ended by exit code 1 after start of the process; the log ends: libgomp: Thread creation failed",
    ),
    "the watch on memory": (
        "mlx", trace(LOADED, STEP), Ending(exit_code=-15, watchdog="96 of 100 bytes were in use", silence_s=3.0),
        "over_limit", "after step 4 96 of 100 bytes were in use",
    ),
    "the watch on memory, which others filled": (
        "mlx", trace(LOADED, STEP), Ending(exit_code=-15, watchdog="96 of 100 bytes were in use", own_bytes=40, in_use_bytes=96),
        "invalid", "after step 4 96 of 100 bytes were in use; the run itself had 40 bytes, other programs the rest",
    ),
}  # fmt: skip


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_deaths_are_told_apart(death: tuple[BackendName, Trace, Ending, str, str]) -> None:
    backend, seen, ending, outcome, reason = death
    judged = judge(seen, ending, load_backend(backend).fault)
    assert judged[0] == outcome
    assert judged[1] is not None
    assert judged[1].startswith(reason)


@pytest.mark.parametrize("outcome", ["oom_device", "oom_host", "over_limit"])
def test_how_far_a_run_came_that_memory_ended(outcome: Outcome) -> None:
    assert failed_at(trace(HELD), outcome) == "load"
    assert failed_at(trace(HELD, LOADED), outcome) == "first step"
    assert failed_at(trace(HELD, LOADED, STEP), outcome) == "later step"


@pytest.mark.parametrize("outcome", ["ok", "crashed", "timeout", "device_lost", "interrupted", "unsupported"])
def test_of_other_outcomes_it_is_not_said(outcome: Outcome) -> None:
    assert failed_at(trace(HELD, LOADED), outcome) is None


def test_the_logs_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 5000 + "\nfirst\n\n  second \x1b[1m\n")
    assert log_lines(log)[1:] == ("first", "second \\x1b[1m")
    assert log_lines(tmp_path / "absent") == ()
