"""Figures by a process beside this one: the same bytes, and drawn here whatever becomes of that process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
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


def test_what_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]) -> None:
    monkeypatch.setattr(beside, "ANSWER_S", 0.2)
    with beside.beside("en") as draw:
        started[0].send_signal(signal.SIGSTOP)
        assert [draw(CLAIMS)(), draw(CLAIMS)()] == [beside.here(CLAIMS)()] * 2


@pytest.mark.parametrize("printed", ["hello", "N.", "", "x" * 100_000])
def test_what_a_site_prints_at_its_start_is_no_figure(printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os\nprint({printed!r}, flush=True)\nos.write(2, b'noise')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = [beside.here(Sketch("claims", ([judged(value=value)],)))() for value in (18.0, 19.0)]
    monkeypatch.setattr(beside, "here", None)
    with beside.beside("en") as draw:
        promises = [draw(Sketch("claims", ([judged(value=value)],))) for value in (18.0, 19.0)]
        assert [promise() for promise in promises] == expected


def test_the_process_imports_what_this_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_there: None) -> None:
    """Neither a user's `random.py` where the report is started nor one further down the path stands before Python's own."""
    for folder in (tmp_path / "here", tmp_path / "there"):
        folder.mkdir()
        (folder / "random.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "there")])
    with beside.beside("en") as draw:
        assert draw(CLAIMS)() is not None


def test_without_a_thread_to_wait_with_it_is_drawn_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **more: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(beside.ThreadPoolExecutor, "submit", refused)
    with beside.beside("en") as draw:
        assert draw(CLAIMS)() == beside.here(CLAIMS)()


@pytest.mark.parametrize("executable", [None, "", "/no/python"])
def test_without_an_interpreter_of_its_own_it_is_drawn_here(executable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with beside.beside("en") as draw:
        assert draw(CLAIMS)() == beside.here(CLAIMS)()


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
