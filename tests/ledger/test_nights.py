"""The figures of a night, its cells and machines, from runs in any order."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from nightly_rows import CELLS, MakeRun, fill, label, stored_run

from bench import store
from bench.ledger import stored
from bench.ledger.nights import FIGURES, Night, nights_of

FIRST = label(0)


def nights(results: Path, *runs) -> tuple[Night, ...]:
    for run in runs:
        store.append(results, run)
    return stored.read(results).nights


def test_every_figure_is_the_better_the_lower(tmp_path: Path, make_run: MakeRun) -> None:
    run = stored_run(
        make_run,
        FIRST,
        CELLS[0],
        tokens_per_s=500.0,
        framework_peak_bytes=3 * 2**30,
        device_peak_bytes=4 * 2**30,
        j_per_token=0.25,
    )
    (night,) = nights(tmp_path, run)
    assert night.cells[CELLS[0]].samples == {
        "ms_per_1000_tokens": (2000.0,),
        "framework_peak_gib": (3.0,),
        "device_peak_gib": (4.0,),
        "host_peak_gib": (2.0,),
        "j_per_1000_tokens": (250.0,),
        "time_to_first_step_s": (1.75,),
    }


def test_what_was_not_measured_has_no_sample(tmp_path: Path, make_run: MakeRun) -> None:
    (night,) = nights(tmp_path, stored_run(make_run, FIRST, CELLS[0], tokens_per_s=0.0, host_peak_bytes=None, load_s=None))
    assert night.cells[CELLS[0]].samples == dict.fromkeys(FIGURES, ())
    assert night.cells[CELLS[0]].failed == ""


def test_runs_that_a_flag_spoils_are_left_out(tmp_path: Path, make_run: MakeRun) -> None:
    spoilt = stored_run(make_run, FIRST, CELLS[0], 1, flags=("thermal_throttling",), tokens_per_s=1.0)
    (night,) = nights(tmp_path, stored_run(make_run, FIRST, CELLS[0]), spoilt)
    assert night.cells[CELLS[0]].samples["ms_per_1000_tokens"] == (1000.0,)


def test_a_cell_fails_where_no_run_ended_ok(tmp_path: Path, make_run: MakeRun) -> None:
    broken = {"outcome": "crashed", "reason": "segmentation fault", "tokens_per_s": None}
    (night,) = nights(
        tmp_path,
        stored_run(make_run, FIRST, CELLS[0], 0, **broken),
        stored_run(make_run, FIRST, CELLS[0], 1, outcome="interrupted", tokens_per_s=None),
        stored_run(make_run, FIRST, CELLS[1], 0, **broken),
        stored_run(make_run, FIRST, CELLS[1], 1),
    )
    assert night.cells[CELLS[0]].failed == "crashed: segmentation fault"
    assert night.cells[CELLS[1]].failed == ""


def test_runs_of_no_night_are_none_of_ours(tmp_path: Path, make_run: MakeRun) -> None:
    run = stored_run(make_run, FIRST, CELLS[0])
    assert nights(tmp_path, replace(run, night=None), replace(run, run_id="other", night="someday")) == ()


def test_order_of_rows_and_copies_change_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    fill(tmp_path, make_run, range(2))
    rows = store.read(tmp_path, "runs").rows.to_pandas()
    told = nights_of(rows, {})
    assert nights_of(rows.sample(frac=1, random_state=1), {}) == told
    assert nights_of(rows.iloc[[*range(len(rows)), 0, 3]], {}) == told
    assert [(each.label, each.machine) for each in told] == [(label(0), "box"), (label(1), "box")]


def test_joules_of_another_scope_are_left_out(tmp_path: Path, make_run: MakeRun) -> None:
    told = nights(
        tmp_path,
        stored_run(make_run, label(0), CELLS[0], j_per_token=9.0, power_scope="wall"),
        stored_run(make_run, label(1), CELLS[0], j_per_token=0.5, power_scope="gpu-board"),
    )
    assert [each.cells[CELLS[0]].samples["j_per_1000_tokens"] for each in told] == [(), (500.0,)]


def test_cells_that_share_an_id_stay_apart_and_the_first_keeps_it(tmp_path: Path, make_run: MakeRun) -> None:
    first, second = nights(
        tmp_path,
        stored_run(make_run, label(0), CELLS[0], cell_key="a" * 16),
        stored_run(make_run, label(1), CELLS[0], 0, cell_key="b" * 16),
        stored_run(make_run, label(1), CELLS[0], 1, cell_key="a" * 16),
        stored_run(make_run, label(1), CELLS[1], tier="stand-in"),
    )
    assert set(first.cells) == {CELLS[0]}
    assert set(second.cells) == {CELLS[0], f"{CELLS[0]} #bbbbbbbb", f"{CELLS[1]} (stand-in)"}


def test_a_machine_is_called_as_it_was_last(tmp_path: Path, make_run: MakeRun) -> None:
    told = nights(
        tmp_path,
        stored_run(make_run, label(0), CELLS[0], machine="old name"),
        stored_run(make_run, label(1), CELLS[0], machine="a/b"),
    )
    assert [each.machine for each in told] == ["a%2Fb", "a%2Fb"]


def test_two_machines_of_one_name_are_told_apart(tmp_path: Path, make_run: MakeRun) -> None:
    told = nights(
        tmp_path,
        stored_run(make_run, FIRST, CELLS[0], 0, machine_id="0123456789"),
        stored_run(make_run, FIRST, CELLS[0], 1, machine_id="9876543210"),
    )
    assert [each.machine for each in told] == ["box [012345]", "box [987654]"]


@pytest.mark.parametrize("rate", [math.nan, math.inf])
def test_a_rate_that_is_no_number_is_no_sample(tmp_path: Path, make_run: MakeRun, rate: float) -> None:
    (night,) = nights(tmp_path, stored_run(make_run, FIRST, CELLS[0], tokens_per_s=rate))
    assert night.cells[CELLS[0]].samples["ms_per_1000_tokens"] == ()
