"""Energy per token drawn: a panel for each scope, and nothing where nothing was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench import analysis
from bench.report.figures.energy import energy

Row = Callable[..., dict[str, Any]]


def prepared(*rows: dict[str, Any]) -> pd.DataFrame:
    runs = analysis.prepare(pd.DataFrame(list(rows)))
    return runs.assign(scope=runs["power_scope"])


def test_each_scope_has_a_panel_and_stands_in_the_title(powered_row: Row) -> None:
    drawn = energy(prepared(powered_row(index=0), powered_row(index=1, power_scope="wall")))
    assert drawn is not None
    assert drawn.title == "Energy per token by backend and workload: soc, wall"
    assert "Dot plot of 2 runs of 1 cell in a panel per method and scope, from 0.250 to 0.250 joules per token" in drawn.svg


def test_without_joules_there_is_no_figure(run_row: Row) -> None:
    assert energy(prepared(run_row())) is None
