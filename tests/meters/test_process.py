"""The process's own peak: read, reset, and None where there is no counter."""

from pathlib import Path

import pytest

from bench.meters.process import ProcessMemory

MB = 1_000_000


def test_the_peak_follows_a_large_array_and_a_reset() -> None:
    memory = ProcessMemory()
    assert memory.reset()
    before = memory.peak_bytes()
    assert before is not None
    block = bytearray(b"x" * 200 * MB)
    during = memory.peak_bytes()
    assert during is not None
    assert during - before >= 190 * MB
    del block
    assert memory.reset()
    after = memory.peak_bytes()
    assert after is not None
    assert during - after >= 190 * MB


def test_a_recorded_status_is_read_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\nVmPeak:\t 9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n")
    assert ProcessMemory(proc=tmp_path, system="linux").peak_bytes() == 2048 * 1024


@pytest.mark.parametrize("status", [None, "Name:\tpython\n"])
def test_without_a_counter_there_is_no_number(tmp_path: Path, status: str | None) -> None:
    if status is not None:
        (tmp_path / "status").write_text(status)
    memory = ProcessMemory(proc=tmp_path / "absent" if status is None else tmp_path, system="linux")
    assert memory.peak_bytes() is None
    found = memory.availability()
    assert not found.available
    assert found.reason
    assert found.remedy


def test_a_reset_that_the_system_refuses_is_said(tmp_path: Path) -> None:
    assert not ProcessMemory(proc=tmp_path / "absent").reset()


def test_on_macos_the_lifetime_maximum_is_given() -> None:
    assert (ProcessMemory(system="darwin").peak_bytes() or 0) > 0
