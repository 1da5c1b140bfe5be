"""The meter of an NVIDIA card, over replays of real cards' shapes."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from fake_nvml import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    MIB,
    NO_PERMISSION,
    NOT_SUPPORTED,
    UNKNOWN,
    Card,
    Clock,
    FakeNvml,
    Process,
    energy_j,
    h200,
    install,
    laptop,
    old_driver,
    rtx_4090,
    trace,
)

from bench.meters.interface import DeviceLost, Meter, Quantity, Unavailable, Watched, load_meter
from bench.meters.nvml import Nvml, NvmlGauge

WORKER = 500
WORKS = Process(WORKER, 6 * 2**30, 97)
STEPPED = trace((0, 30.0), (2.0, 400.0))
EVERY = ("power", "power_average", "energy", "memory_used", "throttle_reasons", "clock", "temperature")


def opened(monkeypatch: pytest.MonkeyPatch, card: Card, clock: Clock, pid: int | None = WORKER, **more: Any) -> NvmlGauge:
    install(monkeypatch, card=card, clock=clock, **more)
    return Nvml().open(Watched(device="cuda", pid=pid))


def read(gauge: NvmlGauge) -> Mapping[Quantity, float]:
    return {value.quantity: value.value for value in gauge.read()}


def run(gauge: NvmlGauge, clock: Clock, seconds: float) -> list[tuple[float, Mapping[Quantity, float]]]:
    """Readings every 100 ms, with their times."""
    taken = []
    for _ in range(round(seconds * 10)):
        taken.append((clock(), read(gauge)))
        clock.pass_s(0.1)
    return taken


def series(taken: list[tuple[float, Mapping[Quantity, float]]], quantity: Quantity) -> list[tuple[float, float]]:
    return [(at_s, values[quantity]) for at_s, values in taken if quantity in values]


def test_it_is_the_meter_of_that_name() -> None:
    meter: Meter = load_meter("nvml")
    assert (meter.name, meter.scope, meter.devices, meter.interval_s, meter.min_window_s) == (
        "nvml", "gpu-board", ("cuda",), 0.1, 10.0,
    )  # fmt: skip


@pytest.mark.parametrize("card", [rtx_4090(processes=(WORKS,)), h200(processes=(WORKS,))])
def test_a_whole_card_gives_everything_at_once_in_si_units(monkeypatch: pytest.MonkeyPatch, card: Card) -> None:
    gauge = opened(monkeypatch, card, Clock(3.0))
    assert read(gauge) == {
        "power": card.power_w[0][1],
        "power_average": card.power_w[0][1],
        "energy": pytest.approx(123_456.789 + 3 * card.power_w[0][1]),
        "memory_used": card.used_bytes[0][1],
        "memory_of_process": 6 * 2**30,
        "clock": card.sm_clock_mhz * 1e6,
        "temperature": 41,
        "throttle_reasons": 1,
        "foreign_processes": 0,
    }
    assert gauge.missing() == {}


def test_values_take_turns_and_power_is_read_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    gauge = opened(monkeypatch, rtx_4090(processes=(WORKS,)), clock)
    counts = Counter(quantity for _, values in run(gauge, clock, 10.1) for quantity in values)
    assert counts == {
        "power": 101, "power_average": 101, "energy": 51, "memory_used": 51, "throttle_reasons": 51, "clock": 11,
        "temperature": 11, "memory_of_process": 11, "foreign_processes": 11, "foreign_utilization": 10,
    }  # fmt: skip


def test_no_reading_but_the_first_asks_for_energy_and_processes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    gauge = opened(monkeypatch, rtx_4090(processes=(WORKS,)), clock)
    together = [{"energy", "memory_of_process"} <= values.keys() for _, values in run(gauge, clock, 5)]
    assert together == [True, *[False] * 49]


def test_the_counter_moves_in_steps_and_its_difference_is_the_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    gauge = opened(monkeypatch, rtx_4090(power_w=STEPPED, energy_step_s=0.3), clock)
    energy = series(run(gauge, clock, 12.1), "energy")
    steps = [after - before for (_, before), (_, after) in pairwise(energy)]
    assert min(steps) == 0, "between two steps the counter stands still"
    (first_s, first), (last_s, last) = energy[0], energy[-1]
    assert last - first == pytest.approx(energy_j(STEPPED, last_s) - energy_j(STEPPED, first_s), abs=0.3 * 400)


def test_the_trailing_average_lags_by_a_second_and_this_moments_power_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    taken = run(opened(monkeypatch, rtx_4090(power_w=STEPPED), clock), clock, 4)
    power, average = dict(series(taken, "power")), dict(series(taken, "power_average"))
    assert (power[1.9], power[2.0]) == (30, 400)
    assert average[2.0] == pytest.approx(30)
    assert average[2.5] == pytest.approx(215)
    assert average[3.0] == pytest.approx(400)


def test_the_integral_of_power_agrees_with_the_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    taken = run(opened(monkeypatch, rtx_4090(power_w=trace((0, 30.0), (3, 380.0), (9, 410.0))), clock), clock, 12.1)
    integral_j = sum(value * 0.1 for _, value in series(taken, "power")[:-1])
    energy = series(taken, "energy")
    assert energy[-1][1] - energy[0][1] == pytest.approx(integral_j, rel=0.01)


def test_a_laptop_gives_what_it_has_and_says_why_not_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    gauge = opened(monkeypatch, laptop(processes=(WORKS,)), clock)
    taken = run(gauge, clock, 3)
    assert series(taken, "power") == series(taken, "energy") == []
    assert {value for _, value in series(taken, "power_average")} == {2.0}
    assert gauge.missing().keys() == {"power", "energy"}
    assert "186" in gauge.missing()["power"]
    assert "power_average stands in" in gauge.missing()["power"]
    assert "Not Supported" in gauge.missing()["energy"]


def test_what_is_not_supported_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    fake: FakeNvml = install(
        monkeypatch, card=laptop(errors={"nvmlDeviceGetComputeRunningProcesses": NOT_SUPPORTED}), clock=clock
    )
    gauge = Nvml().open(Watched(device="cuda", pid=WORKER))
    run(gauge, clock, 5)
    assert fake.calls["nvmlDeviceGetTotalEnergyConsumption"] == 1
    assert fake.calls["nvmlDeviceGetFieldValues"] == 1
    assert fake.calls["nvmlDeviceGetComputeRunningProcesses"] == 1
    assert gauge.missing().keys() == {"power", "energy", "memory_of_process", "foreign_processes", "foreign_utilization"}


def test_an_old_driver_loses_only_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = opened(monkeypatch, old_driver(processes=(WORKS,)), Clock())
    assert read(gauge).keys() == {
        "power_average", "memory_used", "throttle_reasons", "clock", "temperature", "memory_of_process", "foreign_processes",
    }  # fmt: skip


def test_a_sensor_that_shows_zero_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = opened(monkeypatch, rtx_4090(power_w=trace((0, 0.0)), energy_at_start_j=0.0), Clock())
    assert not {"power", "power_average", "energy"} & read(gauge).keys()
    assert all("no working sensor" in gauge.missing()[name] for name in ("power", "power_average", "energy"))


def test_a_card_at_rest_is_zero_only_where_zero_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    taken = run(opened(monkeypatch, rtx_4090(), clock, pid=None), clock, 2)
    assert {value for _, value in series(taken, "power")} == {22.0}
    assert {value for _, value in series(taken, "memory_used")} == {MIB}
    assert {value for _, value in series(taken, "foreign_processes")} == {0}
    assert {value for _, value in series(taken, "throttle_reasons")} == {0x1}


@pytest.mark.parametrize("error", [15, DRIVER_NOT_LOADED, 16, UNKNOWN])
def test_a_card_lost_at_its_third_step_is_lost(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    clock = Clock()
    gauge = opened(monkeypatch, rtx_4090(processes=(WORKS,), lost_at_s=3.0, lost_error=error), clock)
    run(gauge, clock, 3)
    with pytest.raises(DeviceLost):
        gauge.read()
    gauge.close()


def test_an_unknown_error_in_one_value_loses_no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    fake = install(monkeypatch, card=rtx_4090(), clock=clock)
    gauge = Nvml().open(Watched(device="cuda"))
    run(gauge, clock, 1)
    fake.cards = [rtx_4090(errors={"nvmlDeviceGetPowerUsage": UNKNOWN})]
    assert "power" in read(gauge)
    assert "Unknown Error" in gauge.missing()["power_average"]
    fake.cards = [rtx_4090()]
    assert "power_average" in read(gauge)
    assert gauge.missing().keys() == {"memory_of_process"}


def test_a_card_that_never_gave_a_value_is_not_lost_but_poor(monkeypatch: pytest.MonkeyPatch) -> None:
    gauge = opened(monkeypatch, rtx_4090(lost_at_s=0.0, lost_error=UNKNOWN), Clock())
    assert read(gauge) == {}
    assert gauge.missing().keys() >= set(EVERY)


@pytest.mark.parametrize(("visible", "power_w"), [(None, 22.0), ("0", 22.0), ("1", 77.0), ("GPU-1c4a5b11", 77.0)])
def test_of_two_cards_the_workers_is_read(monkeypatch: pytest.MonkeyPatch, visible: str | None, power_w: float) -> None:
    install(monkeypatch, card=rtx_4090(), more=(h200(),), clock=Clock())
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert read(Nvml().open(Watched(device="cuda")))["power"] == power_w


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (LIBRARY_NOT_FOUND, "Library Not Found", "install NVIDIA's driver"),
        (DRIVER_NOT_LOADED, "Not Loaded", "modprobe"),
        (NO_PERMISSION, "Permissions", "nvidiactl"),
        (FUNCTION_NOT_FOUND, "Function", "nvidia-smi"),
    ],
)
def test_without_a_driver_it_is_unavailable_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, error: int, reason: str, remedy: str
) -> None:
    install(monkeypatch, card=rtx_4090(), clock=Clock(), init_error=error)
    found = Nvml().availability()
    assert not found.available
    assert reason in str(found.reason)
    assert remedy in str(found.remedy)
    with pytest.raises(Unavailable, match=reason):
        Nvml().open(Watched(device="cuda"))


def test_without_the_module_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "nvidia-ml-py is not installed" in str(Nvml().availability().reason)


def test_a_hidden_card_is_unavailable_and_the_library_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, card=rtx_4090(), clock=Clock())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = Nvml().availability()
    assert "leaves no card visible" in str(found.reason)
    assert "unset it" in str(found.remedy)
    assert fake.opened == 0


def test_the_library_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, card=rtx_4090(), clock=Clock())
    assert Nvml().availability().available
    assert fake.opened == 0
    gauge = Nvml().open(Watched(device="cuda"))
    assert fake.opened == 1
    gauge.close()
    assert fake.opened == 0
