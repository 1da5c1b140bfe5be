"""The gate over a year of nights: ten cells, six runs each a night."""

from datetime import date
from pathlib import Path

import pytest
from perf.clock import processor_s
from perf.many_runs import NIGHTLY_CELLS, fill_compacted, nightly
from pytest_benchmark.fixture import BenchmarkFixture

from bench.history.gather import gate

pytestmark = pytest.mark.benchmark(group="regress", timer=processor_s)
NIGHTS = 365


def test_a_year_of_nights_is_judged(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    fill_compacted(tmp_path, nightly(NIGHTS))
    found = benchmark.pedantic(lambda: gate(tmp_path, as_of=date(2027, 1, 1)), rounds=5, warmup_rounds=1).verdict
    assert found.red
    assert len({each.track.cell for each in found.series}) == NIGHTLY_CELLS
