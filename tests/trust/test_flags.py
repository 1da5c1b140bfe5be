"""The closed list of flags: complete, each raised by something, and never mistaken for harmless when unknown."""

from collections.abc import Callable, Iterable

import pytest

from bench.record import Gpu, Machine, Reading, Step
from bench.spec import Measure
from bench.trust import warmup
from bench.trust.disturbance import disturbance
from bench.trust.edge import edge
from bench.trust.energy import Idle, energy
from bench.trust.flags import ASKED_FOR, FLAGS, SPOILT, doubtful, spoils
from bench.trust.memory import memory

GB = 1_000_000_000


def read(quantity: str, *values: float, scope: str = "machine", unit: str = "", every_s: float = 1.0) -> list[Reading]:
    return [
        Reading(t_s=number * every_s, meter="m", scope=scope, quantity=quantity, unit=unit, value=value)
        for number, value in enumerate(values)
    ]


def warm(durations_s: list[float], peaks_bytes: list[int | None]) -> Iterable[str]:
    rule = warmup.rule_of(Measure(warmup_steps=0, warmup_max_steps=10))
    found = warmup.judge(durations_s, peaks_bytes, rule)
    return found.troubles if found else ()


def disturbed(readings: list[Reading], device: str = "cpu", after: str = "450") -> Iterable[str]:
    settings = {"power_limit_w": "450", "cpu_cores": "8"}
    return disturbance(readings, (0.0, 10.0), device, {}, settings, {"power_limit_w": after}, settings).flags


def powered(readings: list[Reading], end_s: float) -> Iterable[str]:
    found = energy(readings, (0.0, end_s), tokens=1, device="cuda", idle=Idle({}), settings={}, missing={})
    return found.flags


def joules(power_w: float, count: int) -> list[Reading]:
    return read("energy", *(power_w * number for number in range(count)), scope="gpu-board", unit="J")


def watts(power_w: float, count: int) -> list[Reading]:
    return read("power", *(power_w + number % 3 for number in range(10 * count)), scope="gpu-board", unit="W", every_s=0.1)


def at_the_edge(readings: list[Reading], *peaks_bytes: int) -> Iterable[str]:
    steps = [
        Step(
            step=number, phase="measured", start_s=10.0 * number, duration_s=10.0, tokens=1, loss_tokens=1, loss=1.0,
            framework_peak_bytes=peak_bytes,
        )
        for number, peak_bytes in enumerate(peaks_bytes)
    ]  # fmt: skip
    wsl = Machine(
        name="pc", machine_id="1", system="Linux", architecture="x86_64", os_version="5.15-microsoft-standard-WSL2", chip="c",
        cpu_cores=8, memory_bytes=GB, gpus=(Gpu("card", 24 * GB),),
    )  # fmt: skip
    return edge(steps, readings, "cuda", wsl, {"reserved_peak_bytes": max(peaks_bytes)}).flags


RAISED_BY: dict[str, Callable[[], Iterable[str]]] = {
    "unsteady": lambda: warm([1.0, 2.0] * 15, [GB] * 30),
    "memory-growing": lambda: warm([1.0] * 30, [GB * number for number in range(1, 31)]),
    "untracked-memory": lambda: memory([], "metal", GB, 9 * GB, 0, {}).flags,
    "swapped": lambda: disturbed(read("swap_used", 0, GB)),
    "growing": lambda: at_the_edge([], GB, 2 * GB, 3 * GB),
    "swapping": lambda: at_the_edge(read("swap_traffic", *range(0, 6 * GB, GB), every_s=10.0), GB, GB, GB),
    "spilled": lambda: at_the_edge([], 25 * GB, 25 * GB),
    "energy-disagreement": lambda: powered(joules(100, 31) + watts(150, 31), 30.0),
    "short-energy-window": lambda: powered(joules(100, 6) + watts(100, 6), 5.0),
    "settings-changed": lambda: disturbed([], after="300"),
    "throttled": lambda: disturbed(read("throttle_reasons", 0x40, 0x40), "cuda"),
    "thermal-pressure": lambda: disturbed(read("thermal_pressure", 1, 1), "metal"),
    "foreign-process": lambda: disturbed(read("foreign_processes", 1), "cuda"),
    "foreign-unknown": lambda: disturbed([], "cuda"),
    "cpu-contention": lambda: disturbed(read("cpu_busy", *range(0, 110, 10)) + read("cpu_of_run", *range(11))),
    "slept": lambda: disturbed(read("asleep", 0, 60)),
    "on-battery": lambda: disturbed(read("on_battery", 0, 1)),
    "low-disk": lambda: disturbed(read("disk_free", GB)),
}
RAISED_BY_THE_SWEEP = {"idle-drift", "limited"}
"""By `bench.sweep.rows`, from a wait on the device, and for a limit that was asked for: tests/sweep/test_rows.py shows both."""


def test_every_flag_is_raised_by_something() -> None:
    assert {*RAISED_BY, *RAISED_BY_THE_SWEEP} == set(FLAGS)


@pytest.mark.parametrize("flag", RAISED_BY)
def test_it_is_raised(flag: str) -> None:
    assert flag in set(RAISED_BY[flag]())


@pytest.mark.parametrize("flag", FLAGS)
def test_it_says_why_and_what_to_do_and_what_it_spoils(flag: str) -> None:
    told = FLAGS[flag]
    assert told.cause.strip()
    assert told.remedy.strip()
    assert told.spoils
    assert set(told.spoils) <= set(SPOILT)
    assert len(set(told.spoils)) == len(told.spoils)
    assert flag == flag.lower().replace("_", "-").strip()


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("what", SPOILT)
def test_a_flag_spoils_what_it_says_and_no_more(flag: str, what) -> None:
    assert spoils([flag], what) is (what in FLAGS[flag].spoils)


@pytest.mark.parametrize("what", SPOILT)
def test_an_unknown_flag_spoils_everything(what) -> None:
    assert spoils(["of a later version"], what)
    assert spoils(["short-energy-window", "of a later version"], what)


def test_no_flag_spoils_nothing_and_one_of_several_is_enough() -> None:
    assert not any(spoils([], what) for what in SPOILT)
    assert spoils(("memory-growing", "low-disk"), "time")
    assert not spoils(("memory-growing", "low-disk"), "energy")


def test_what_was_asked_for_is_no_doubt() -> None:
    assert not set(ASKED_FOR) ^ {"limited"}
    assert not doubtful(())
    assert not doubtful(["limited"])
    assert doubtful(["limited", "growing"])
    assert doubtful(["of a later version"])
