"""Printed hardware leads to a profile, one device's share of a rate, or a reason."""

from __future__ import annotations

import pytest

from bench.cited import Cited
from bench.predict.cited_machines import hardware_of, machine_of


def row(hardware: str | None, notes: str = "", memory_gb: float | None = None) -> Cited:
    return Cited(id="a-1", source="s", hardware=hardware, notes=notes, memory_gb=memory_gb)


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("RTX 4090", "pc-rtx-4090"),
        ("NVIDIA GeForce RTX 4090 24GB", "pc-rtx-4090"),
        ("Intel 265K PC + RTX 4090", "pc-rtx-4090"),
        ("3090", "pc-rtx-3090"),
        ("RTX 3090 Ti", "pc-rtx-3090-ti"),
        ("RTX 4070 Ti SUPER", "pc-rtx-4070-ti-super"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA A100-40GB (Colab)", "a100-40gb"),
        ("g5.xlarge (A10G)", "a10g"),
        ("A10", "a10"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Google Colab T4 (free tier)", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("Apple M2 Ultra (64GB)", "mac-studio-m2-ultra-64gb"),
        ("M2 Max 64GB", "mac-m2-max-64gb"),
        ("Apple M3 Ultra 80-core (512GB)", "mac-studio-m3-ultra-80-core"),
        ("Apple M4 Max (Mac Studio 64GB)", "mac-m4-max-64gb"),
        ("MacBook Pro M3 Max 36GB", "apple-m3-max-36gb"),
    ],
)
def test_a_chip_is_known_in_any_spelling(printed: str, name: str) -> None:
    found = machine_of(printed)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "printed",
    ["unstated GPU (runs on 1x RTX 4090)", "NVIDIA (vendor minimum VRAM table)", "RTX 4090 Laptop GPU", "GPU"],
)
def test_what_names_no_chip_of_the_catalogue_has_no_rates(printed: str) -> None:
    assert machine_of(printed) is None


def test_a_mac_of_other_memory_has_the_chips_rates_and_its_own_capacity() -> None:
    found = hardware_of(row("M1 Max 64GB"), "metal")
    assert found.profile is not None
    assert (found.profile.memory_bytes_per_s, found.capacity_bytes) == (400e9, 48 * 2**30)
    assert hardware_of(row("M9 Max", memory_gb=128), "metal").capacity_bytes == 96 * 2**30


def test_a_consumer_card_that_the_catalogue_lacks_has_a_capacity() -> None:
    found = hardware_of(row("RTX 5090", memory_gb=32))
    assert (found.profile, found.capacity_bytes) == (None, pytest.approx(33.8e9, rel=1e-3))
    assert hardware_of(row("NVIDIA B200", memory_gb=180)).capacity_bytes is None


def test_a_stack_on_the_other_makers_machine_has_no_rules() -> None:
    assert "no rules" in (hardware_of(row("M2 Max 64GB"), "cuda").refused or "")
    assert "no rules" in (hardware_of(row("RTX 4090"), "metal").refused or "")


def test_cards_that_copy_the_model_share_the_rate_and_sharded_ones_say_nothing() -> None:
    found = hardware_of(row("2x NVIDIA RTX 3090", "2 GPUs, DDP"))
    assert (found.count, found.profile and found.profile.name) == (2, "pc-rtx-3090")
    assert hardware_of(row("2x RTX 4090", "2 GPUs, FSDP")).refused == "sharded over several cards"
    assert "nothing says" in (hardware_of(row("RTX 4090 x 2")).refused or "")


def test_a_class_of_cards_has_a_capacity_and_no_rates() -> None:
    found = hardware_of(row("NVIDIA 24 GB class GPU"))
    assert (found.profile, found.capacity_bytes) == (None, pytest.approx(25.34e9, rel=1e-3))


def test_an_a100_of_unnamed_size_has_rates_and_no_capacity() -> None:
    found = hardware_of(row("NVIDIA A100"))
    assert found.profile is not None
    assert found.capacity_bytes is None
    assert hardware_of(row(None)).profile is None
