"""Watts and joules: always with their scope, never of two scopes in one figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.report.beside import here
from bench.report.document import Section, Sketch, Table
from bench.report.energy import energy
from bench.report.findings import gather

Row = Callable[..., dict[str, Any]]


def made(*rows: dict[str, Any]) -> Section | None:
    return energy(gather(pd.DataFrame(list(rows)), pd.DataFrame()))


def section(*rows: dict[str, Any]) -> Section:
    found = made(*rows)
    assert found is not None
    return found


def entries(table: Table, row: int = 0) -> dict[str, str]:
    return {heading: cell.text for (heading, _), cell in zip(table.columns, table.rows[row], strict=True)}


def test_without_power_there_is_no_section(run_row: Row, old_row: Row) -> None:
    assert made(run_row(), old_row(index=1, method="full")) is None


def test_a_cell_tells_watts_scope_and_joules_gross_and_above_idle(powered_row: Row) -> None:
    told = entries(section(powered_row(index=0), powered_row(index=1)).tables[0])
    assert (told["scope"], told["mean power"], told["clean runs"]) == ("soc", "100 W", "2")
    assert (told["J per token"], told["J per token above idle"]) == ("0.250", "0.225")
    assert told["95% interval"] == "0.250 – 0.250"


def test_a_run_tells_both_ways_of_measuring_and_what_spoils_them(powered_row: Row) -> None:
    told = entries(section(powered_row(flags=["short-energy-window", "untracked-memory"])).tables[1])
    assert (told["peak power"], told["idle power"], told["window"]) == ("120 W", "10.0 W", "51.2 s")
    assert (told["energy by counter, J"], told["energy by integral, J"], told["difference"]) == ("5,120", "5,020", "+2.0%")
    assert told["flags that spoil it"] == "short-energy-window"
    assert "wall meter: power" not in told


def test_spoilt_energy_is_shown_by_run_and_in_no_mean(powered_row: Row) -> None:
    found = section(powered_row(flags=["short-energy-window"]))
    assert entries(found.tables[0])["J per token"] == ""
    assert entries(found.tables[1])["J per token"] == "0.250"


def test_scopes_are_explained_drawn_apart_and_not_pooled(powered_row: Row) -> None:
    card = powered_row(300.0, machine="pc-rtx-4090", backend="hf")
    found = section(powered_row(index=0), powered_row(index=1, power_scope="wall"), card)
    assert "gpu-board: the whole board" in found.texts[1]
    rows = [entries(found.tables[0], row) for row in range(2)]
    told = {row["scope"]: row["J per token"] for row in rows}
    assert told == {"gpu-board": "0.750", "soc or wall": ""}
    assert isinstance(found.figure, Sketch)
    drawn = here(found.figure)()
    assert drawn is not None
    assert drawn.title.endswith(": gpu-board, soc, wall")
    assert "in a panel per method and scope" in drawn.svg


def test_a_wall_meter_stands_apart_with_its_own_scope(run_row: Row) -> None:
    found = section(run_row(wall_power_w=210.0, wall_energy_j=2100.0))
    told = entries(found.tables[1])
    assert (told["wall meter: power"], told["wall meter: energy, J"]) == ("210 W", "2,100")
    assert "wall: everything behind the plug" in found.texts[1]
    assert "not recorded" not in found.texts[1]
    assert isinstance(found.figure, Sketch)
    assert here(found.figure)() is None


def test_watts_without_a_scope_are_labelled_as_such(powered_row: Row) -> None:
    assert entries(section(powered_row(power_scope=None)).tables[0])["scope"] == "not recorded"


def test_zero_is_shown_as_zero_and_a_stand_in_has_no_watts_of_a_cell(powered_row: Row) -> None:
    assert entries(section(powered_row(0.0, power_scope="soc")).tables[1])["mean power"] == "0 W"
    assert section(powered_row(tier="stand-in")).tables[0].rows == ()
