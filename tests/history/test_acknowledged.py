"""acknowledged.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from bench.history.acknowledged import AckMetric, Acknowledgement, Shift, matches, read_acknowledged, snippet
from bench.history.findings import OUTCOME
from bench.history.series import GATED
from bench.reading.strict import BadFile

ROW = """
[[acknowledged]]
machine = "box"
cell = "tiny/lora/hf@cpu"
metric = "tokens_per_s"
night = "2026-01-15"
reason = "known upstream"
"""
SAID = Acknowledgement("box", "tiny/lora/hf@cpu", "tokens_per_s", "2026-01-15", "known upstream")
NIGHTS = [f"2026-01-{day:02}" for day in range(1, 29)]


def shift(**changed):
    own = {"machines": ("box",), "machine_id": "0123456789ab", "suite": "nightly", "cells": ("tiny/lora/hf@cpu",)}
    own |= {"metric": "tokens_per_s", "night": "2026-01-15", "ratio": 0.9, "nights": NIGHTS}
    return Shift(**{**own, **changed})


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "acknowledged.toml"
        path.write_text(text)
        return path

    return write


def faults(path: Path) -> list[str]:
    with pytest.raises(BadFile) as error:
        read_acknowledged(path)
    return [str(problem).removeprefix(f"{path}: ") for problem in error.value.problems]


def test_what_the_file_says(written):
    assert read_acknowledged(written(ROW)) == (SAID,)
    (full,) = read_acknowledged(written(ROW + 'suite = "nightly"\nratio = 0.9\n'))
    assert (full.suite, full.ratio) == ("nightly", 0.9)
    assert read_acknowledged(written("")) == ()


def test_a_date_of_toml_is_a_night_too(written):
    assert read_acknowledged(written(ROW.replace('"2026-01-15"', "2026-01-15"))) == (SAID,)


def test_every_fault_at_once(written):
    text = ROW.replace("machine", "machin").replace("tokens_per_s", "tokens_per_second").replace("2026-01-15", "15 January")
    found = faults(written(text + "[[acknowledged]]\ncell = 3\nratio = -1\n[other]\nx = 1\n"))
    assert 'acknowledged[0].machin: unknown key; did you mean "machine"?' in found
    assert 'acknowledged[0].metric: unknown metric "tokens_per_second"; did you mean "tokens_per_s"?' in found
    assert 'acknowledged[0].night: give the night as "2026-11-30"' in found
    assert "acknowledged[0].machine: missing; `wingspan regress` prints each shift as it is to be written here" in found
    assert "acknowledged[1].cell: expected a text in quotes, got 3" in found
    assert "acknowledged[1].ratio: -1 is out of range: must be above 0" in found
    assert "acknowledged[1].reason: missing; say why this shift is accepted" in found
    assert "other: unknown key; the file holds [[acknowledged]] tables; use acknowledged" in found


def test_a_reason_that_is_none_is_refused(written):
    assert faults(written(ROW.replace("known upstream", " "))) == [
        "acknowledged[0].reason: empty; say why this shift is accepted, for who wonders next year"
    ]


@pytest.mark.parametrize("number", ["inf", "nan", "-inf"])
def test_a_size_that_is_no_number(written, number):
    assert faults(written(ROW + f"ratio = {number}\n")) == [f"acknowledged[0].ratio: expected a finite number, got {number}"]


def test_one_bracket_too_few(written):
    assert faults(written(ROW.replace("[[acknowledged]]", "[acknowledged]"))) == [
        "acknowledged: expected a list, got a table; write [[acknowledged]] with two brackets"
    ]


def test_what_stands_twice(written):
    assert faults(written(ROW + ROW)) == ["acknowledged[1]: stands twice; keep one of them"]


@pytest.mark.parametrize("night", ["2026-01-15T02:00:00", "2026-01-32", "26-01-15"])
def test_what_is_no_night(written, night):
    assert len(faults(written(ROW.replace('"2026-01-15"', night)))) == 1
    assert len(faults(written(ROW.replace("2026-01-15", night)))) == 1


@pytest.mark.parametrize("content", [b"\xff", b"[[acknowledged]", b"a" * 300_000])
def test_bytes_that_are_no_such_file(tmp_path: Path, content):
    path = tmp_path / "acknowledged.toml"
    path.write_bytes(content)
    assert len(faults(path)) == 1


def test_a_file_that_is_not_there(tmp_path: Path):
    assert faults(tmp_path / "none.toml") == ["cannot be read: No such file or directory"]


def test_the_metrics_are_those_of_the_gate():
    assert get_args(AckMetric) == (*GATED, OUTCOME)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"night": "2026-01-13"},
        {"night": "2026-01-17"},
        {"suite": "other"},
        {"ratio": None},
        {"machines": ("box", "renamed")},
        {"machines": ("box [012345]", "renamed [012345]")},
        {"cells": ("a/lora/hf@cpu", "tiny/lora/hf@cpu")},
        {"night": "2026-01-27", "gradual": True},
        {"nights": [night for night in NIGHTS if night != "2026-01-15"], "night": "2026-01-16"},
    ],
)
def test_it_speaks_of_a_shift_near_its_night(changed):
    assert matches([SAID], [shift(**changed)]) == {0: 0}


@pytest.mark.parametrize(
    "changed",
    [
        {"machines": ("pc",)},
        {"cells": ("tiny/lora/mlx@cpu",)},
        {"metric": "j_per_token"},
        {"night": "2026-01-12"},
        {"night": "2026-01-18"},
        {"nights": NIGHTS[20:], "night": "2026-01-21"},
        {"nights": []},
    ],
)
def test_and_of_no_other(changed):
    assert matches([SAID], [shift(**changed)]) == {}


def test_nights_apart_are_the_series_own_and_not_the_calendars():
    assert matches([SAID], [shift(night="2026-01-24", nights=["2026-01-01", "2026-01-15", "2026-01-24"])]) == {0: 0}


@pytest.mark.parametrize(
    ("accepted", "found", "covered"),
    [(0.95, 0.95, True), (0.95, 0.94, True), (0.95, 0.98, True), (0.95, 0.85, False), (0.95, 1.05, False), (1.1, 1.12, True)],
)
def test_a_shift_far_larger_than_the_accepted_one_is_another(accepted, found, covered):
    said = Acknowledgement(**{**{name: getattr(SAID, name) for name in SAID.__slots__}, "ratio": accepted})
    assert bool(matches([said], [shift(ratio=found)])) is covered


def test_of_several_near_shifts_it_speaks_of_the_nearest_alone():
    near = [shift(night="2026-01-13"), shift(night="2026-01-16"), shift(night="2026-01-17")]
    assert matches([SAID], near) == {0: 1}


def test_two_machines_of_one_name_are_told_apart_by_their_ids():
    said = Acknowledgement("box [ffff00]", SAID.cell, SAID.metric, SAID.night, "x")
    assert matches([said], [shift(), shift(machine_id="ffff00aabbcc")]) == {0: 1}


def test_the_text_to_paste_is_refused_until_the_reason_is_written(written):
    text = snippet("box", "nightly", SAID.cell, SAID.metric, SAID.night, 0.9486)
    assert [fault.split(":")[0] for fault in faults(written(text))] == ["acknowledged[0].reason"]
    (found,) = read_acknowledged(written(text.replace('reason = ""', 'reason = "fine"')))
    assert matches([found], [shift(ratio=0.9486)]) == {0: 0}


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb\x7f", "x]]\n[[y", "é 😀 \u202e"])
def test_names_are_pasted_as_they_are(name):
    text = snippet(name, "s", name, "outcome", "2026-01-15", None)
    (row,) = tomllib.loads(text)["acknowledged"]
    assert (row["machine"], row["cell"], row.get("ratio")) == (name, name, None)
