"""Settings read back: present with their unit, absent where the card does not give them."""

from dataclasses import replace

from fake_nvml import Clock, FakeNvml, h200, laptop, old_driver, rtx_4090

from bench.meters.nvml_card import Card
from bench.meters.nvml_settings import settings_of


def settings(fake: FakeNvml) -> dict[str, str]:
    return dict(settings_of(Card(fake, 0)))


def test_a_data_centre_card_gives_all() -> None:
    assert settings(FakeNvml((h200(limit_w=600.5),), Clock())) == {
        "driver_version": "580.65.06",
        "power_limit_w": "600.5",
        "power_limit_enforced_w": "600.5",
        "power_limit_default_w": "600.5",
        "power_limit_min_w": "200",
        "power_limit_max_w": "700",
        "graphics_clock_max_mhz": "1980",
        "memory_clock_max_mhz": "3201",
        "graphics_clock_application_mhz": "1980",
        "memory_clock_application_mhz": "3201",
        "graphics_clock_offset_mhz": "0",
        "memory_clock_offset_mhz": "0",
        "persistence_mode": "on",
        "ecc": "on",
        "card": "NVIDIA H200",
        "vbios_version": "95.02.3C.00.8C",
        "pcie_generation_max": "5",
        "pcie_width_max": "16",
        "pcie_generation_now": "5",
        "pcie_width_now": "16",
        "performance_state_now": "P0",
    }


def test_what_a_card_lacks_is_left_out() -> None:
    missing = settings(FakeNvml((h200(),), Clock())).keys() - settings(FakeNvml((laptop(),), Clock())).keys()
    assert missing == {
        "power_limit_w", "power_limit_default_w", "power_limit_min_w", "power_limit_max_w", "graphics_clock_application_mhz",
        "memory_clock_application_mhz", "ecc",
    }  # fmt: skip
    assert "graphics_clock_offset_mhz" not in settings(FakeNvml((old_driver(),), Clock()))


def test_what_follows_the_load_says_so_in_its_name() -> None:
    rest = rtx_4090()
    fake = FakeNvml((rest,), Clock())
    before = settings(fake)
    fake.cards = [replace(rest, performance_state=2, pcie=(4, 16, 4, 16))]
    changed = {name for name, value in settings(fake).items() if before[name] != value}
    assert changed == {"performance_state_now", "pcie_generation_now"}
    fake.cards = [replace(rest, limit_w=300.0)]
    assert before["power_limit_w"] == "450"
    assert settings(fake)["power_limit_w"] == "300"


def test_a_lost_card_has_no_settings_and_does_no_harm() -> None:
    assert settings(FakeNvml((rtx_4090(lost_at_s=0.0),), Clock())) == {"driver_version": "580.65.06"}
