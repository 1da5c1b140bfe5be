"""A report that is kept in a repository: stale where the results say something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report import kept
from bench.report.page import write
from bench.spec import BadInput


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on an empty folder of results, without the page, as git keeps it."""
    folder = tmp_path_factory.mktemp("kept")
    write(folder / "results", folder / "out")
    (folder / "out/lesson.html").unlink()
    return folder


def test_what_is_as_it_would_be_written_passes_and_nothing_is_written(report: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in report.rglob("*")}
    kept.refuse_stale(report / "results", report / "out")
    assert {path: path.stat().st_mtime_ns for path in report.rglob("*")} == before


def test_of_a_figure_its_text_counts_and_not_how_it_is_drawn(report: Path) -> None:
    figure = report / "out/figures/winners.svg"
    drawn = figure.read_text()
    try:
        figure.write_text(drawn.replace(" 0 0 ", " 1 0 ").replace("#ffffff", "#fffffe"))
        assert figure.read_text() != drawn
        kept.refuse_stale(report / "results", report / "out")
        figure.write_text(drawn.replace("A map of 72 fields", "A map of 71 fields"))
        with pytest.raises(BadInput, match=r"today: figures/winners\.svg; "):
            kept.refuse_stale(report / "results", report / "out")
    finally:
        figure.write_text(drawn)


def test_a_changed_a_missing_and_a_left_over_file_are_named_with_the_remedy(report: Path) -> None:
    out = report / "out"
    twin, figure, left = out / "lesson.md", out / "figures/reach.svg", out / "figures/energy.svg"
    text, drawn = twin.read_text(), figure.read_text()
    try:
        twin.write_text(text + "more\n")
        figure.unlink()
        left.write_text("<svg/>")
        with pytest.raises(BadInput) as caught:
            kept.refuse_stale(report / "results", out)
    finally:
        twin.write_text(text)
        figure.write_text(drawn)
        left.unlink()
    assert "today: figures/energy.svg, figures/reach.svg, lesson.md; `wingspan report --results" in str(caught.value)
    kept.refuse_stale(report / "results", out)
