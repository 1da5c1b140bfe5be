"""Whether memory figures tell the truth, on the CPU, for every method of both stacks.

Small models are trained by the real backends in a process whose native heap is counted at every malloc (`memhook.c`). Both sides
are taken above the same base, the process with its framework imported and nothing built; peaks start anew when training does.

`hf`: the outside figure is `host_peak_bytes` (VmHWM) less the base. It may differ from malloc's count by what was asked for and
never touched (below it) and by libraries' pages first touched meanwhile (above it). It also holds blocks that were freed and that
glibc keeps. That is memory which the process really takes, yet no part of the count, so here glibc is told to return large
blocks at once (MALLOC_MMAP_THRESHOLD_). Left alone it keeps those of up to 32 MiB, and the outside figure lies higher:
docs/measuring.md says by how much.

`mlx`: the framework's own figures, active peak and cache, against the outside figure, glibc left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

METHODS = ("full", "lora", "qlora")
HERE = Path(__file__).parent
MB = 1_000_000
GLIBC = {"hf": {"MALLOC_MMAP_THRESHOLD_": "65536"}, "mlx": {}}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="VmHWM and LD_PRELOAD of glibc's malloc are Linux's")


def trained(backend: str, memhook: Path) -> dict[str, dict[str, int]]:
    """What every counter said of every method. One import for all: methods run in forks of one process."""
    counted = {"LD_PRELOAD": str(memhook), "PYTHONMALLOC": "malloc", "OMP_NUM_THREADS": "2", **GLIBC[backend]}
    ended = subprocess.run(
        [sys.executable, HERE / "memory_truth_child.py", backend, *METHODS],
        env={**os.environ, **counted},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"')]
    return dict(zip(METHODS, lines, strict=True))


@pytest.fixture(scope="module")
def hf(memhook: Path) -> dict[str, dict[str, int]]:
    return trained("hf", memhook)


@pytest.fixture(scope="module")
def mlx(memhook: Path) -> dict[str, dict[str, int]]:
    return trained("mlx", memhook)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("method", METHODS)
def test_the_outside_peak_of_hf_is_what_malloc_gave(method, hf):
    """Less the pages of libraries that training touched: files, no heap, and a fresh fork maps them in lumps of any size."""
    seen = hf[method]
    libraries = seen["rss_file_end"] - seen["rss_file_base"]
    outside = seen["host_peak"] - seen["host_base"] - libraries
    given = seen["heap_peak"] - seen["heap_base"]
    assert given > 300 * MB, "too small to show anything"
    assert abs(outside - given) <= 0.05 * given + 20 * MB


@pytest.mark.timeout(300)
@pytest.mark.parametrize("method", METHODS)
def test_active_memory_and_cache_of_mlx_are_what_the_system_saw(method, mlx):
    seen = mlx[method]
    outside = seen["host_peak"] - seen["host_base"]
    counted = seen["framework_peak"] + seen["cache_peak"]
    assert counted > 50 * MB, "too small to show anything"
    assert abs(outside - counted) <= 0.10 * outside + 30 * MB


@pytest.mark.timeout(300)
def test_more_is_trained_more_is_taken(hf, mlx):
    """Against figures that agree because both stand still: methods differ by what they are known to hold beside the weights."""
    for backend in (hf, mlx):
        libraries = {method: seen["rss_file_end"] - seen["rss_file_base"] for method, seen in backend.items()}
        peaks = {method: seen["host_peak"] - libraries[method] for method, seen in backend.items()}
        weights = 4 * backend["full"]["parameters"]
        assert peaks["full"] - peaks["lora"] > 2 * weights  # gradients and two moments, less LoRA's own
        assert peaks["lora"] - peaks["qlora"] > 0.2 * weights


@pytest.mark.timeout(60)
def test_the_hook_counts_what_malloc_gives_and_takes_back(memhook):
    """A counter that sees nothing would make every bound above meaningless."""
    program = """
import ctypes
libc = ctypes.CDLL(None)
for name in ("memhook_live_bytes", "memhook_peak_bytes"):
    getattr(libc, name).restype = ctypes.c_longlong
libc.malloc.restype = libc.realloc.restype = libc.calloc.restype = ctypes.c_void_p
libc.realloc.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_size_t], [ctypes.c_void_p]
before = libc.memhook_live_bytes()
libc.memhook_reset_peak()
block = libc.realloc(libc.malloc(10_000_000), 30_000_000)
other = ctypes.c_void_p()
assert libc.posix_memalign(ctypes.byref(other), 64, 5_000_000) == 0
third = libc.calloc(1000, 1000)
grown = libc.memhook_live_bytes() - before
libc.free(block), libc.free(other), libc.free(third)
print(grown, libc.memhook_live_bytes() - before, libc.memhook_peak_bytes() - before)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_PRELOAD": str(memhook)},
        capture_output=True,
        text=True,
        check=True,
    )
    grown, left, peak = (int(word) for word in ended.stdout.split())
    assert 36_000_000 <= grown <= 36_200_000
    assert abs(left) < 100_000
    assert grown <= peak <= grown + 100_000
