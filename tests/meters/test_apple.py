"""The chip's energy: what is summed, when a sum is given, and every way in which it is not measured."""

import sys

import pytest
from fake_apple import Clock, FakeMac, Zeus, chip, ultra

from bench.meters.apple import STALLED_AFTER_S, ApplePower, ApplePowerGauge
from bench.meters.interface import Meter, Unavailable, Value, Watched, load_meter

RUN = Watched(device="metal", pid=4711)


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def opened(monkeypatch: pytest.MonkeyPatch, zeus: Zeus, mac: FakeMac | None = None) -> ApplePowerGauge:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", zeus.module())
    return ApplePower(mac=mac or FakeMac(), clock=zeus.clock, sleep=zeus.clock.sleep).open(RUN)


def readings(gauge: ApplePowerGauge, clock: Clock, seconds: float, every_s: float = 0.5) -> list[tuple[float, float]]:
    """(time, joules) of every reading given."""
    given = []
    for _ in range(round(seconds / every_s)):
        clock.now_s += every_s
        for value in gauge.read():
            assert value == Value("energy", value.value)
            given.append((clock.now_s, value.value))
    return given


def power_w(given: list[tuple[float, float]]) -> float:
    (first_s, first_j), (last_s, last_j) = given[0], given[-1]
    return (last_j - first_j) / (last_s - first_s)


