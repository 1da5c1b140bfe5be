"""Each disturbance: a replay in which its flag is raised, and one in which it must not be."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from bench.meters.interface import UNITS
from bench.record import Reading
from bench.trust.assessed import Assessed
from bench.trust.disturbance import NO_READINGS, NO_STEPS, disturbance
from bench.trust.flags import FLAGS

WINDOW = (10.0, 40.0)
EIGHT_CORES = {"cpu_cores": "8", "power_limit_w": "450", "cpu_governor": "performance", "performance_state_now": "P8"}
METERS = {
    **dict.fromkeys(("throttle_reasons", "foreign_processes"), "nvml"),
    **dict.fromkeys(("thermal_pressure", "foreign_utilization"), "apple-system"),
}


def readings(quantity: str, play: Callable[[float], float], every_s: float = 1.0, until_s: float = 50.0) -> list[Reading]:
    """A quantity as it was read from five seconds before training to its end."""
    return [
        Reading(
            t_s=float(t_s),
            meter=METERS.get(quantity, "host"),
            scope="machine",
            quantity=quantity,
            unit=UNITS[quantity],
            value=float(play(t_s)),
        )
        for t_s in np.arange(-5.0, until_s, every_s)
    ]


def cores(own: float, others: float | Callable[[float], float]) -> list[Reading]:
    """The processors' counters where the run takes `own` cores; `others` is cores, or seconds so far at a time."""
    theirs = others if callable(others) else lambda t_s: others * t_s
    return [
        *readings("cpu_busy", lambda t_s: 12_345.0 + own * t_s + theirs(t_s)),
        *readings("cpu_of_run", lambda t_s: 77.0 + own * t_s),
    ]


def quiet(device: str) -> dict[str, list[Reading]]:
    """A run that nothing disturbs, seen by every meter of the device."""
    common = {
        "processors": cores(4.0, 0.1),
        "swap_used": readings("swap_used", lambda t_s: 3e9),
        "swap_traffic": readings("swap_traffic", lambda t_s: 7e9),
        "asleep": readings("asleep", lambda t_s: 50_000.0),
        "on_battery": readings("on_battery", lambda t_s: 0),
        "disk_free": readings("disk_free", lambda t_s: 400e9),
    }
    if device == "cuda":
        common["throttle_reasons"] = readings("throttle_reasons", lambda t_s: 0x4, every_s=0.2)
        common["foreign_processes"] = readings("foreign_processes", lambda t_s: 0)
    if device in ("metal", "mps"):
        common["thermal_pressure"] = readings("thermal_pressure", lambda t_s: 0, every_s=2)
        common["foreign_utilization"] = readings("foreign_utilization", lambda t_s: 0.02, every_s=2)
    return common


def assess(
    device: str = "cuda",
    taken: Mapping[str, list[Reading]] | None = None,
    window: tuple[float, float] | None = WINDOW,
    missing: Mapping[str, str] | None = None,
    before: Mapping[str, str] = EIGHT_CORES,
    after: Mapping[str, str] | None = None,
    idle: Mapping[str, str] | None = None,
) -> Assessed:
    """The quiet run with some of its readings replaced."""
    played = {**quiet(device), **(taken or {})}
    return disturbance(
        sorted((reading for series in played.values() for reading in series), key=lambda reading: reading.t_s),
        window,
        device=device,
        missing=missing or {},
        settings_before=before,
        settings_after=before if after is None else after,
        idle_settings=before if idle is None else idle,
    )


@pytest.mark.parametrize("device", ["cpu", "cuda", "metal", "mps"])
def test_a_quiet_run_has_no_flag_and_nothing_untold(device):
    found = assess(device)
    assert (found.flags, found.not_measured) == ((), {})
    assert found.columns["others_cpu_share"] == pytest.approx(0.1)
    assert found.columns["swap_growth_bytes"] == 0


class Case(NamedTuple):
    """A replay, and the one flag that it raises; None where it must raise none."""

    what: str
    flag: str | None
    device: str
    taken: dict[str, list[Reading]]


def throttle(what: str, flag: str | None, play: Callable[[float], float]) -> Case:
    return Case(what, flag, "cuda", {"throttle_reasons": readings("throttle_reasons", play, every_s=0.2)})


