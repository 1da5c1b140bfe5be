"""Gauges are read when due, never late twice, noted where they do not work, closed in any case."""

import pytest
from fake_meters import Clock, PlayedGauge, PlayedMeter, lost_after

from bench.meters.interface import Meter, Value, Watched
from bench.sweep import sampling as module
from bench.sweep.sampling import Recording, Sampler, sampling

WATCHED = Watched(device="cpu", pid=7)


def use(monkeypatch: pytest.MonkeyPatch, *meters: Meter) -> None:
    monkeypatch.setattr(module, "_meters", lambda: iter(meters))


def watts(since_s: float) -> list[Value]:
    return [Value("power", 100 + since_s)]


def test_each_gauge_is_read_at_once_and_then_at_its_own_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    fast, slow = PlayedMeter(clock, watts, "fast", interval_s=0.1), PlayedMeter(clock, watts, "slow", interval_s=1.0)
    use(monkeypatch, fast, slow)
    with sampling(WATCHED, clock) as sampler:
        assert (fast.reads, slow.reads) == (1, 1)
        for _ in range(20):
            assert sampler.due_in_s() == pytest.approx(0.1, abs=0.02)
            clock.now_s += 0.1001
            sampler.sample()
        assert (fast.reads, slow.reads) == (21, 3)
    readings = [reading for reading in sampler.recording.readings if reading.meter == "fast"]
    assert [reading.unit for reading in readings[:1]] == ["W"]
    assert (readings[0].t_s, readings[0].value, readings[0].scope) == (1000.0, 100.0, "gpu-board")
    assert readings[-1].value == pytest.approx(102.0, abs=0.01)


def test_a_late_parent_reads_once_and_does_not_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    meter = PlayedMeter(clock, watts)
    use(monkeypatch, meter)
    with sampling(WATCHED, clock) as sampler:
        clock.now_s += 60
        sampler.sample()
        sampler.sample()
        clock.now_s += 0.05
        sampler.sample()
        assert meter.reads == 2
        clock.now_s += 0.06
        sampler.sample()
        assert meter.reads == 3


def test_finishing_reads_everything_twice_more_and_the_settings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    meter = PlayedMeter(clock, watts, missing={"energy": "NotSupported"})
    use(monkeypatch, meter)
    with sampling(WATCHED, clock) as sampler:
        meter.settings = {"power_limit_w": "300"}
        clock.now_s += 0.01
        sampler.finish()
    found = sampler.recording
    assert meter.reads == 3
    assert (found.settings_before, found.settings_after) == ({"power_limit_w": "450"}, {"power_limit_w": "300"})
    assert found.missing == {"played energy": "NotSupported"}


def test_a_meter_that_does_not_work_is_noted_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    works, refuses = PlayedMeter(clock, watts, "works"), PlayedMeter(clock, watts, "refuses", refuses="no driver")
    use(monkeypatch, refuses, works)
    with sampling(WATCHED, clock) as sampler:
        assert sampler.recording.missing == {"refuses": "no driver"}
        assert {reading.meter for reading in sampler.recording.readings} == {"works"}


def test_meters_of_other_devices_and_those_the_child_reads_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    other, childs = PlayedMeter(clock, watts, devices=("cuda",)), PlayedMeter(clock, watts, interval_s=0)
    use(monkeypatch, other, childs)
    with sampling(WATCHED, clock) as sampler:
        assert sampler.due_in_s() == float("inf")
        assert sampler.recording == Recording(settings_before={})
    assert (other.opened, childs.opened) == ([], [])


def test_a_lost_device_is_told_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    lost = PlayedMeter(clock, lost_after(0.3, Value("power", 300.0)), "lost")
    stays = PlayedMeter(clock, watts, "stays")
    use(monkeypatch, lost, stays)
    with sampling(WATCHED, clock) as sampler:
        for _ in range(10):
            clock.now_s += 0.1
            sampler.sample()
        sampler.finish()
    assert sampler.recording.lost == "GPU is lost"
    assert sampler.recording.missing["lost"] == "GPU is lost"
    assert lost.reads == 4
    assert stays.reads > 9
    assert (lost.closed, stays.closed) == (1, 1)


def test_gauges_are_closed_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = PlayedMeter(Clock(), watts)
    use(monkeypatch, meter)
    with pytest.raises(KeyError), sampling(WATCHED):
        raise KeyError
    assert meter.closed == 1


def test_without_gauges_nothing_is_ever_due() -> None:
    assert Sampler(Recording(), [], Clock()).due_in_s() == float("inf")


FAULTS = [
    RuntimeError("odd"),
    OSError(5, "Input/output error"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    TypeError("None"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_meter_that_fails_in_a_way_of_its_own_costs_its_readings_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    clock = Clock()

    def fails_later(since_s: float) -> list[Value]:
        if since_s > 0.15:
            raise fault
        return watts(since_s)

    bad, good = PlayedMeter(clock, fails_later, "bad"), PlayedMeter(clock, watts, "good")
    use(monkeypatch, bad, good)
    with sampling(WATCHED, clock) as sampler:
        for _ in range(5):
            clock.now_s += 0.1
            sampler.sample()
        sampler.finish()
    assert sampler.recording.missing["bad"].startswith(f"the meter failed: {type(fault).__name__}")
    assert sampler.recording.lost is None
    assert len([each for each in sampler.recording.readings if each.meter == "bad"]) == 2
    assert len([each for each in sampler.recording.readings if each.meter == "good"]) == 8
    assert (bad.closed, good.closed) == (1, 1)


@pytest.mark.parametrize("call", ["settings", "missing", "close"])
def test_a_gauge_whose_other_calls_fail_is_given_up_too(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    clock = Clock()
    meter = PlayedMeter(clock, watts)

    def fails(self: PlayedGauge) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(PlayedGauge, call, fails)
    use(monkeypatch, meter)
    with sampling(WATCHED, clock) as sampler:
        sampler.finish()
    if call != "close":
        assert sampler.recording.missing == {"played": "the meter failed: ValueError: odd"}
    assert bool(sampler.recording.readings) is (call != "settings")


def test_a_meter_that_cannot_even_be_opened_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(PlayedMeter):
        def open(self, watched: Watched) -> PlayedGauge:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")

    use(monkeypatch, Odd(Clock(), watts, "odd"))
    with sampling(WATCHED) as sampler:
        assert sampler.recording.missing["odd"].startswith("the meter failed: UnicodeDecodeError")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_no_reading(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    use(monkeypatch, PlayedMeter(Clock(), lambda since_s: [Value("power", value), Value("clock", 1e9)]))
    with sampling(WATCHED) as sampler:
        assert [each.quantity for each in sampler.recording.readings] == ["clock"]
