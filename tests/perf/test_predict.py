"""Predicting by rules: one cell, and the lesson's whole grid on both of its machines."""

from pytest_benchmark.fixture import BenchmarkFixture

from bench.catalog import catalogue
from bench.machine import catalogue_machine
from bench.plan import plan, refusal
from bench.predict import rules
from bench.predict.answer import foreteller
from bench.spec import Cell, workload
from bench.suite import read_suite

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
