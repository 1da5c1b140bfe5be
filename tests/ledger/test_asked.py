"""Which night asv's benchmarks are asked about, by environment variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nightly_rows import CELLS, MakeRun, fill, label

from bench.ledger import asked


@pytest.fixture(autouse=True)
def results(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path, make_run, [0], repeats=1)
    fill(tmp_path, make_run, [1], CELLS[:1], repeats=1, outcome="timeout", reason="no word for 30 s")
    for name, value in ((asked.RESULTS, tmp_path), (asked.MACHINE, "box"), (asked.NIGHT, label(0))):
        monkeypatch.setenv(name, str(value))
    asked.known.cache_clear()
    return tmp_path


def test_the_cells_are_those_of_all_nights(results: Path, make_run: MakeRun) -> None:
    assert asked.cells() == CELLS
    fill(results, make_run, [0], ["another/lora/hf@cpu"], repeats=1, machine="mac", machine_id="4567")
    assert asked.cells() == CELLS, "read once"
    asked.known.cache_clear()
    assert asked.cells() == ("another/lora/hf@cpu", *CELLS)


def test_what_a_night_saw() -> None:
    assert asked.seen(CELLS[0]).samples["ms_per_1000_tokens"] == (1000.0,)
    with asked.about(**{asked.NIGHT: label(1)}):
        with pytest.raises(asked.CellFailed, match=r"timeout: no word for 30 s"):
            asked.seen(CELLS[0])
        with pytest.raises(NotImplementedError, match="did not run in the night of 2026-11-02"):
            asked.seen(CELLS[1])


def test_a_night_that_is_not_there_names_the_variables() -> None:
    with asked.about(**{asked.NIGHT: "2020-01-01"}), pytest.raises(LookupError, match=r"set WINGSPAN_MACHINE and WINGSPAN_NIGHT"):
        asked.seen(CELLS[0])


def test_variables_are_as_before_after_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(asked.MACHINE)
    with asked.about(**{asked.NIGHT: "x", asked.MACHINE: "y"}):
        assert (os.environ[asked.NIGHT], os.environ[asked.MACHINE]) == ("x", "y")
    assert os.environ[asked.NIGHT] == label(0)
    assert asked.MACHINE not in os.environ
