"""Planning the whole grid of the lesson."""

from dataclasses import replace

from pytest_benchmark.fixture import BenchmarkFixture

from bench.machine import catalogue_machine
from bench.plan import plan, refusal
from bench.suite import read_suite


def test_the_lessons_grid_is_planned_at_once(benchmark: BenchmarkFixture) -> None:
    suite, machine = read_suite("lesson"), replace(catalogue_machine("pc-rtx-4090"), devices=("cuda", "metal", "cpu"))
    planned = benchmark(lambda: plan(suite, machine, {}, capabilities=refusal))
    assert len(planned.entries) == 72
