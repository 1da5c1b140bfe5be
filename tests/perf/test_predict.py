"""Predicting: one cell by rules and by the trace of its step, and the lesson's whole grid by rules on both of its machines."""

from itertools import count
from pathlib import Path

import pytest
from perf.clock import processor_s
from pytest_benchmark.fixture import BenchmarkFixture

from bench.catalog import catalogue
from bench.holes import refusal
from bench.machine import catalogue_machine
from bench.plan import plan
from bench.predict import rules
from bench.predict.answer import foreteller, traced
from bench.spec import Cell, workload
from bench.suite import read_suite

pytestmark = pytest.mark.benchmark(group="predict", timer=processor_s, max_time=5)
MACHINES = ("pc-rtx-4090", "mac-studio-m3-ultra")


def test_a_cells_memory_in_closed_form(benchmark: BenchmarkFixture) -> None:
    cell = Cell(workload(model=catalogue().models["llama-3.1-8b"], method="qlora"), "hf", "cuda")
    assert benchmark(rules.memory, cell).peak_bytes > 6e9


def test_the_lessons_grid_on_both_machines(benchmark: BenchmarkFixture) -> None:
    suite = read_suite("lesson")

    def both() -> int:
        planned = (
            plan(suite, machine, {}, capabilities=refusal, foretell=foreteller(machine))
            for machine in map(catalogue_machine, MACHINES)
        )
        return sum(entry.prediction is not None for each in planned for entry in each.entries)

    assert benchmark(both) == 144


def test_a_cells_memory_by_its_trace(benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, which imports the framework; without the traces that are kept from earlier."""
    cell = Cell(workload(model=catalogue().models["llama-3.1-8b"], method="qlora"), "hf", "cuda")
    folders = count()

    def forget() -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(next(folders))))

    found = benchmark.pedantic(lambda: traced(cell), setup=forget, rounds=3, warmup_rounds=1)
    assert found.peak_bytes > 6e9
