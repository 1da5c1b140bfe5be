"""Whose elementwise kernels do what lies between the products."""

from __future__ import annotations

import pytest

from bench.catalog import catalogue
from bench.predict.traffic import EAGER, FUSED, LAZY, Traffic, traffic_of
from bench.spec import BackendName, Cell, Device, workload


@pytest.mark.parametrize(
    ("backend", "device", "expected"),
    [("hf", "cuda", EAGER), ("hf", "cpu", EAGER), ("unsloth", "cuda", FUSED), ("unsloth", "metal", LAZY), ("mlx", "cuda", LAZY)],
)
def test_a_stack_has_its_own(backend: BackendName, device: Device, expected: Traffic) -> None:
    declared = workload(model=catalogue().models["tiny-llama-xs"], method="lora")
    assert traffic_of(Cell(declared, backend, device)) is expected
