"""What a step of the worker costs the parent that watches it: reading the event, and keeping and storing the step."""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.provenance import Provenance
from bench.record import Machine, Run
from bench.spec import Cell, Measure
from bench.sweep.interrupt import catch_interrupts
from bench.sweep.measuring import Measuring
from bench.sweep.rows import Context

pytestmark = pytest.mark.benchmark(group="parent", timer=process_time)
STEPS = 2000


@pytest.fixture
def measured(machine: Machine, tmp_path: Path) -> Iterator[Callable[[Cell], Run]]:
    """Measure a cell of one step of warm-up and `STEPS` more through the whole harness, without meters."""
    context = Context("perf", "What does a step cost?", machine, Provenance("abc", "feed", {"python": "3.11"}))
    measure = Measure(warmup_steps=1, warmup_max_steps=1, steps=STEPS, event_timeout_s=60)
    lock = tmp_path / "lock"
    with lock.open("w") as held, catch_interrupts() as interrupt:
        sweep = Measuring(
            context, tmp_path / "results", measure, interrupt, held.fileno(), lambda _: None, lambda _: None, meters=False
        )
        yield sweep.run


def test_what_steps_cost_the_parent(
    benchmark: BenchmarkFixture, measured: Callable[[Cell], Run], fake_cell: Callable[..., Cell], cost: list[tuple[str, str]]
) -> None:
    cell = fake_cell(step_s=0.0002)
    run = benchmark.pedantic(lambda: measured(cell), rounds=7, warmup_rounds=1)
    assert (run.outcome, run.steps) == ("ok", STEPS + 1)
    cost.append(("the parent's processor time per step of the worker", f"{benchmark.stats.stats.median / STEPS * 1e6:.0f} µs"))
