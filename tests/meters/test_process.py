"""The process's own memory: read, reset, and None where there is no counter."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from bench.meters.interface import Meter, Unavailable, Watched, load_meter
from bench.meters.process import ProcessMemory, RusageInfoV4, fill_from_macos
from bench.spec import DEVICES

MB = 1_000_000


def test_peak_and_present_follow_a_large_array_and_a_reset() -> None:
    memory = ProcessMemory()
    assert memory.reset()
    before, held = memory.peak_bytes(), memory.present_bytes()
    assert before is not None
    assert held is not None
    block = bytearray(b"x" * 200 * MB)
    during, holding = memory.peak_bytes(), memory.present_bytes()
    assert during is not None
    assert holding is not None
    assert during - before >= 190 * MB
    assert holding - held >= 190 * MB
    del block
    still, left = memory.peak_bytes(), memory.present_bytes()
    assert still is not None
    assert left is not None
    assert still >= during
    assert holding - left >= 190 * MB
    assert memory.reset()
    after = memory.peak_bytes()
    assert after is not None
    assert during - after >= 190 * MB


def test_a_recorded_status_is_read_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tVmHWM: 7 kB\nVmPeak:\t 9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n")
    memory = ProcessMemory(proc=tmp_path, system="linux")
    assert memory.peak_bytes() == 2048 * 1024
    assert memory.present_bytes() == 1024


@pytest.mark.parametrize("status", [None, "Name:\tpython\n"])
def test_without_a_counter_there_is_no_number(tmp_path: Path, status: str | None) -> None:
    if status is not None:
        (tmp_path / "status").write_text(status)
    memory = ProcessMemory(proc=tmp_path / "absent" if status is None else tmp_path, system="linux")
    assert memory.peak_bytes() is None
    assert memory.present_bytes() is None
    found = memory.availability()
    assert not found.available
    assert found.reason
    assert found.remedy


def test_a_reset_that_the_system_refuses_is_said(tmp_path: Path) -> None:
    assert not ProcessMemory(proc=tmp_path / "absent").reset()


def on_macos(present_bytes: int, peak_bytes: int, status: int = 0) -> ProcessMemory:
    def fill(info: RusageInfoV4) -> int:
        info.ri_phys_footprint = present_bytes
        info.ri_lifetime_max_phys_footprint = peak_bytes
        return status

    return ProcessMemory(system="darwin", fill=fill)


def test_on_macos_the_footprint_is_read_and_never_reset() -> None:
    memory = on_macos(3 * MB, 90_000 * MB)
    assert memory.present_bytes() == 3 * MB
    assert memory.peak_bytes() == 90_000 * MB
    assert memory.availability().available
    assert not memory.reset()


def test_the_struct_has_the_layout_of_the_sdk() -> None:
    """Offsets that the SDK's header gives, so that no field can be left out or doubled unseen."""
    assert ctypes.sizeof(RusageInfoV4) == 296
    assert RusageInfoV4.ri_phys_footprint.offset == 16 + 7 * 8
    assert RusageInfoV4.ri_lifetime_max_phys_footprint.offset == 16 + 28 * 8


def test_a_refusing_kernel_or_an_absent_library_gives_no_number() -> None:
    def absent(info: RusageInfoV4) -> int:
        raise OSError("no libSystem here")

    for memory in (on_macos(1, 1, status=-1), on_macos(0, 0), ProcessMemory(system="darwin", fill=absent)):
        assert memory.peak_bytes() is None
        assert memory.present_bytes() is None
        assert not memory.availability().available


def test_macos_is_asked_about_the_calling_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rusage(pid: int, flavor: int, info: object) -> int:
        asked.append((pid, flavor))
        return 0

    monkeypatch.setattr("bench.meters.process._proc_pid_rusage", lambda: rusage)
    monkeypatch.setattr("bench.meters.process.os.getpid", lambda: 4711)
    assert fill_from_macos(RusageInfoV4()) == 0
    assert asked == [(4711, 4)]


def test_it_is_a_meter_that_the_child_reads() -> None:
    meter: Meter = load_meter("process-memory")
    assert (meter.name, meter.scope, meter.devices) == ("process-memory", "process", DEVICES)
    assert (meter.interval_s, meter.min_window_s) == (0, 0)
    with pytest.raises(Unavailable, match="read by the child"):
        meter.open(Watched(device="cpu"))


def test_resetting_gives_back_what_the_c_library_kept_of_freed_memory() -> None:
    """Blocks below the threshold of mmap stay in glibc's heap when freed, all the more under a block that is still held."""
    code = (
        "from bench.meters.process import ProcessMemory\n"
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)\n"
        "libc.mallopt(-3, 1 << 30), libc.mallopt(-1, 1 << 30)\n"  # everything from the heap, which is not trimmed by itself
        "memory = ProcessMemory()\n"
        "blocks = [libc.malloc(1 << 20) for _ in range(200)]\n"
        "[ctypes.memset(block, 1, 1 << 20) for block in blocks]\n"
        "[libc.free(block) for block in blocks[:-1]]\n"
        "held = memory.present_bytes()\n"
        "memory.reset()\n"
        "print(held - memory.present_bytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 150 * 2**20
