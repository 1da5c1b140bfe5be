"""What the runs of a cell together say of its fit."""

from __future__ import annotations

import pytest
from claim_rows import rows, runs

from bench.claims.tried import stands_for, tried


def found(*groups):
    return tried(runs(*groups).frame)


@pytest.mark.parametrize(
    ("outcomes", "chance"),
    [
        (["ok", "ok"], 1.0),
        (["oom_device", "oom_device"], 0.0),
        (["ok", "oom_device"], 0.5),
        (["crashed", "ok"], 1.0),
        (["crashed"], None),
    ],
)
def test_runs_of_a_cell_speak_together(outcomes, chance):
    made = rows("pc-rtx-4090", [1.0] * len(outcomes))
    for row, outcome in zip(made, outcomes, strict=True):
        row["outcome"] = outcome
    (cell,) = found(made)
    assert cell.chance == chance
    assert len(cell.run_ids) == len(outcomes)


@pytest.mark.parametrize("flag", ["foreign-process", "foreign-unknown"])
def test_memory_that_others_had_says_nothing(flag):
    (cell,) = found(rows("pc-rtx-4090", [1.0], outcome="oom_device", flags=[flag]))
    assert cell.chance is None


def test_room_counts_neither_main_memory_nor_runs_that_are_not_clean():
    made = rows("pc-rtx-4090", [1.0, 1.0], framework_peak_bytes=10e9, host_peak_bytes=60e9, capacity_bytes=25e9)
    made[1] |= {"outcome": "invalid", "framework_peak_bytes": 24e9}
    (cell,) = found(made)
    assert cell.headroom == pytest.approx(0.6)


def test_room_is_what_the_largest_of_all_peaks_left():
    made = rows("pc-rtx-4090", [1.0, 1.0], framework_peak_bytes=10e9, device_peak_bytes=20e9, capacity_bytes=25e9)
    made[1]["device_peak_bytes"] = 15e9
    (cell,) = found(made)
    assert cell.headroom == pytest.approx(0.2)
    (unknown,) = found(rows("pc-rtx-4090", [1.0]))
    assert unknown.headroom is None


def test_each_cell_of_each_machine_by_itself():
    both = found(rows("pc-rtx-4090", [1.0]), rows("pc-rtx-4090", [1.0], backend="unsloth"), rows("mac-studio-m3-ultra", [1.0]))
    assert [(each.machine, each.backend) for each in both] == [
        ("mac-studio-m3-ultra", "mlx"),
        ("pc-rtx-4090", "hf"),
        ("pc-rtx-4090", "unsloth"),
    ]


def test_whom_runs_speak_of():
    assert stands_for("measured", "box [abcdef]") == ("measured", "box")
    assert stands_for("stand-in, held to 25.4 GB as pc-rtx-4090", "h200") == ("stand-in", "pc-rtx-4090")
    assert stands_for("measured", "pc-rtx-4090 [of my cousin") == ("measured", "pc-rtx-4090 [of my cousin")
    assert [stands_for(tier, "box") for tier in ("stand-in", "predicted", "published", "bogus")] == [None] * 4
