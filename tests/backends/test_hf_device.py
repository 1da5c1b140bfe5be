"""Devices of torch: waiting and counting, with CUDA's counters played, for lack of a card."""

from __future__ import annotations

import pytest
import torch

from bench.backends import hf_device
from bench.backends.interface import UnsupportedError
from bench.events import Counters


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is called on `torch.cuda` and `torch.mps`, in order."""
    heard: list[str] = []

    def hear(name: str) -> None:
        def heard_call() -> int:
            heard.append(name)
            return {"cuda.max_memory_allocated": 5, "cuda.max_memory_reserved": 7}.get(name, 0)

        monkeypatch.setattr(f"torch.{name}", heard_call)

    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "max_memory_allocated", "max_memory_reserved"):
        hear(f"cuda.{name}")
    hear("mps.synchronize")
    return heard


def test_cuda_waits_and_counts_allocated_and_reserved(calls: list[str]) -> None:
    hf_device.synchronize("cuda")
    hf_device.start_counting("cuda")
    assert hf_device.counters("cuda") == Counters(framework_peak_bytes=5, reserved_peak_bytes=7)
    assert calls[:3] == ["cuda.synchronize", "cuda.empty_cache", "cuda.reset_peak_memory_stats"]


def test_mps_waits_and_has_no_peak(calls: list[str]) -> None:
    hf_device.synchronize("mps")
    hf_device.start_counting("mps")
    assert hf_device.counters("mps") == Counters()
    assert calls == ["mps.synchronize"]


def test_the_cpu_needs_neither(calls: list[str]) -> None:
    hf_device.synchronize("cpu")
    hf_device.start_counting("cpu")
    assert hf_device.counters("cpu") == Counters()
    assert calls == []


def test_requires_a_device_that_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="sees no cuda device"):
        hf_device.require("cuda")
    hf_device.require("cpu")
