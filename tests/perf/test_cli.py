"""What it costs to start the command line, against bare Python, in one session."""

import statistics
import subprocess
import sys
import time

from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 15


def seconds(code: str) -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began_s


def test_importing_the_command_line_costs_little(benchmark: BenchmarkFixture) -> None:
    bare_s = [seconds("pass") for _ in range(ROUNDS)]
    benchmark.pedantic(lambda: seconds("import bench.cli"), rounds=ROUNDS)
    cost_s = benchmark.stats.stats.median - statistics.median(bare_s)
    benchmark.extra_info["over_bare_python_s"] = round(cost_s, 4)
    assert cost_s < 0.5


def test_asking_for_help_costs_little(benchmark: BenchmarkFixture) -> None:
    benchmark.pedantic(
        lambda: subprocess.run([sys.executable, "-m", "bench", "--help"], check=True, capture_output=True), rounds=5
    )
