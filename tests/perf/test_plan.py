"""Planning the whole grid of the lesson."""

from dataclasses import replace

import pytest
from perf.clock import processor_s
from pytest_benchmark.fixture import BenchmarkFixture

from bench.holes import refusal
from bench.machine import catalogue_machine
from bench.plan import plan
from bench.suite import read_suite

pytestmark = pytest.mark.benchmark(group="plan", timer=processor_s, max_time=5)


def test_the_lessons_grid_is_planned_at_once(benchmark: BenchmarkFixture) -> None:
    suite, machine = read_suite("lesson"), replace(catalogue_machine("pc-rtx-4090"), devices=("cuda", "metal", "cpu"))
    planned = benchmark(lambda: plan(suite, machine, {}, capabilities=refusal))
    assert len(planned.entries) == 72
