"""Packages' counters under a powercap folder made here: sums, wrap-around, limits, and every reason why there are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_meters import Clock

from bench.meters import rapl
from bench.meters.interface import Unavailable, Watched
from bench.meters.rapl import Rapl, RaplGauge

RANGE_UJ = 262_143_328_850
"""Of most Intel processors: 262 kJ."""
WATCHED = Watched(device="cpu")


@pytest.fixture
def zone(tmp_path: Path) -> Callable[..., Path]:
    """Make or change one zone of the folder."""

    def make(
        number: str = "0",
        name: str = "package-0",
        energy_uj: int = 5_000_000,
        control: str = "intel-rapl",
        range_uj: int = RANGE_UJ,
        **limits_w: float,
    ) -> Path:
        folder = tmp_path / "powercap" / f"{control}:{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "energy_uj").write_text(f"{energy_uj}\n")
        (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
        for place, (which, limit_w) in enumerate(limits_w.items()):
            (folder / f"constraint_{place}_name").write_text(f"{which}\n")
            (folder / f"constraint_{place}_power_limit_uw").write_text(f"{round(limit_w * 1e6)}\n")
        return folder

    return make


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(tmp_path: Path, clock: Clock) -> Rapl:
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu vme sse\n")
    return Rapl(powercap=tmp_path / "powercap", cpuinfo=tmp_path / "cpuinfo", clock=clock, system="linux")


def energy_j(gauge: RaplGauge) -> float:
    (value,) = gauge.read()
    assert value.quantity == "energy"
    return value.value


def test_the_packages_are_summed_and_nothing_within_or_around_them(zone: Callable[..., Path], meter: Rapl, clock: Clock) -> None:
    zone("0", "package-0", 1_000_000)
    zone("1", "package-1", 9_000_000)
    others = [("0:0", "core"), ("0:1", "dram"), ("2", "psys")]
    for number, name in others:
        zone(number, name, 0)
    zone("0", "package-0", 0, control="intel-rapl-mmio")
    assert meter.availability().available
    gauge = meter.open(WATCHED)
    assert energy_j(gauge) == 0.0
    clock.now_s += 0.5
    zone("0", "package-0", 1_000_000 + 30_000_000)
    zone("1", "package-1", 9_000_000 + 12_000_000)
    for number, name in others:
        zone(number, name, 77_000_000)
    zone("0", "package-0", 99_000_000, control="intel-rapl-mmio")
    assert energy_j(gauge) == pytest.approx(42.0)
    assert gauge.settings()["packages"] == "package-0+package-1"
    assert gauge.missing() == {}
    gauge.close()


def test_dies_count_as_packages(zone: Callable[..., Path], meter: Rapl, clock: Clock) -> None:
    zone("0", "package-0-die-0", 0)
    zone("1", "package-0-die-1", 0)
    gauge = meter.open(WATCHED)
    clock.now_s += 1
    zone("0", "package-0-die-0", 3_000_000)
    zone("1", "package-0-die-1", 4_000_000)
    assert energy_j(gauge) == pytest.approx(7.0)


def test_wrap_around_is_undone_time_after_time(zone: Callable[..., Path], meter: Rapl, clock: Clock) -> None:
    counted_uj = RANGE_UJ - 10_000_000
    zone(energy_uj=counted_uj)
    gauge = meter.open(WATCHED)
    for minute in range(1, 61):
        clock.now_s += 60.0
        counted_uj += 15_000_000_000
        zone(energy_uj=counted_uj % RANGE_UJ)
        assert energy_j(gauge) == pytest.approx(15_000.0 * minute)
    assert counted_uj > 3 * RANGE_UJ


def test_a_counter_that_was_set_back_is_no_wrap_around(zone: Callable[..., Path], meter: Rapl, clock: Clock) -> None:
    zone(energy_uj=50_000_000_000)
    gauge = meter.open(WATCHED)
    clock.now_s += 0.5
    zone(energy_uj=1_000_000)
    assert gauge.read() == []
    assert gauge.missing() == {"energy": "the counter of package-0 was set back"}
    clock.now_s += 0.5
    assert gauge.read() == []


@pytest.mark.parametrize(("away_s", "heard"), [(60.0, True), (200.0, False)])
def test_a_counter_left_alone_for_longer_than_a_wrap_is_not_believed(
    zone: Callable[..., Path], meter: Rapl, clock: Clock, away_s: float, heard: bool
) -> None:
    zone(energy_uj=0)
    gauge = meter.open(WATCHED)
    clock.now_s += away_s
    zone(energy_uj=6_000_000_000)
    assert bool(gauge.read()) is heard
    assert ("may have wrapped around unseen" in gauge.missing().get("energy", "")) is not heard


@pytest.mark.parametrize("content", [None, "", "no data"])
def test_a_counter_that_goes_away(zone: Callable[..., Path], meter: Rapl, content: str | None) -> None:
    counter = zone() / "energy_uj"
    gauge = meter.open(WATCHED)
    counter.unlink() if content is None else counter.write_text(content)
    assert gauge.read() == []
    assert "cannot be read any more" in gauge.missing()["energy"]


@pytest.mark.parametrize(
    ("limits_w", "expected"),
    [
        (
            {"long_term": 125.0, "short_term": 253.0, "peak_power": 420.0},
            {"long_term_w": "125", "short_term_w": "253", "w": "253"},
        ),
        ({"long_term": 65.5}, {"long_term_w": "65.5", "w": "65.5"}),
        ({"long_term": 4095.0, "short_term": 4095.0}, {"long_term_w": "4095", "short_term_w": "4095"}),
        ({"long_term": 0.0}, {"long_term_w": "0"}),
        ({}, {}),
    ],
)
def test_the_limits_are_read_back(
    zone: Callable[..., Path], meter: Rapl, limits_w: dict[str, float], expected: dict[str, str]
) -> None:
    zone(**limits_w)
    told = meter.open(WATCHED).settings()
    assert told == {"packages": "package-0"} | {f"package_power_limit_{name}": text for name, text in expected.items()}


def test_limits_of_two_packages_are_summed_and_one_unknown_leaves_none(zone: Callable[..., Path], meter: Rapl) -> None:
    zone("0", "package-0", long_term=270.0)
    folder = zone("1", "package-1", long_term=270.0)
    assert meter.open(WATCHED).settings()["package_power_limit_w"] == "540"
    (folder / "constraint_0_power_limit_uw").write_text("")
    assert meter.open(WATCHED).settings() == {"packages": "package-0+package-1"}


def refused(meter: Rapl) -> tuple[str, str]:
    """Reason and remedy; `open` says the same."""
    found = meter.availability()
    assert not found.available
    assert found.reason
    assert found.remedy
    with pytest.raises(Unavailable) as raised:
        meter.open(WATCHED)
    assert str(raised.value) == found.reason
    return found.reason, found.remedy


def test_root_alone_may_read(zone: Callable[..., Path], meter: Rapl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Played, because these tests may run as root, whom no mode keeps out."""
    zone()

    def denied(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", denied)
    reason, remedy = refused(meter)
    assert "only root" in reason
    assert remedy.startswith("sudo chmod a+r ")


def test_a_virtual_machine(meter: Rapl) -> None:
    meter.cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu hypervisor sse\n")
    reason, remedy = refused(meter)
    assert "virtual machine" in reason
    assert "--wall-meter" in remedy


def test_no_packages(zone: Callable[..., Path], meter: Rapl) -> None:
    assert "no package under" in refused(meter)[0]
    zone("0", "psys")
    reason, remedy = refused(meter)
    assert "no package under" in reason
    assert "modprobe" in remedy
    meter.cpuinfo.unlink()
    assert refused(meter)[0] == reason


def test_a_counter_without_data_or_range(zone: Callable[..., Path], meter: Rapl) -> None:
    folder = zone()
    (folder / "energy_uj").write_text("")
    assert "cannot be read" in refused(meter)[0]
    zone(range_uj=0)
    assert "no package" in refused(meter)[0]


def test_other_systems() -> None:
    assert "Linux" in refused(Rapl(system="darwin"))[0]


def test_what_it_says_of_itself() -> None:
    meter = Rapl()
    assert (meter.name, meter.scope, meter.interval_s, meter.min_window_s) == ("rapl", "package", 0.5, 10.0)
    assert {"cpu", "cuda", "metal", "mps"} == {*meter.devices}
    assert rapl.MOST_W * meter.interval_s < RANGE_UJ * rapl.MICRO
