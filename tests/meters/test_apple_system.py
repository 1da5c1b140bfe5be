"""Thermal pressure, other users of the GPU and settings of a Mac, replayed."""

from typing import Any

import pytest
from fake_apple import Clock, FakeMac, client

from bench.meters.apple_system import AppleSystem, AppleSystemGauge, power_mode
from bench.meters.interface import Meter, Unavailable, Value, Watched, load_meter
from bench.meters.mac import GpuClient

WORKER, WINDOW_SERVER, GAME = 4711, 533, 900


def opened(mac: FakeMac, clock: Clock, watched: Watched | None = None) -> AppleSystemGauge:
    return AppleSystem(mac=mac, clock=clock).open(watched or Watched(device="metal", pid=WORKER))


def foreign(gauge: AppleSystemGauge) -> list[float]:
    return [value.value for value in gauge.read() if value.quantity == "foreign_utilization"]


@pytest.mark.parametrize("level", range(5))
def test_thermal_pressure_is_macoss_own_level(level: int) -> None:
    gauge = opened(FakeMac(level=level), Clock())
    assert Value("thermal_pressure", level) in gauge.read()
    assert "thermal_pressure" not in gauge.missing()


def test_an_unknown_thermal_pressure_is_left_out_and_named() -> None:
    gauge = opened(FakeMac(level=None, clients=[client(1, WINDOW_SERVER, 1.0)]), Clock())
    assert all(value.quantity != "thermal_pressure" for value in gauge.read())
    assert gauge.missing()["thermal_pressure"]


def test_the_share_of_others_excludes_the_worker_and_its_children() -> None:
    mac, clock = FakeMac(children={WORKER: {4712}}), Clock()
    mac.clients = [client(1, WINDOW_SERVER, 50.0), client(2, WORKER, 7.0), client(3, 4712, 1.0)]
    gauge = opened(mac, clock)
    assert foreign(gauge) == []
    clock.now_s = 2.0
    mac.clients = [client(1, WINDOW_SERVER, 50.06), client(2, WORKER, 8.9), client(3, 4712, 1.5)]
    assert foreign(gauge) == [pytest.approx(0.03)]
    assert gauge.missing() == {}


def test_the_share_is_of_the_time_since_the_last_reading() -> None:
    mac, clock = FakeMac(), Clock()
    gauge = opened(mac, clock)
    shares = []
    for second, used_s in enumerate((10.0, 10.0, 10.5, 10.5)):
        clock.now_s = float(second)
        mac.clients = [client(1, GAME, used_s)]
        shares += foreign(gauge)
    assert shares == [0.0, pytest.approx(0.5), 0.0]


def test_a_client_that_comes_counts_whole_and_one_that_goes_takes_nothing_back() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 10.0)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(2, GAME, 0.4)]
    assert foreign(gauge) == [pytest.approx(0.2)]
    clock.now_s, mac.clients = 4.0, [client(1, GAME, 10.0), client(2, GAME, 0.4)]
    assert foreign(gauge) == [0.0]


def test_a_counter_that_goes_back_is_never_negative_use() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 10.0), client(2, GAME, 1.0)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, GAME, 0.0), client(2, GAME, 2.0)]
    assert foreign(gauge) == [pytest.approx(0.5)]


def test_a_worker_that_ended_stays_one_of_ours() -> None:
    mac, clock = FakeMac(clients=[client(1, 4712, 0.0)], children={WORKER: {4712}}), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, 4712, 1.0)]
    assert foreign(gauge) == [0.0]
    clock.now_s, mac.clients, mac.children = 4.0, [client(1, 4712, 2.0)], {}
    assert foreign(gauge) == [0.0]


def test_a_process_that_the_run_starts_later_is_one_of_ours() -> None:
    mac, clock = FakeMac(clients=[client(1, WINDOW_SERVER, 0.0)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, WINDOW_SERVER, 0.0)]
    assert foreign(gauge) == [0.0]
    clock.now_s, mac.children = 4.0, {WORKER: {4713}}
    mac.clients = [client(1, WINDOW_SERVER, 0.0), client(2, 4713, 1.0)]
    assert foreign(gauge) == [0.0]


