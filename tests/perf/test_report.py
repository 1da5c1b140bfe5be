"""The report on 1,000,000 step rows and 10,000 runs, before and after `compact`: time, and the peak of its memory.

Each report is a process of its own, as a user starts it; its memory is what the system counts as its largest, with that of the
process that draws its figures. (On Linux not by getrusage, which counts there what the process that started it had.)
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from perf.clock import processor_s
from perf.many_runs import fill
from pytest_benchmark.fixture import BenchmarkFixture

from bench.compact import compact

pytestmark = [pytest.mark.long, pytest.mark.benchmark(group="report", timer=processor_s)]
RUNS, STEPS = 10_000, 100
MEMORY_BYTES = 10**9
BEFORE_S, AFTER_S = 60.0, 10.0
SCRIPT = """
import resource, sys
from pathlib import Path
from bench.report.page import write
written = write(Path(sys.argv[1]), Path(sys.argv[2]))
assert not written.damaged
unit = 1 if sys.platform == "darwin" else 1024
own, drawing = (resource.getrusage(who).ru_maxrss * unit for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
status = Path("/proc/self/status")
if status.exists():
    own = next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
print(own + drawing)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "results"
    fill(folder, RUNS, STEPS)
    return folder


def timed(benchmark: BenchmarkFixture, cost: list[tuple[str, str]], what: str, results: Path, out: Path) -> float:
    """The seconds that a report took, its memory asserted; time, processor time, memory and the load stand in the table."""
    peaks: list[int] = []

    def report() -> None:
        command = [sys.executable, "-c", SCRIPT, str(results), str(out)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

    before, load, began_s = os.times(), os.getloadavg()[0], time.perf_counter()
    benchmark.pedantic(report, rounds=1)
    wall_s, after = time.perf_counter() - began_s, os.times()
    cpu_s = after.children_user - before.children_user + after.children_system - before.children_system
    benchmark.extra_info |= {"peak_bytes": max(peaks), "cpu_s": round(cpu_s, 2), "load": round(load, 1)}
    figure = f"{wall_s:.1f} s, of them {cpu_s:.1f} s of processor; {max(peaks) / 1e6:,.0f} MB; load before {load:.1f}"
    cost.append((f"report on {RUNS:,} runs and {RUNS * STEPS:,} steps, {what}", figure))
    assert max(peaks) < MEMORY_BYTES
    return wall_s


def test_the_report_before_compact(
    benchmark: BenchmarkFixture, cost: list[tuple[str, str]], results: Path, tmp_path: Path
) -> None:
    assert timed(benchmark, cost, "a file each", results, tmp_path / "before") < BEFORE_S


def test_the_report_after_compact_says_the_same_sooner(
    benchmark: BenchmarkFixture, cost: list[tuple[str, str]], results: Path, tmp_path: Path
) -> None:
    began_s = time.perf_counter()
    done = compact(results)
    cost.append((f"compact of {2 * RUNS:,} files", f"{time.perf_counter() - began_s:.0f} s"))
    assert [each.files_after for each in done.folders] == [1] * 4
    assert timed(benchmark, cost, "compacted", results, tmp_path / "after") < AFTER_S
