"""Epochs: what opens a new one, what does not, and that every setting a meter tells has been judged."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_apple import FakeMac
from fake_nvml import Clock, FakeNvml, h200

from bench import store
from bench.epochs import EPOCH_SETTINGS, Conditions
from bench.meters.apple_system import AppleSystem
from bench.meters.host import Host
from bench.meters.interface import Watched
from bench.meters.nvml_card import Card
from bench.meters.nvml_settings import settings_of
from bench.meters.rapl import Rapl
from bench.record import Run

NIGHT = Conditions(
    environment_digest="0123456789abcdef",
    versions={"python": "3.11.9", "os": "Debian 12, kernel 6.1", "driver": "580.65.06", "torch": "2.13.0"},
    os_version="Debian 12, kernel 6.1",
    device_settings={"power_limit_w": "450", "cpu_governor": "performance", "performance_state_now": "P0"},
    source_revision="abc",
)
LEFT_OUT = {
    *("driver_version", "macos_version", "packages", "package_power_limit_w"),
    *("pcie_generation_now", "pcie_width_now", "performance_state_now"),
}


def test_the_digest_stays_what_it_is_under_every_later_version() -> None:
    """Else the night after an update of this program would look like a new environment."""
    assert NIGHT.epoch_digest == "45ffe091c7a57993"


@pytest.mark.parametrize(
    "changed",
    [
        replace(NIGHT, environment_digest="fedcba9876543210"),
        replace(NIGHT, os_version="Debian 12, kernel 6.12"),
        replace(NIGHT, versions={**NIGHT.versions, "driver": "590.10"}),
        *(replace(NIGHT, device_settings={**NIGHT.device_settings, name: "7"}) for name in EPOCH_SETTINGS),
        replace(NIGHT, device_settings={"cpu_governor": "performance"}),
    ],
)
def test_a_change_of_these_opens_an_epoch(changed: Conditions) -> None:
    assert changed.epoch_digest not in (NIGHT.epoch_digest, None)


@pytest.mark.parametrize(
    "same",
    [
        replace(NIGHT, source_revision="def-dirty"),
        replace(NIGHT, versions=dict(reversed(list(NIGHT.versions.items())))),
        replace(NIGHT, device_settings=dict(reversed(list(NIGHT.device_settings.items())))),
        replace(NIGHT, device_settings={**NIGHT.device_settings, "performance_state_now": "P8"}),
        replace(NIGHT, device_settings={**NIGHT.device_settings, "memory_like": "pc-rtx-4090", "framework_peak": "watched"}),
        replace(NIGHT, os_version=None),
        replace(
            NIGHT,
            versions={**NIGHT.versions, "driver": ""},
            device_settings={**NIGHT.device_settings, "driver_version": "580.65.06"},
        ),
    ],
)
def test_a_change_of_these_opens_none(same: Conditions) -> None:
    assert same.epoch_digest == NIGHT.epoch_digest


def test_without_a_list_of_packages_nothing_is_claimed() -> None:
    assert replace(NIGHT, environment_digest=None).epoch_digest is None


def test_every_setting_that_a_meter_tells_is_of_the_epoch_or_left_out_for_a_reason(tmp_path: Path) -> None:
    told = {
        *settings_of(Card(FakeNvml((h200(),), Clock()), 0)),
        *AppleSystem(mac=FakeMac()).open(Watched(device="metal")).settings(),
    }
    told |= {*Host(sys_root=governed(tmp_path)).open(Watched(device="cpu")).settings()}
    told |= {*packages(tmp_path).open(Watched(device="cpu")).settings()}
    assert told == {*EPOCH_SETTINGS, *LEFT_OUT}


def governed(folder: Path) -> Path:
    """A /sys in which Linux governs the clocks in every way."""
    cpus = folder / "devices/system/cpu"
    files = ("cpufreq/policy0/scaling_governor", "cpufreq/policy0/energy_performance_preference", "cpufreq/boost")
    for path in (*(cpus / name for name in files), folder / "firmware/acpi/platform_profile"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return folder


def packages(folder: Path) -> Rapl:
    """A package with both limits."""
    zone = folder / "powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    texts = {"name": "package-0", "energy_uj": "5", "max_energy_range_uj": "262143328850"}
    for place, which in enumerate(("long_term", "short_term")):
        texts |= {f"constraint_{place}_name": which, f"constraint_{place}_power_limit_uw": "125000000"}
    for name, text in texts.items():
        (zone / name).write_text(f"{text}\n")
    (folder / "cpuinfo").write_text("flags\t\t: fpu\n")
    return Rapl(powercap=folder / "powercap", cpuinfo=folder / "cpuinfo", clock=Clock(), system="linux")


def test_a_rows_conditions_are_the_same_from_arrow_and_from_pandas(tmp_path: Path, make_run: Callable[..., Run]) -> None:
    told = {name: getattr(NIGHT, name) for name in Conditions.__dataclass_fields__}
    store.append(tmp_path, make_run("a", **told))
    store.append(tmp_path, make_run("b", environment_digest=None, os_version=None))
    rows = store.read(tmp_path, "runs").rows
    for found in (rows.to_pylist(), rows.to_pylist(maps_as_pydicts="strict"), rows.to_pandas().to_dict("records")):
        full, bare = map(Conditions.of, found)
        assert full == NIGHT
        assert (bare.environment_digest, bare.system, bare.driver, bare.settings, bare.epoch_digest) == (
            None,
            None,
            None,
            {},
            None,
        )
    older = rows.to_pandas().drop(columns=["versions", "device_settings"]).to_dict("records")
    assert Conditions.of(older[0]) == replace(NIGHT, versions={}, device_settings={})