def foreign(what: str, flag: str | None, device: str, quantity: str, play: Callable[[float], float]) -> Case:
    return Case(what, flag, device, {quantity: readings(quantity, play)})


def on_host(what: str, flag: str | None, quantity: str, play: Callable[[float], float]) -> Case:
    return Case(what, flag, "cpu", {quantity: readings(quantity, play)})


def contention(what: str, flag: str | None, device: str, others: float | Callable[[float], float]) -> Case:
    return Case(what, flag, device, {"processors": cores(4.0, others)})


CASES = (
    throttle("hardware slowdown all along", "throttled", lambda t_s: 0x8),
    throttle("software thermal slowdown beside the power cap", "throttled", lambda t_s: 0x24),
    throttle("hardware thermal slowdown in one second of thirty", "throttled", lambda t_s: 0x40 if 20 <= t_s < 21 else 0),
    throttle("power brake", "throttled", lambda t_s: 0x80),
    throttle("heat in one sample of 150, under 1%", None, lambda t_s: 0x40 if 19.9 <= t_s < 20.1 else 0),
    throttle("heat before the measured steps only", None, lambda t_s: 0x40 if t_s < 9 else 0),
    throttle("power cap, idle, clocks as set, sync boost, display", None, lambda t_s: 0x1 | 0x2 | 0x4 | 0x10 | 0x100),
    Case("moderate", "thermal-pressure", "metal", {"p": readings("thermal_pressure", lambda t_s: float(20 < t_s < 30))}),
    Case("on a Mac's processors", "thermal-pressure", "cpu", {"p": readings("thermal_pressure", lambda t_s: 2)}),
    Case("before the window", None, "metal", {"p": readings("thermal_pressure", lambda t_s: float(t_s < 5))}),
    foreign("a process for a while", "foreign-process", "cuda", "foreign_processes", lambda t_s: float(t_s > 45)),
    foreign("a tenth of the GPU", "foreign-process", "metal", "foreign_utilization", lambda t_s: 0.1),
    foreign("a tenth of the GPU", "foreign-process", "mps", "foreign_utilization", lambda t_s: 0.1),
    foreign("a tenth of the card, no list", "foreign-process", "cuda", "foreign_utilization", lambda t_s: 0.1),
    foreign("a redraw now and then", None, "metal", "foreign_utilization", lambda t_s: 0.3 if t_s % 10 == 0 else 0.01),
    foreign("others before the window", None, "metal", "foreign_utilization", lambda t_s: float(t_s < 9)),
    Case("nobody can tell", "foreign-unknown", "cuda", {"foreign_processes": []}),
    Case("nobody can tell", "foreign-unknown", "metal", {"foreign_utilization": []}),
    Case("nobody needs to tell", None, "cpu", {}),
    contention("less than a tenth of eight cores, but one program", "cpu-contention", "cpu", 0.79),
    contention("a background's half core", None, "cpu", 0.5),
    contention("before the window", None, "cpu", lambda t_s: 4.0 * min(t_s, 9.0)),
    contention("more than a tenth", "cpu-contention", "metal", 0.9),
    contention("less than a tenth", None, "metal", 0.7),
    contention("most of the machine", "cpu-contention", "cuda", 4.5),
    contention("two programs beside the card", None, "cuda", 2.0),
    on_host("asleep for an hour before the window", "slept", "asleep", lambda t_s: 50_000 + 3600 * float(t_s > 3)),
    on_host("asleep before, not since", None, "asleep", lambda t_s: 50_000 + 0.001 * t_s),
    on_host("unplugged on the way", "on-battery", "on_battery", lambda t_s: float(t_s > 30)),
    on_host("plugged in", None, "on_battery", lambda t_s: 0),
    on_host("nearly full for a moment", "low-disk", "disk_free", lambda t_s: 4.9e9 if t_s == 20 else 6e9),
    on_host("enough", None, "disk_free", lambda t_s: 5.1e9),
    on_host("growth", "swapped", "swap_used", lambda t_s: 3e9 + 100e6 * float(5 < t_s < 15)),
    on_host("out and in again, none added", "swapped", "swap_traffic", lambda t_s: 7e9 + 100e6 * float(t_s > 20)),
    on_host("a few idle pages", None, "swap_used", lambda t_s: 3e9 + 50e6 * float(t_s > 15)),
    on_host("a little traffic", None, "swap_traffic", lambda t_s: 7e9 + 1e6 * t_s),
    on_host("swap that shrinks", None, "swap_used", lambda t_s: 3e9 - 10e6 * t_s),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.device}: {case.flag or 'none'}: {case.what}")
