"""The machine at rest, played: a baseline per scope, no waiting where nothing measures power, the wait for its return."""

from collections.abc import Iterator

import pytest
from fake_meters import Clock, PlayedMeter

from bench.meters.interface import Value
from bench.sweep import idle, sampling
from bench.sweep.idle import BASELINE_S, SETTLING_S, baseline, came_back
from bench.sweep.interrupt import Interrupt, catch_interrupts
from bench.trust.energy import Idle


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Time passes while the parent sleeps in select, and only then."""
    clock = Clock()

    def sleep(reads: list[int], writes: list[int], errors: list[int], timeout_s: float) -> tuple[list[int], ...]:
        clock.now_s += max(timeout_s, 1e-3)
        return [], [], []

    monkeypatch.setattr(idle.select, "select", sleep)
    monkeypatch.setattr(idle.time, "monotonic", clock)
    monkeypatch.setattr(idle, "sampling", lambda watched: sampling.sampling(watched, clock))
    return clock


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    with catch_interrupts() as caught:
        yield caught


def use(monkeypatch: pytest.MonkeyPatch, *meters: PlayedMeter) -> None:
    monkeypatch.setattr(sampling, "_meters", lambda: iter(meters))


def test_the_baseline_is_the_mean_over_its_window(monkeypatch: pytest.MonkeyPatch, clock: Clock, interrupt: Interrupt) -> None:
    def play(since_s: float) -> list[Value]:
        return [Value("power", 20.0 + (since_s % 1 > 0.5)), Value("energy", 20.5 * since_s)]

    use(monkeypatch, PlayedMeter(clock, play))
    began_s = clock.now_s
    found = baseline("cuda", ".", interrupt)
    assert found.power_w["gpu-board"] == pytest.approx(20.5, abs=0.3)
    assert found.settings == {"power_limit_w": "450"}
    assert clock.now_s - began_s >= BASELINE_S


def test_without_a_power_meter_no_time_is_spent(monkeypatch: pytest.MonkeyPatch, clock: Clock, interrupt: Interrupt) -> None:
    use(monkeypatch, PlayedMeter(clock, lambda since_s: [Value("swap_used", 0.0)], scope="machine"))
    began_s = clock.now_s
    found = baseline("cpu", ".", interrupt)
    assert found.power_w == {}
    assert clock.now_s == began_s
    assert came_back("cpu", ".", found, interrupt)


@pytest.mark.parametrize(("after_s", "expected"), [(0.0, True), (4.0, True), (60.0, False)])
def test_a_device_that_cools_in_time_came_back(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, interrupt: Interrupt, after_s: float, expected: bool
) -> None:
    use(monkeypatch, PlayedMeter(clock, lambda since_s: [Value("power", 20.0 if since_s >= after_s else 90.0)]))
    began_s = clock.now_s
    assert came_back("cuda", ".", Idle({"gpu-board": 20.0}, {}), interrupt) is expected
    assert clock.now_s - began_s <= SETTLING_S + 1
    if expected:
        assert clock.now_s - began_s <= after_s + 4
