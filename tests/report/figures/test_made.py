"""Every name of a figure has its maker."""

from judgements import judged

from bench.report.document import FIGURES, Sketch
from bench.report.figures import made
from bench.report.figures.claims import claims


def test_every_figure_that_a_section_may_ask_for_can_be_made() -> None:
    assert set(made._MAKERS) == set(FIGURES)


def test_the_data_of_a_sketch_are_what_its_maker_takes() -> None:
    assert made.made(Sketch("claims", ([judged()],))) == claims([judged()])
