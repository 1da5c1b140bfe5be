"""Columns of power and energy from replayed readings: whose they are, what they are above idle, when there are none and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from power_traces import Play, stalled_after, without

from bench.record import Reading, Run
from bench.trust.assessed import Assessed
from bench.trust.energy import Idle, energy, mean_power_w, primary_scope, settled

WINDOW = (2.0, 32.0)
SETTINGS = {"power_limit_w": "450", "performance_state_now": "P2"}
IDLE = Idle({"gpu-board": 20.0}, {"power_limit_w": "450", "performance_state_now": "P8"})
FIGURES = (
    *("power_w", "peak_power_w", "energy_j", "energy_counter_j", "energy_integral_j", "idle_power_w", "energy_above_idle_j"),
    *("j_per_token", "j_per_token_above_idle", "wall_power_w", "wall_energy_j"),
)


def assess(readings: list[Reading], **given: Any) -> Assessed:
    """A run on a graphics card, unless something else is given."""
    usual = {"window": WINDOW, "tokens": 1000, "device": "cuda", "idle": IDLE, "settings": SETTINGS, "missing": {}}
    return energy(readings, **{**usual, **given})


def soc(**changes: Any) -> Play:
    return Play(scope="soc", meter="apple-power", load_w=60.0, rest_w=6.0, **changes)


def package() -> Play:
    return Play(scope="package", meter="rapl", load_w=90.0, rest_w=12.0)


def wall() -> Play:
    return Play(scope="wall", meter="wall-meter", load_w=520.0, rest_w=80.0, to_s=120.0)


def test_a_whole_run() -> None:
    play = Play()
    found = assess([*play.counter(), *play.power()])
    assert found.flags == ()
    assert found.columns["power_scope"] == "gpu-board"
    assert found.columns["power_w"] == pytest.approx(300.0, rel=0.01)
    assert found.columns["peak_power_w"] == pytest.approx(300.0, abs=0.01)
    assert found.columns["energy_j"] == found.columns["energy_counter_j"] == pytest.approx(9000.0, rel=0.01)
    assert found.columns["energy_integral_j"] == pytest.approx(9000.0, rel=1e-4)
    assert found.columns["energy_window_s"] == pytest.approx(30.0)
    assert found.columns["j_per_token"] == pytest.approx(9.0, rel=0.01)
    assert found.columns["idle_power_w"] == 20.0
    assert found.columns["energy_above_idle_j"] == pytest.approx(found.columns["energy_j"] - 600.0)
    assert found.columns["j_per_token_above_idle"] == pytest.approx(8.4, rel=0.01)
    assert found.not_measured == dict.fromkeys(("wall_power_w", "wall_energy_j"), "no wall meter was given (--wall-meter)")


def test_every_column_is_one_of_runs_and_is_told_or_explained() -> None:
    for readings in ([], Play().counter(), Play().power(), [*wall().power(1.0), *Play().average()]):
        found = assess(readings)
        assert set(found.columns) <= set(Run.__dataclass_fields__)
        assert set(FIGURES) == {*found.columns, *found.not_measured} - {"power_scope", "energy_window_s"}
        assert not set(found.columns) & set(found.not_measured)
        assert all(found.not_measured.values())


@pytest.mark.parametrize(
    ("scale", "flags"), [(1.03, ()), (0.97, ()), (1.08, ("energy-disagreement",)), (0.92, ("energy-disagreement",))]
)
def test_counter_and_integral_apart(scale: float, flags: tuple[str, ...]) -> None:
    play = Play()
    found = assess([*play.counter(scale=scale), *play.power()])
    assert found.flags == flags
    assert found.columns["energy_j"] == found.columns["energy_counter_j"] == pytest.approx(9000.0 * scale, rel=0.01)


@pytest.mark.parametrize("slip", [1e3, 1e-3, 1e6])
def test_a_slip_of_units_shows(slip: float) -> None:
    assert assess([*Play().counter(scale=slip), *Play().power()]).flags == ("energy-disagreement",)


@pytest.mark.parametrize(("end_s", "flags"), [(11.9, ("short-energy-window",)), (12.1, ())])
def test_a_short_window_is_flagged_and_measured(end_s: float, flags: tuple[str, ...]) -> None:
    found = assess([*Play().counter(), *Play().power()], window=(2.0, end_s))
    assert found.flags == flags
    assert found.columns["power_w"] == pytest.approx(300.0, rel=0.03)


def test_over_a_short_window_nothing_is_said_to_disagree() -> None:
    assert assess([*Play().counter(scale=1.2), *Play().power()], window=(2.0, 6.0)).flags == ("short-energy-window",)


def test_nothing_measured_is_not_flagged_for_its_short_window() -> None:
    assert assess([], window=(2.0, 6.0)).flags == ()


def test_without_a_counter_the_integral_counts() -> None:
    found = assess(Play().power(), missing={"nvml energy": "Not Supported"})
    assert found.columns["energy_j"] == found.columns["energy_integral_j"] == pytest.approx(9000.0, rel=1e-4)
    assert found.not_measured["energy_counter_j"] == "Not Supported"
    assert found.flags == ()


def test_a_trailing_average_stands_in_but_has_no_peak() -> None:
    found = assess([*Play().average(), *Play().counter()])
    assert found.columns["energy_integral_j"] == pytest.approx(9000.0, rel=1e-3)
    assert "trailing average" in found.not_measured["peak_power_w"]
    assert assess([*Play().average(), *Play(load_w=200.0).power()]).columns["power_w"] == pytest.approx(200.0, rel=1e-3)


def test_macos_publishes_every_two_seconds_and_gives_no_samples() -> None:
    readings = soc().counter(every_s=2.13, step_s=0.001)
    found = assess(readings, device="metal", idle=Idle({"soc": 6.0}), settings={})
    assert found.columns["power_scope"] == "soc"
    assert found.columns["power_w"] == pytest.approx(60.0, rel=0.01)
    assert found.columns["energy_above_idle_j"] == pytest.approx(30 * 54.0, rel=0.01)
    assert found.not_measured["energy_integral_j"] == "apple-power gave no readings of power"
    before_the_end = [reading for reading in readings if reading.t_s < 31.5]
    assert assess(before_the_end, device="metal").columns["power_w"] == pytest.approx(60.0, rel=0.01)


def test_a_stalled_counter_gives_none_and_the_integral_stands() -> None:
    readings = [*stalled_after(Play().counter(), 10.0), *Play().power()]
    found = assess(readings)
    assert "energy_counter_j" not in found.columns
    assert found.not_measured["energy_counter_j"].startswith("stalled")
    assert found.columns["energy_j"] == found.columns["energy_integral_j"]
    assert found.flags == ()


@pytest.mark.parametrize("value", [0.0, 55.5])
def test_a_dead_sensor_gives_none_never_zero(value: float) -> None:
    readings = [replace(reading, value=value) for reading in [*Play().counter(), *Play().power()]]
    found = assess(readings)
    assert not {*FIGURES} & {*found.columns} - {"idle_power_w"}
    assert "power_scope" not in found.columns
    assert "stalled" in found.not_measured["energy_j"]
    assert "stalled" in found.not_measured["j_per_token"]
    assert found.flags == ()


def test_a_gap_spoils_the_samples_alone() -> None:
    found = assess([*Play().counter(), *without(Play().power(), 10.0, 12.0)])
    assert "no sample of power" in found.not_measured["energy_integral_j"]
    assert "no sample of power" in found.not_measured["peak_power_w"]
    assert found.columns["energy_j"] == pytest.approx(9000.0, rel=0.01)


def test_a_device_lost_at_step_3_gives_nothing() -> None:
    heard = [reading for reading in [*Play().counter(), *Play().power()] if reading.t_s < 5.0]
    found = assess(heard, missing={"nvml": "GPU is lost"})
    assert {*found.columns} == {"idle_power_w"}
    assert found.not_measured["energy_j"] == "nvml: GPU is lost"
    uncovered = assess(heard)
    assert {*uncovered.columns} == {"idle_power_w"}
    assert "of a window of 30.0 s" in uncovered.not_measured["energy_j"]


def test_a_lost_device_is_not_believed_even_where_little_is_open() -> None:
    heard = [reading for reading in Play().power() if reading.t_s < 31.8]
    assert "energy_j" in assess(heard).columns
    assert "energy_j" not in assess(heard, missing={"nvml": "GPU is lost"}).columns


@pytest.mark.parametrize(
    ("device", "plays", "scope", "power_w"),
    [
        ("cuda", [package(), Play(), wall()], "gpu-board", 300.0),
        ("cpu", [Play(), package(), soc(), wall()], "package", 90.0),
        ("cpu", [soc(), wall()], "soc", 60.0),
        ("metal", [package(), soc()], "soc", 60.0),
        ("mps", [soc()], "soc", 60.0),
    ],
)
def test_scopes_are_never_added_up(device: str, plays: list[Play], scope: str, power_w: float) -> None:
    readings = [reading for play in plays for reading in play.counter()]
    found = assess(readings, device=device)
    assert primary_scope(readings, device) == found.columns["power_scope"] == scope
    assert found.columns["power_w"] == pytest.approx(power_w, rel=0.01)


@pytest.mark.parametrize(("device", "play"), [("cuda", package()), ("cuda", soc()), ("metal", Play()), ("cpu", Play())])
def test_another_devices_scope_is_no_substitute(device: str, play: Play) -> None:
    assert primary_scope(play.counter(), device) is None
    assert "energy_j" not in assess(play.counter(), device=device).columns


def test_a_wall_meter_stands_beside_the_board() -> None:
    found = assess([*Play(to_s=120).counter(), *wall().power(every_s=1.0)], window=(2.0, 82.0))
    assert found.columns["power_scope"] == "gpu-board"
    assert found.columns["power_w"] == pytest.approx(300.0, rel=0.01)
    assert found.columns["wall_power_w"] == pytest.approx(520.0, rel=1e-3)
    assert found.columns["wall_energy_j"] == pytest.approx(520.0 * 80, rel=1e-3)


def test_a_wall_meter_is_taken_where_nothing_else_is() -> None:
    found = assess(wall().power(every_s=1.0), window=(2.0, 82.0))
    assert found.columns["power_scope"] == "wall"
    assert found.columns["power_w"] == found.columns["wall_power_w"] == pytest.approx(520.0, rel=1e-3)
    assert found.not_measured["idle_power_w"] == "the idle power of scope wall was not measured"


@pytest.mark.parametrize(("end_s", "measured"), [(61.5, False), (62.5, True)])
def test_a_wall_meter_needs_a_minute(end_s: float, measured: bool) -> None:
    for readings in (wall().power(every_s=0.9), wall().counter(every_s=0.9)):
        found = assess([*Play(to_s=120).counter(), *readings], window=(2.0, end_s))
        assert ("wall_energy_j" in found.columns) is measured
        assert "energy_j" in found.columns
        if not measured:
            assert found.not_measured["wall_power_w"] == "the measured steps lasted 59.5 s, and a wall meter needs 60 s"


def test_why_there_is_no_wall_meter() -> None:
    found = assess(Play().counter(), missing={"wall-meter": "meter.csv: line 3: no time"})
    assert found.not_measured["wall_energy_j"] == "meter.csv: line 3: no time"
    assert "energy_j" in found.columns


def test_why_there_is_no_power_at_all() -> None:
    found = assess([], device="cpu", missing={"rapl": "only root may read energy_uj", "apple-power": "not a Mac"})
    assert found.not_measured["power_w"] == "rapl: only root may read energy_uj; apple-power: not a Mac"
    assert found.not_measured["energy_above_idle_j"] == found.not_measured["power_w"]
    assert assess([], device="mps").not_measured["energy_j"] == "nothing measures the power of this device here"


@pytest.mark.parametrize("window", [None, (3.0, 3.0)])
def test_without_measured_steps(window: tuple[float, float] | None) -> None:
    found = assess([*Play().counter(), *wall().counter()], window=window)
    assert {*found.columns} == {"idle_power_w"}
    assert found.not_measured["energy_j"] == found.not_measured["wall_energy_j"] == "no step was measured"


def test_without_tokens_there_is_energy_and_none_per_token() -> None:
    found = assess(Play().counter(), tokens=0)
    assert "energy_j" in found.columns
    assert found.not_measured["j_per_token"] == "no token was counted"


@pytest.mark.parametrize(
    ("idle", "said"),
    [
        (None, "no idle power was measured before the sweep"),
        (Idle({"soc": 6.0}, SETTINGS), "the idle power of scope gpu-board was not measured"),
        (Idle({"gpu-board": 20.0}, {"power_limit_w": "300"}), "power_limit_w"),
        (Idle({"gpu-board": 20.0}, {}), "power_limit_w"),
        (Idle({"gpu-board": 500.0}, SETTINGS), "no more than the machine at rest"),
    ],
)
def test_nothing_is_taken_off_where_idle_is_unknown_or_another(idle: Idle | None, said: str) -> None:
    found = assess(Play().counter(), idle=idle)
    assert "energy_j" in found.columns
    for column in ("energy_above_idle_j", "j_per_token_above_idle"):
        assert said in found.not_measured[column]


def test_settings_that_follow_the_load_are_no_change() -> None:
    assert IDLE.changed(SETTINGS) == []
    assert IDLE.changed({"power_limit_w": "300", "ecc": "on"}) == ["ecc", "power_limit_w"]


def test_the_mean_prefers_the_counter_over_five_seconds() -> None:
    readings = [*Play().counter(), *Play(load_w=200.0).power()]
    assert mean_power_w(readings, 2.0, 12.0, "gpu-board") == pytest.approx(300.0, rel=0.02)
    assert mean_power_w(readings, 2.0, 6.0, "gpu-board") == pytest.approx(200.0, rel=1e-4)
    assert mean_power_w(readings, 2.0, 12.0, "soc") is None
    assert mean_power_w(readings, 200.0, 212.0, "gpu-board") is None


def test_the_mean_of_what_does_not_move_is_none() -> None:
    still = [replace(reading, value=7.0) for reading in Play().counter()]
    dark = [replace(reading, value=0.0) for reading in Play().power()]
    assert mean_power_w([*still, *dark], 2.0, 12.0, "gpu-board") is None
    assert mean_power_w([*still, *Play().average()], 2.0, 12.0, "gpu-board") == pytest.approx(300.0, rel=1e-3)


def test_macos_gives_a_baseline_of_ten_seconds() -> None:
    readings = soc().counter(every_s=2.13, step_s=0.001)
    assert mean_power_w(readings, 2.0, 12.0, "soc") == pytest.approx(60.0, rel=0.01)


@pytest.mark.parametrize(
    ("baseline_w", "expected"), [(300.0, True), (275.0, True), (271.0, False), (331.0, True), (335.0, False), (20.0, False)]
)
def test_settled_is_within_a_tenth(baseline_w: float, expected: bool) -> None:
    for readings in (Play().power(), Play().average(), Play().counter(every_s=0.5, step_s=0.001)):
        heard = [reading for reading in readings if reading.t_s <= 10.0]
        assert settled(heard, 10.0, "gpu-board", baseline_w) is expected


@pytest.mark.parametrize(("baseline_w", "expected"), [(3.0, True), (7.0, True), (2.5, False), (7.5, False)])
def test_settled_is_within_two_watts_where_little_is_drawn(baseline_w: float, expected: bool) -> None:
    readings = [replace(reading, value=5.0) for reading in Play().power()]
    assert settled(readings, 10.0, "gpu-board", baseline_w) is expected


def test_settled_waits_for_two_seconds_of_readings_and_for_fresh_ones() -> None:
    began = [reading for reading in Play().power() if 8.5 <= reading.t_s <= 10.0]
    assert not settled(began, 10.0, "gpu-board", 300.0)
    old = [reading for reading in Play().power() if reading.t_s <= 7.0]
    assert not settled(old, 10.0, "gpu-board", 300.0)
    assert not settled(Play().power(), 10.0, "soc", 300.0)
    assert not settled([], 10.0, "gpu-board", 300.0)


def test_settled_by_a_counter_that_moves_every_two_seconds() -> None:
    readings = soc().counter(every_s=2.13, step_s=0.001)
    heard = [reading for reading in readings if reading.t_s <= 10.0]
    assert settled(heard, 10.0, "soc", 60.0)
    assert not settled(heard, 10.0, "soc", 6.0)
    assert not settled(heard, 15.0, "soc", 60.0)
    assert not settled(heard[-1:], 10.0, "soc", 60.0)
