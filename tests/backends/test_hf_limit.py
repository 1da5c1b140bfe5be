"""Holding torch to a limit, with CUDA and MPS played, for lack of either; the CPU's in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bench.backends import hf_limit
from bench.backends.interface import Held, OverLimit, UnsupportedError

TOTAL, CONTEXT, BLOCK = 150 * 10**9, 500 * 10**6, 2 * 2**20


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """A played card: what others use, whether the context stands; the fractions that were set."""

    def play(others: int = 3 * 10**9, context: int = CONTEXT, stands: bool = False) -> list[float]:
        state = {"context": context if stands else 0, "reserved": 0}
        fractions: list[float] = []

        def zeros(*_: object, device: str) -> None:
            assert device == "cuda"
            state.update(context=context, reserved=BLOCK)

        used = lambda: others + state["context"] + state["reserved"]  # noqa: E731  # asked again and again
        monkeypatch.setattr(torch, "zeros", zeros)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "device_memory_used", used)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: state["reserved"])
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (TOTAL - used(), TOTAL))
        monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
        return fractions

    return play


def test_on_cuda_context_and_allocator_together_make_the_capacity(card: Callable[..., list[float]]) -> None:
    fractions = card()
    assert hf_limit.hold("cuda", 24 * 10**9) == Held("torch-cuda-allocator")
    assert [fraction * TOTAL + CONTEXT for fraction in fractions] == [pytest.approx(24 * 10**9)]


def test_a_context_that_stood_already_is_bounded_from_above(card: Callable[..., list[float]]) -> None:
    fractions = card(others=0, stands=True)
    hf_limit.hold("cuda", 24 * 10**9)
    card(others=10**9, stands=True)
    assert hf_limit.cuda_context_bytes() == CONTEXT + 10**9  # others' memory cannot be told from it
    assert fractions[0] * TOTAL + CONTEXT == pytest.approx(24 * 10**9)


def test_a_limit_of_the_whole_card_asks_for_no_more_than_there_is(card: Callable[..., list[float]]) -> None:
    fractions = card(others=0)
    hf_limit.hold("cuda", TOTAL + 10**10)
    assert fractions == [1.0]


def test_a_limit_below_the_context_is_over_it_at_once(card: Callable[..., list[float]]) -> None:
    fractions = card()
    with pytest.raises(OverLimit, match="context alone takes 500,000,000 bytes, of 500,000,000 allowed"):
        hf_limit.hold("cuda", CONTEXT)
    assert fractions == []


def test_without_nvml_cuda_cannot_be_held(card: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch) -> None:
    fractions = card()

    def absent() -> int:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")

    monkeypatch.setattr(torch.cuda, "device_memory_used", absent)
    with pytest.raises(UnsupportedError, match="without NVML"):
        hf_limit.hold("cuda", 10**10)
    assert fractions == []


@pytest.mark.parametrize(("capacity", "fraction"), [(24 * 10**9, 0.3), (400 * 10**9, 2.0)])
def test_mps_is_held_to_its_share_of_what_metal_recommends(
    capacity: int, fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fractions: list[float] = []
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 80 * 10**9)
    monkeypatch.setattr(torch.mps, "set_per_process_memory_fraction", fractions.append)
    assert hf_limit.hold("mps", capacity) == Held("torch-mps-allocator")
    assert fractions == [pytest.approx(fraction)]


def test_where_the_kernel_keeps_no_limit_the_processes_peak_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    held = hf_limit.hold("cpu", 10**9)
    assert held.means == "accounting"
    assert held.peak_bytes is not None
    kibibytes = held.peak_bytes()  # this system counts in them; macOS counts bytes
    monkeypatch.setattr(sys, "platform", "linux")
    assert held.peak_bytes() >= 1024 * kibibytes > 10**7


HELD = """
import torch
from bench.backends import hf_limit
threads = [torch.ones(100_000) for _ in range(3)]
used = hf_limit._status_bytes("RssAnon")
print(hf_limit.hold("cpu", used + 200_000_000).means)
kept = torch.ones(25_000_000)          # 100 MB fit
assert hf_limit._status_bytes("RssAnon") > used + 90_000_000
try:
    torch.ones(40_000_000)             # 160 MB more do not
except RuntimeError as error:
    print(error)
del kept
torch.ones(40_000_000)                 # and do, once the others are gone
"""


def test_the_cpu_is_held_to_what_is_in_use_and_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True, timeout=120)
    means, message = done.stdout.strip().split("\n", 1)
    assert means == "rlimit-data"
    assert "DefaultCPUAllocator: can't allocate memory: you tried to allocate 160000000 bytes" in message


def test_a_limit_below_what_imports_take_is_over_it_at_once() -> None:
    with pytest.raises(OverLimit, match="imported libraries alone take"):
        hf_limit.hold("cpu", 1_000_000)


def test_a_kernel_that_tells_nothing_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_limit, "STATUS", tmp_path / "status")
    with pytest.raises(UnsupportedError, match="gives no RssAnon"):
        hf_limit.hold("cpu", 10**9)
    (tmp_path / "status").write_text("Name:\tpython\nVmRSS:\t5 kB\n")
    with pytest.raises(UnsupportedError, match="gives no RssAnon"):
        hf_limit.hold("cpu", 10**9)
