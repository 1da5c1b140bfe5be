"""Limits on memory: sizes read strictly, machines looked up, and nothing stood in for that is not there."""

import subprocess
from dataclasses import replace
from typing import Any

import pytest

from bench import limits
from bench.limits import Limit, capacity_bytes, limit_of, refuse_above_capacity, size_bytes
from bench.record import Gpu, Machine
from bench.spec import BadInput

RTX_4090_BYTES = 25_383_256_719
M3_ULTRA_BYTES = 77_309_411_328


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24 * 10**9),
        ("22GiB", 22 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("512MB", 512 * 10**6),
        ("64 KiB", 65_536),
        (" 2TB ", 2 * 10**12),
        ("0.1kB", 100),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("24", '"24" has no unit: write 24GB for 10^9 bytes each, or 24GiB for 2^30'),
        ("1.5", "write 1.5GB"),
        ("24G", '"24G" is no size of memory'),
        ("24gb", "is no size of memory"),
        ("24GiBB", "is no size of memory"),
        ("-1GB", "is no size of memory"),
        ("1e3GB", "is no size of memory"),
        ("nanGB", "is no size of memory"),
        ("", "is no size of memory"),
        ("GB", "is no size of memory"),
        ("٣GB", "is no size of memory"),
        ("0GB", '"0GB" is no limit: nothing runs in it'),
        ("9" * 30 + "GB", "is no size of memory"),
    ],
)
def test_what_is_no_size_is_refused_with_the_remedy(text: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        size_bytes(text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_two_options_make_one_limit() -> None:
    assert limit_of(None, None) is None
    assert limit_of(5, None) == Limit(5)
    assert Limit(5).tier == "measured"
    like = limit_of(None, "pc-rtx-4090")
    assert like == Limit(RTX_4090_BYTES, "pc-rtx-4090")
    assert like.tier == "stand-in"


def test_a_limit_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadInput, match="both set the limit"):
        limit_of(5, "pc-rtx-4090")
    with pytest.raises(BadInput, match=r'no machine "pc-rtx-409O" .*did you mean "pc-rtx-4090"'):
        limit_of(None, "pc-rtx-409O")


def test_a_device_has_what_its_driver_or_the_catalogue_says(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "wired_limit_bytes", lambda: None)
    assert capacity_bytes(machine, "cpu") == 16 * 2**30
    assert capacity_bytes(machine, "cuda") is None
    assert capacity_bytes(replace(machine, gpus=(Gpu("card", 7),)), "cuda") == 7
    assert capacity_bytes(machine, "metal") is None
    ultra = replace(machine, name="mac-studio-m3-ultra")
    assert capacity_bytes(ultra, "metal") == capacity_bytes(ultra, "mps") == M3_ULTRA_BYTES
    monkeypatch.setattr(limits, "wired_limit_bytes", lambda: 90 * 2**30)
    assert capacity_bytes(ultra, "metal") == 90 * 2**30


@pytest.mark.parametrize(("text", "size"), [("92160\n", 90 * 2**30), ("0\n", None), ("unknown oid", None)])
def test_what_the_user_lets_the_gpu_wire(text: str, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        assert command == ("sysctl", "-n", "iogpu.wired_limit_mb")
        return subprocess.CompletedProcess(command, 0, stdout=text)

    monkeypatch.setattr(subprocess, "run", answer)
    assert limits.wired_limit_bytes() == size


def test_elsewhere_nothing_is_wired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert limits.wired_limit_bytes() is None


def test_more_than_there_is_cannot_be_stood_in_for(machine: Machine) -> None:
    refuse_above_capacity(Limit(16 * 2**30), machine, ["cpu", "metal"])  # metal's capacity is not known here
    refuse_above_capacity(Limit(10**15), machine, [])
    with pytest.raises(BadInput) as refused:
        refuse_above_capacity(Limit(RTX_4090_BYTES, "pc-rtx-4090"), machine, ["cpu"])
    assert str(refused.value) == (
        "--memory-like pc-rtx-4090 asks for 25,383,256,719 bytes, and cpu of test-machine has 17,179,869,184: "
        "give less, or leave it out"
    )
    card = replace(machine, gpus=(Gpu("card", 10**10),))
    with pytest.raises(BadInput, match="--memory-limit asks for 10,000,000,001 bytes, and cuda of"):
        refuse_above_capacity(Limit(10**10 + 1), card, ["cpu", "cuda"])


def test_more_than_any_machine_has_is_refused() -> None:
    with pytest.raises(BadInput, match="more than any machine has"):
        size_bytes("999999999TB")
