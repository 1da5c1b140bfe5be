"""What it costs to start the command line, against bare Python, in one session."""

import statistics
import subprocess
import sys

import pytest
from perf.clock import processor_s
from pytest_benchmark.fixture import BenchmarkFixture

pytestmark = pytest.mark.benchmark(group="ratio", timer=processor_s)
ROUNDS = 15


def seconds(arguments: list[str]) -> float:
    began_s = processor_s()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return processor_s() - began_s


def over_bare_python_s(benchmark: BenchmarkFixture, command: list[str]) -> float:
    """Median seconds of the command, less those of a Python that does nothing."""
    bare_s = statistics.median(seconds(["-c", "pass"]) for _ in range(ROUNDS))
    benchmark.pedantic(lambda: seconds(command), rounds=ROUNDS)
    cost_s: float = benchmark.stats.stats.median - bare_s
    benchmark.extra_info["over_bare_python_s"] = round(cost_s, 4)
    return cost_s


def test_importing_the_command_line_costs_little(benchmark: BenchmarkFixture) -> None:
    assert over_bare_python_s(benchmark, ["-c", "import bench.cli"]) < 0.5


def test_asking_for_help_costs_little(benchmark: BenchmarkFixture) -> None:
    assert over_bare_python_s(benchmark, ["-m", "bench", "--help"]) < 0.5