def test_flags(case):
    found = assess(case.device, case.taken)
    assert found.flags == ((case.flag,) if case.flag else ())
    assert set(found.flags) <= set(FLAGS)


@pytest.mark.parametrize(
    ("changes", "flagged"),
    [
        ({"after": {**EIGHT_CORES, "power_limit_w": "300"}}, True),
        ({"idle": {**EIGHT_CORES, "power_limit_w": "300"}}, True),
        ({"after": {**EIGHT_CORES, "cpu_governor": "powersave"}}, True),
        ({"after": {**EIGHT_CORES, "performance_state_now": "P2"}}, False),
        ({"idle": {}}, False),
        ({"after": {}}, False),  # a card that was lost tells nothing
        ({}, False),
    ],
)
def test_settings_changed(changes, flagged):
    assert assess(**changes).flags == (("settings-changed",) if flagged else ())


def test_others_are_counted_over_the_window_between_readings():
    """Two cores by others from 20 s to 30 s; the window cuts readings that come once a second in half."""
    played = cores(1.0, lambda t_s: 2.0 * min(max(t_s - 20.0, 0.0), 10.0))
    found = assess("cuda", {"processors": played}, window=(24.5, 34.5))
    assert found.columns["others_cpu_share"] == pytest.approx(2.0 * 5.5 / 10.0)


def test_others_are_never_negative_and_counters_that_disagree_are_no_measurement():
    slightly = assess(taken={"processors": cores(4.0, -0.1)})
    assert slightly.columns["others_cpu_share"] == 0.0
    wrapped = assess(taken={"processors": cores(4.0, lambda t_s: -500.0 * float(t_s > 20))})
    assert "others_cpu_share" not in wrapped.columns
    assert "less processor time" in wrapped.not_measured["others_cpu_share"]


@pytest.mark.parametrize(("until_s", "flags"), [(20.04, ()), (20.4, ("cpu-contention",))])
def test_a_few_ticks_in_a_short_window_are_no_contention(until_s, flags):
    """Two readings 40 ms apart, as at the end of a run: four ticks of others look like a core."""
    one_core = [replace(reading, t_s=until_s) for reading in cores(4.0, 1.0)[:1] + cores(4.0, 1.0)[55:56]]
    start = [replace(reading, t_s=20.0, value=reading.value - (until_s - 20.0) * per_s)
             for reading, per_s in zip(one_core, (5.0, 4.0), strict=True)]  # fmt: skip
    assert {reading.quantity for reading in one_core} == {"cpu_busy", "cpu_of_run"}
    found = assess("cpu", {"processors": [*start, *one_core]}, window=(20.0, until_s))
    assert found.columns["others_cpu_share"] == pytest.approx(1.0)
    assert found.flags == flags


def test_readings_that_end_early_count_only_if_they_cover_half_of_the_window():
    run = readings("cpu_of_run", lambda t_s: t_s, until_s=36.0)
    busy = readings("cpu_busy", lambda t_s: 3 * t_s)
    found = assess("cuda", {"processors": [*run, *busy]})
    assert found.columns["others_cpu_share"] == pytest.approx(2.0)
    few = assess("cuda", {"processors": [*readings("cpu_of_run", lambda t_s: t_s, until_s=24.0), *busy]})
    assert "others_cpu_share" not in few.columns
    assert "less than half" in few.not_measured["others_cpu_share"]


