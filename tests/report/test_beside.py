"""Figures by a process beside this one: the same bytes, and drawn here whatever becomes of that process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from judgements import judged

from bench.catalog import machine_profiles
from bench.report import beside, page
from bench.report.document import Sketch

Row = Callable[..., dict[str, Any]]
CLAIMS = Sketch("claims", ([judged()],))
BROKEN = Sketch("claims", ("no claims",))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that were started to draw while the test ran."""
    processes: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **more: (processes.append(start(*args, **more)), processes[-1])[1])
    yield processes
    assert [process for process in processes if process.poll() is None] == []


@pytest.fixture
def only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be drawn by this process."""

    def refused(sketch: Sketch) -> beside.Promise:
        raise AssertionError(f"{sketch.figure} was drawn here")

    monkeypatch.setattr(beside, "here", refused)


def compose(runs: pd.DataFrame, draw: beside.Draw) -> page.Document:
    return page.compose(runs, pd.DataFrame(), machine_profiles(), draw=draw)


def test_all_figures_of_a_page_are_the_same_from_either_process(
    lesson_runs: pd.DataFrame, powered_row: Row, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = pd.concat([lesson_runs, pd.DataFrame([powered_row(index=90)])], ignore_index=True)
    expected = compose(runs, beside.here)
    monkeypatch.setattr(beside, "here", None)
    with beside.beside("en") as draw:
        assert compose(runs, draw) == expected
    assert [figure.name for figure in expected.figures] == ["memory", "speed", "ratios", "energy"]
    assert len(started) == 1


def test_it_speaks_the_language_of_the_page(only_there: None) -> None:
    with beside.beside("fr") as draw:
        drawn = draw(CLAIMS)()
    assert drawn is not None
    assert drawn.title == "Ce qui était affirmé, et ce qui a été trouvé"


def test_where_no_process_can_be_had_it_is_drawn_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **more: Any) -> None:
        raise PermissionError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with beside.beside("en") as draw:
        assert draw(CLAIMS)() == beside.here(CLAIMS)()


def test_what_a_killed_process_had_still_to_draw_is_drawn_here(started: list[subprocess.Popen[bytes]]) -> None:
    with beside.beside("en") as draw:
        promises = [draw(CLAIMS) for _ in range(3)]
        started[0].kill()
        assert [promise() for promise in promises] == [beside.here(CLAIMS)()] * 3


def test_a_fault_of_a_figure_shows_as_what_it_is_and_costs_no_other_figure() -> None:
    with beside.beside("en") as draw:
        broken, sound = draw(BROKEN), draw(CLAIMS)
        with pytest.raises(AttributeError, match="'str' object has no attribute"):
            broken()
        assert sound() == beside.here(CLAIMS)()


def test_an_interrupted_page_leaves_no_process(started: list[subprocess.Popen[bytes]]) -> None:
    def interrupted() -> None:
        with beside.beside("en") as draw:
            draw(CLAIMS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started[0].returncode is not None


def test_this_process_imports_no_matplotlib_for_a_page() -> None:
    code = (
        "import sys, bench.report.page; print([name for name in ('matplotlib', 'seaborn', 'scipy.stats') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout == "[]\n"
