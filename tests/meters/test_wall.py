"""What a smart plug's logger writes, aligned by the time of day; and every file that is refused, with the place of its fault."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.meters.wall import check_wall_meter, read_wall_meter
from bench.record import Reading
from bench.spec import BadInput

START = datetime(2026, 11, 30, 2, 15, tzinfo=UTC)
UNIX_S = 1_796_004_900
ORIGIN = (500.0, START)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meter.csv"


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


def read(path: Path, seconds: float = 10.0) -> list[Reading]:
    return read_wall_meter(path, START, START + timedelta(seconds=seconds), ORIGIN)


def test_the_example_is_right() -> None:
    assert START.timestamp() == UNIX_S


def test_power_by_iso_time(path: Path) -> None:
    write(path, "time,power_w", "2026-11-30T02:15:01Z,310.5", "2026-11-30T03:15:02.250+01:00,312", "2026-11-30T02:15:03Z,0")
    found = read(path)
    assert [(each.t_s, each.value) for each in found] == [(501.0, 310.5), (502.25, 312.0), (503.0, 0.0)]
    assert {(each.meter, each.scope, each.quantity, each.unit) for each in found} == {("wall-meter", "wall", "power", "W")}


@pytest.mark.parametrize(("column", "unit_j"), [("energy_j", 1.0), ("energy_wh", 3600.0), ("energy_kwh", 3.6e6)])
def test_energies_become_joules(path: Path, column: str, unit_j: float) -> None:
    write(path, f"{column}, time", f" 12.5 , {UNIX_S + 1}", f"12.75,{UNIX_S + 2}.5")
    found = read(path)
    assert [(each.t_s, each.value) for each in found] == [(501.0, 12.5 * unit_j), (502.5, 12.75 * unit_j)]
    assert {(each.quantity, each.unit) for each in found} == {("energy", "J")}


def test_one_row_more_on_either_side(path: Path) -> None:
    write(path, "time,power_w", *(f"{UNIX_S + second},{100 + second}" for second in range(-5, 30)))
    assert [each.t_s for each in read(path)] == [500.0 + second for second in range(-1, 12)]


def test_the_origin_is_where_the_clocks_meet(path: Path) -> None:
    write(path, "time,power_w", f"{UNIX_S + 1},100")
    later = (7.0, START + timedelta(seconds=3))
    assert read_wall_meter(path, START, START + timedelta(seconds=5), later)[0].t_s == 5.0


def test_marks_line_ends_and_blank_lines_of_other_programs(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbftime,power_w\r\n" + f'{UNIX_S + 1},"100"\r\n\r\n{UNIX_S + 2},101\r\n'.encode())
    assert [each.value for each in read(path)] == [100.0, 101.0]


@pytest.mark.parametrize("tail", ["1", f"{UNIX_S + 3},1", f'{UNIX_S + 3},"1', f"{UNIX_S + 3},103", "\xe9"])
def test_a_last_line_that_is_still_being_written_is_passed_over(path: Path, tail: str) -> None:
    """Even where it could be read: 103 may become 103.5 or 1030."""
    write(path, "time,power_w", f"{UNIX_S + 1},101", f"{UNIX_S + 2},102", tail, end="")
    check_wall_meter(path)
    assert [each.value for each in read(path)] == [101.0, 102.0]


def test_a_logger_that_has_just_begun_passes_the_check(path: Path) -> None:
    check_wall_meter(write(path, "time,power_w"))


def test_nothing_in_the_run_is_said_as_such(path: Path) -> None:
    write(path, "time,power_w", f"{UNIX_S - 60},101", f"{UNIX_S - 59},102")
    check_wall_meter(path)
    with pytest.raises(BadInput, match=r"no row between .*its last is of 2026-11-30T02:14:01Z: is the logger running\?"):
        read(path)
    with pytest.raises(BadInput, match="it has none"):
        read(write(path, "time,power_w"))


T1, T2 = f"{UNIX_S + 1}", f"{UNIX_S + 2}"


@pytest.mark.parametrize(
    ("lines", "place", "said"),
    [
        ([""], "line 1", "no header"),
        (["time,volts", f"{T1},230"], "line 1", 'unknown column "volts"; use one of time, power_w'),
        (["time,power_W"], "line 1", 'did you mean "power_w"?'),
        (["time;power_w", f"{T1};1"], "line 1", "joined by a comma"),
        (["power_w", "1"], "line 1", "the first line is time and one of"),
        (["time", T1], "line 1", "the first line is time and one of"),
        (["time,power_w,energy_j"], "line 1", "columns time, power_w, energy_j"),
        (["time,time,power_w"], "line 1", "columns time, time, power_w"),
        (["time,power_w,power_w"], "line 1", "columns time, power_w, power_w"),
        (["time,power_w", f"{T1},12,5"], "line 2", "decimals take a point"),
        (["time,power_w", T1], "line 2", "1 values for 2 columns"),
        (["time,power_w", "2026-11-30T02:15:01,5"], "line 2, column time", "without its zone; add Z"),
        (["time,power_w", "yesterday,5"], "line 2, column time", '"yesterday" is no time; write it like'),
        (["time,power_w", ",5"], "line 2, column time", "no time"),
        (["time,power_w", f"{UNIX_S}000,5"], "line 2, column time", "Unix time in seconds"),
        (["time,power_w", "12.25,5"], "line 2, column time", "no time from 2000 to 2100"),
        (["time,power_w", "nan,5"], "line 2, column time", "no time"),
        (["time,power_w", f"{T1},5", f"{T2},N/A"], "line 3, column power_w", '"N/A" is no number'),
        (["time,power_w", f"{T1},nan"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T1},inf"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T1},1e999"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T1},1_000"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T1},-3"], "line 2, column power_w", "no number from 0 to"),
        (["time,power_w", f"{T1},1e308"], "line 2, column power_w", "no number from 0 to"),
        (["time,power_w", f"{T1},"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T1},\x1b[31m5"], "line 2, column power_w", "no number"),
        (["time,power_w", f"{T2},5", f"{T1},5"], "line 3, column time", "an earlier time than the line before"),
        (["time,power_w", f"{T1},5", f"{T1},6"], "line 3, column time", "the same time as the line before"),
        (["time,power_w", f'{T1},"5', f"{T2},5"], "", "not valid CSV"),
    ],
)
def test_ill_formed_files(path: Path, lines: list[str], place: str, said: str) -> None:
    write(path, *lines)
    for use in (check_wall_meter, read):
        with pytest.raises(BadInput) as raised:
            use(path)
        message = str(raised.value)
        assert message.startswith(": ".join(part for part in (str(path), place) if part) + ": ")
        assert said in message
        assert not re.search(r"[\x00-\x08\x0b-\x1f]", message)


def test_bytes_that_are_no_text(path: Path) -> None:
    path.write_bytes(f"time,power_w\n{T1},5\n{T2},\xff\n".encode("latin-1"))
    with pytest.raises(BadInput, match="line 3: not UTF-8"):
        check_wall_meter(path)


def test_files_that_are_none(path: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"meter\.csv: cannot be read: No such file.*; start the meter's logger first"):
        check_wall_meter(path)
    with pytest.raises(BadInput, match="it is a folder"):
        check_wall_meter(tmp_path)
    os.mkfifo(path)
    with pytest.raises(BadInput, match="it is no regular file"):
        check_wall_meter(path)
    path.unlink()
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="line 1: no header"):
        check_wall_meter(path)