def test_an_unknown_number_of_cores_counts_as_one():
    assert assess("cuda", {"processors": cores(1.0, 0.6)}, before={}).flags == ("cpu-contention",)
    assert assess("cuda", {"processors": cores(1.0, 0.6)}, before={"cpu_cores": "None"}).flags == ("cpu-contention",)
    assert assess("cuda", {"processors": cores(1.0, 0.4)}, before={}).flags == ()


@pytest.mark.parametrize(
    ("quantity", "told"),
    [("asleep", "slept"), ("on_battery", "on-battery"), ("disk_free", "low-disk"), ("throttle_reasons", "throttled")],
)
def test_what_is_not_read_is_told_and_not_flagged(quantity, told):
    meter = METERS.get(quantity, "host")
    found = assess(taken={quantity: []}, missing={f"{meter} {quantity}": "the kernel hides it", meter: "only partly there"})
    assert (found.flags, found.not_measured) == ((), {told: "the kernel hides it"})
    assert assess(taken={quantity: []}, missing={meter: "gone"}).not_measured == {told: "gone"}
    assert assess(taken={quantity: []}).not_measured == {told: NO_READINGS}


def test_swap_that_is_not_read_is_told():
    found = assess(taken={"swap_used": []}, missing={"host swap_used": "no /proc"})
    assert "swap_growth_bytes" not in found.columns
    assert found.not_measured == {"swap_growth_bytes": "no /proc", "swapped": "no /proc"}
    half = assess(taken={"swap_traffic": []}, missing={"host swap_traffic": "no /proc/vmstat"})
    assert (half.columns["swap_growth_bytes"], half.not_measured) == (0, {"swapped": "no /proc/vmstat"})
    grown = assess(taken={"swap_traffic": [], "swap_used": readings("swap_used", lambda t_s: 1e8 * float(t_s > 0))})
    assert (grown.flags, grown.not_measured) == (("swapped",), {})


@pytest.mark.parametrize("lacking", ["cpu_busy", "cpu_of_run"])
def test_processors_that_are_not_read_are_told(lacking):
    played = [reading for reading in cores(4.0, 7.0) if reading.quantity != lacking]
    found = assess("cpu", {"processors": played}, missing={f"host {lacking}": "a sandbox"})
    assert (found.flags, found.not_measured) == ((), {"others_cpu_share": "a sandbox"})


def test_unknown_others_have_the_drivers_reason():
    found = assess("cuda", {"foreign_processes": []}, missing={"nvml foreign_processes": "in a container"})
    assert found.not_measured == {"foreign-process": "in a container"}
    metal = assess("metal", {"foreign_utilization": []}, missing={"apple-system": "not a Mac"})
    assert (metal.flags, metal.not_measured) == (("foreign-unknown",), {"foreign-process": "not a Mac"})


def test_a_list_that_its_meter_took_back_is_unknown():
    found = assess("cuda", missing={"nvml foreign_processes": "those listed do not account for the memory in use"})
    assert found.flags == ("foreign-unknown",)


def test_thermal_pressure_is_missed_on_apple_silicon_only():
    assert "thermal-pressure" in assess("metal", {"thermal_pressure": []}).not_measured
    assert assess("cuda").not_measured == {}


def test_a_run_without_measured_steps_is_judged_as_far_as_it_goes():
    found = assess("cuda", {"on_battery": readings("on_battery", lambda t_s: 1)}, window=None)
    assert found.flags == ("on-battery",)
    assert found.not_measured == {"others_cpu_share": NO_STEPS, "throttled": NO_STEPS}
    assert found.columns == {"swap_growth_bytes": 0}


def test_a_window_between_two_samples_is_judged_by_its_neighbours():
    hot = readings("throttle_reasons", lambda t_s: 0x40 if 20 <= t_s <= 21 else 0)
    assert assess("cuda", {"throttle_reasons": hot}, window=(20.2, 20.8)).flags == ("throttled",)
    assert assess("cuda", {"throttle_reasons": hot}, window=(24.2, 24.8)).flags == ()


def test_nothing_seen_is_nothing_flagged_but_the_unknown():
    found = disturbance([], None, "cuda", {}, {}, {}, {})
    assert found.flags == ("foreign-unknown",)
    assert found.columns == {}
    assert disturbance([], None, "cpu", {}, {}, {}, {}).flags == ()
