"""What asv is told of each cell; that asv itself takes it so is seen in tests/ledger/test_dashboard.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from asv_runner.benchmarks.mark import SkipNotImplemented
from nightly_rows import CELLS, MakeRun, fill, label

from bench.asv_bench.cells import Cells
from bench.ledger import asked
from bench.ledger.nights import FIGURES


@pytest.fixture
def cells(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Cells:
    fill(tmp_path, make_run, [0], repeats=2)
    fill(tmp_path, make_run, [1], CELLS[:1], repeats=1)
    for name, value in ((asked.RESULTS, tmp_path), (asked.MACHINE, "box"), (asked.NIGHT, label(0))):
        monkeypatch.setenv(name, str(value))
    asked.known.cache_clear()
    return Cells()


def test_one_benchmark_per_figure_pinned_by_name_version_and_unit() -> None:
    tracks = {name: track for name, track in vars(Cells).items() if name.startswith("track_")}
    assert tracks.keys() == {f"track_{name}" for name in FIGURES}
    for name, track in tracks.items():
        assert (track.benchmark_name, track.version) == (name, "1")
        assert track.unit == FIGURES[name.removeprefix("track_")].unit


def test_samples_of_the_night(cells: Cells) -> None:
    assert cells.params == (CELLS,)
    cells.setup(CELLS[1])
    assert cells.track_ms_per_1000_tokens(CELLS[1]) == {"samples": [pytest.approx(1000.0), pytest.approx(1001.0)], "number": 1}
    assert cells.track_host_peak_gib(CELLS[1]) == {"samples": [2.0, 2.0], "number": 1}
    assert cells.track_time_to_first_step_s(CELLS[1])["samples"] == [1.75, 1.75]


def test_a_figure_that_was_not_measured_is_skipped(cells: Cells) -> None:
    cells.setup(CELLS[0])
    for track in (cells.track_framework_peak_gib, cells.track_device_peak_gib, cells.track_j_per_1000_tokens):
        with pytest.raises(SkipNotImplemented):
            track(CELLS[0])


def test_a_cell_that_did_not_run_is_skipped(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(asked.NIGHT, label(1))
    with pytest.raises(NotImplementedError):
        cells.setup(CELLS[1])