def test_at_rest_everybody_is_foreign() -> None:
    mac, clock = FakeMac(clients=[client(1, WORKER, 0.0)]), Clock()
    gauge = opened(mac, clock, Watched(device="mps"))
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, WORKER, 1.0)]
    assert foreign(gauge) == [pytest.approx(0.5)]


def test_a_client_without_a_maker_is_foreign() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 0.0)._replace(creator=None)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, GAME, 1.0)._replace(creator=None)]
    assert foreign(gauge) == [pytest.approx(0.5)]


def test_a_share_is_never_above_the_whole() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 0.0), client(2, GAME, 0.0)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.clients = 1.0, [client(1, GAME, 0.9), client(2, GAME, 0.9)]
    assert foreign(gauge) == [1.0]


def test_a_registry_that_changed_is_made_up_for_by_the_next_reading() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 0.0)]), Clock()
    gauge = opened(mac, clock)
    gauge.read()
    clock.now_s, mac.walks = 2.0, False
    assert foreign(gauge) == []
    clock.now_s, mac.walks, mac.clients = 4.0, True, [client(1, GAME, 1.0)]
    assert foreign(gauge) == [pytest.approx(0.25)]


@pytest.mark.parametrize("usage", [None, "Yes", [], [{"API": "Metal"}], ["Metal"]])
def test_where_no_client_shows_its_time_others_are_unknown(usage: Any) -> None:
    mac, clock = FakeMac(clients=[GpuClient(1, f"pid {GAME}, game", usage)]), Clock()
    gauge = opened(mac, clock)
    for _ in range(3):
        clock.now_s += 2.0
        assert foreign(gauge) == []
    assert "no client" in gauge.missing()["foreign_utilization"]


def test_a_run_too_short_for_two_readings_says_so() -> None:
    gauge = opened(FakeMac(clients=[client(1, GAME, 0.0)]), Clock())
    assert foreign(gauge) == []
    assert "twice" in gauge.missing()["foreign_utilization"]


def test_a_run_on_the_processor_does_not_ask_who_uses_the_gpu() -> None:
    mac, clock = FakeMac(clients=[client(1, GAME, 0.0)]), Clock()
    gauge = opened(mac, clock, Watched(device="cpu", pid=WORKER))
    gauge.read()
    clock.now_s, mac.clients = 2.0, [client(1, GAME, 2.0)]
    assert foreign(gauge) == []
    assert "processor" in gauge.missing()["foreign_utilization"]


def test_settings_are_read_back() -> None:
    gauge = opened(FakeMac(), Clock())
    assert gauge.settings() == {"mac_power_mode": "high", "iogpu_wired_limit_mb": "0", "macos_version": "26.1"}
    gauge.close()


def test_a_setting_that_is_not_told_is_absent() -> None:
    gauge = opened(FakeMac(settings={}, power=None, macos=""), Clock())
    assert gauge.settings() == {}


@pytest.mark.parametrize(
    ("pmset", "mode"),
    [
        (" powermode            0", "automatic"),
        (" powermode            1", "low"),
        (" powermode            2", "high"),
        (" lowpowermode         1", "low"),
        (" lowpowermode         0", "automatic"),
        (" lowpowermode         0\n powermode            2", "high"),
        (" powermode            7", "7"),
        (" sleep                1", None),
        ("", None),
    ],
)
def test_the_power_mode_of_every_release(pmset: str, mode: str | None) -> None:
    assert power_mode(pmset) == mode


@pytest.mark.parametrize("mac", [FakeMac(apple_silicon=False), FakeMac(level=None, clients=[]), FakeMac(level=None, walks=False)])
def test_what_cannot_be_read_is_refused_with_a_remedy(mac: FakeMac) -> None:
    meter = AppleSystem(mac=mac)
    found = meter.availability()
    assert not found.available
    assert found.reason is not None
    assert found.remedy
    with pytest.raises(Unavailable, match=found.reason):
        meter.open(Watched(device="metal"))


def test_it_satisfies_the_door() -> None:
    meter: Meter = load_meter("apple-system")
    assert (meter.name, meter.scope) == ("apple-system", "machine")
    assert meter.devices == ("metal", "mps", "cpu")
    assert meter.min_window_s == 0