def test_the_rails_are_summed_once_in_joules(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """42 W: cores, clusters and the GPU's second channel are parts of what is counted already; units are mixed."""
    gauge = opened(monkeypatch, Zeus(chip(), clock))
    given = readings(gauge, clock, 60.0)
    assert power_w(given) == pytest.approx(42.0, rel=0.02)
    assert gauge.missing() == {}
    assert gauge.settings() == {"apple_power_rails": "cpu_total+gpu+gpu_sram+dram+ane"}


def test_a_rail_that_the_chip_lacks_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    channels = [channel for channel in chip() if channel.name not in ("GPU SRAM0", "ANE0")]
    gauge = opened(monkeypatch, Zeus(channels, clock))
    assert power_w(readings(gauge, clock, 60.0)) == pytest.approx(41.5, rel=0.02)
    assert gauge.settings()["apple_power_rails"] == "cpu_total+gpu+dram"


def test_a_rail_that_has_used_nothing_yet_is_there_all_the_same(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    gauge = opened(monkeypatch, Zeus(chip(ANE0={"start_j": 0.0}), clock))
    assert gauge.settings()["apple_power_rails"].endswith("+ane")


def test_between_publications_nothing_is_given(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """The batch comes every 2.1 s: a reading twice a second meets it 28 or 29 times a minute, and never twice."""
    given = readings(opened(monkeypatch, Zeus(chip(), clock)), clock, 60.0)
    assert len(given) in (28, 29)
    joules = [energy_j for _, energy_j in given]
    assert sorted(set(joules)) == joules


def test_a_short_window_is_right_where_stale_sums_would_not_be(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """What rests on publications errs by half a reading's distance at each end; over 10 s that is 5%."""
    zeus = Zeus(chip(GPU_Energy={"power_w": 0.0}), clock)
    gauge = opened(monkeypatch, zeus)
    given = readings(gauge, clock, 120.0)
    for start, end in zip(given, given[5:], strict=False):
        assert power_w([start, end]) == pytest.approx(12.0, rel=0.05)


def test_a_chip_that_counts_at_every_reading_gives_every_reading(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    fresh = {name: {"every_s": 0} for name in ("CPU_Energy", "DRAM0", "GPU_SRAM0", "ANE0")}
    given = readings(opened(monkeypatch, Zeus(chip(**fresh), clock)), clock, 20.0)
    assert len(given) == 40
    assert power_w(given) == pytest.approx(42.0, rel=1e-3)


def test_an_idle_gpu_and_neural_engine_are_no_stall(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    zeus = Zeus(chip(GPU_Energy={"power_w": 0.0}, GPU_SRAM0={"power_w": 0.0}), clock)
    gauge = opened(monkeypatch, zeus)
    assert power_w(readings(gauge, clock, 60.0)) == pytest.approx(11.5, rel=0.02)
    assert gauge.missing() == {}


@pytest.mark.parametrize(("rail", "said"), [("CPU_Energy", "cpu_total"), ("DRAM0", "dram")])
def test_a_rail_that_stands_still_from_the_start_gives_no_energy(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, rail: str, said: str
) -> None:
    """macOS 27: the GPU's counter goes on, which would pass for a frugal chip."""
    gauge = opened(monkeypatch, Zeus(chip(**{rail: {"stalls_at_s": 0.0}}), clock))
    assert readings(gauge, clock, 60.0) == []
    assert said in gauge.missing()["energy"]
    assert "63.0 s" in gauge.missing()["energy"]  # the three seconds of opening included


def test_a_rail_that_stalls_during_the_run_ends_the_readings(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    gauge = opened(monkeypatch, Zeus(chip(CPU_Energy={"stalls_at_s": 130.0}), clock))
    given = readings(gauge, clock, 60.0)
    assert 128.0 < given[-1][0] < 133.0
    assert "cpu_total" in gauge.missing()["energy"]


def test_a_publication_that_is_only_late_is_no_stall(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    slow_s = STALLED_AFTER_S - 1
    slow = {name: {"every_s": slow_s} for name in ("CPU_Energy", "DRAM0", "GPU_SRAM0", "ANE0")}
    gauge = opened(monkeypatch, Zeus(chip(**slow), clock))
    readings(gauge, clock, slow_s + 1)
    for _ in range(40):
        readings(gauge, clock, 0.5)
        assert gauge.missing() == {}


def test_opening_waits_for_a_publication_which_is_the_first_reading(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    zeus = Zeus(chip(GPU_Energy={"power_w": 0.0}), clock)
    gauge = opened(monkeypatch, zeus)
    assert clock.now_s == pytest.approx(48 * 2.1, abs=0.1)
    (first,) = gauge.read()
    clock.now_s += 2.1
    (second,) = gauge.read()
    assert second.value - first.value == pytest.approx(12.0 * 2.1, rel=0.01)


def test_a_run_without_a_publication_says_so(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    gauge = opened(monkeypatch, Zeus(chip(CPU_Energy={"every_s": 60.0}), clock))
    assert clock.now_s == pytest.approx(103.0, abs=0.1)
    assert gauge.read() == []
    assert "cpu_total" in gauge.missing()["energy"]


@pytest.mark.parametrize("rail", ["CPU_Energy", "GPU_Energy"])
def test_a_counter_that_goes_back_ends_the_readings(monkeypatch: pytest.MonkeyPatch, clock: Clock, rail: str) -> None:
    gauge = opened(monkeypatch, Zeus(chip(**{rail: {"set_back_at_s": 130.0}}), clock))
    given = readings(gauge, clock, 60.0)
    joules = [energy_j for _, energy_j in given]
    assert sorted(joules) == joules
    assert given[-1][0] < 133.0
    assert "went back" in gauge.missing()["energy"]


def test_a_rail_that_goes_away_ends_the_readings(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    zeus = Zeus(chip(), clock)
    gauge = opened(monkeypatch, zeus)
    readings(gauge, clock, 10.0)
    zeus.channels = [channel for channel in zeus.channels if channel.name != "ANE0"]
    assert readings(gauge, clock, 10.0) == []
    assert "ane came or went" in gauge.missing()["energy"]


def test_a_monitor_that_breaks_ends_the_readings(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    zeus = Zeus(chip(), clock)
    gauge = opened(monkeypatch, zeus)
    zeus.breaks = "no more samples"
    assert readings(gauge, clock, 5.0) == []
    assert "no more samples" in gauge.missing()["energy"]
    gauge.close()


def on_an_ultra() -> FakeMac:
    mac = FakeMac()
    mac.settings["machdep.cpu.brand_string"] = "Apple M1 Ultra"
    return mac


def test_an_ultra_is_undercounted_and_says_so(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Of 82 W the library keeps the second die's CPU and DRAM: 67 W."""
    gauge = opened(monkeypatch, Zeus(ultra(), clock), on_an_ultra())
    assert power_w(readings(gauge, clock, 60.0)) == pytest.approx(67.0, rel=0.02)
    assert "Ultra" in gauge.settings()["apple_power_undercount"]


def test_an_ultra_whose_dies_the_library_sums_says_nothing(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    gauge = opened(monkeypatch, Zeus(ultra(), clock, sums_dies=True), on_an_ultra())
    assert power_w(readings(gauge, clock, 60.0)) == pytest.approx(82.0, rel=0.02)
    assert "apple_power_undercount" not in gauge.settings()


def test_settings_are_the_same_before_and_after(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    gauge = opened(monkeypatch, Zeus(ultra(), clock), on_an_ultra())
    before = gauge.settings()
    readings(gauge, clock, 20.0)
    assert gauge.settings() == before


def refused(meter: ApplePower, reason: str) -> None:
    found = meter.availability()
    assert not found.available
    assert found.reason is not None
    assert reason in found.reason
    assert found.remedy
    with pytest.raises(Unavailable, match=reason):
        meter.open(RUN)


def test_elsewhere_it_is_refused_with_a_remedy() -> None:
    refused(ApplePower(mac=FakeMac(apple_silicon=False)), "not a Mac")


def test_a_virtual_machine_is_refused_before_the_library_can_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    refused(ApplePower(mac=FakeMac(settings={"kern.hv_vmm_present": "1"})), "virtual machine")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    meter = ApplePower(mac=FakeMac())
    refused(meter, "zeus-apple-silicon")
    assert "--extra mac" in (meter.availability().remedy or "")


@pytest.mark.parametrize(
    ("zeus", "reason"),
    [
        (Zeus(refuses="Failed to create IOReport subscription."), "subscription"),
        (Zeus(chip(CPU_Energy={"unit": "kWh"})), "kWh"),
        (Zeus([channel for channel in chip() if channel.name == "GPU Energy"]), "neither the CPU"),
        (Zeus([]), "neither the CPU"),
    ],
)
def test_a_monitor_that_gives_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, zeus: Zeus, reason: str) -> None:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", zeus.module())
    refused(ApplePower(mac=FakeMac()), reason)


def test_a_working_monitor_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", Zeus().module())
    assert ApplePower(mac=FakeMac()).availability().available


def test_it_satisfies_the_door() -> None:
    meter: Meter = load_meter("apple-power")
    assert (meter.name, meter.scope) == ("apple-power", "soc")
    assert meter.devices == ("metal", "mps", "cpu")
    assert meter.min_window_s == 10
