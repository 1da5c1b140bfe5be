"""The drawing process by itself: pairs in, figures out, and an end with its input."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

from judgements import judged

from bench.report.document import Sketch
from bench.report.figures.claims import claims
from bench.report.language import speaking

COMMAND = [sys.executable, "-m", "bench.report.figures"]
CLAIMS = Sketch("claims", ([judged()],))


def answers(given: bytes) -> tuple[list[Any], int]:
    ended = subprocess.run(COMMAND, input=given, capture_output=True, check=False)
    left, found = ended.stdout, []
    while left:
        found.append(pickle.loads(left))
        left = left[len(pickle.dumps(found[-1])) :]
    return found, ended.returncode


def test_each_sketch_is_answered_in_its_language_and_the_end_of_input_is_the_end() -> None:
    found, code = answers(pickle.dumps(("en", CLAIMS)) + pickle.dumps(("fr", CLAIMS)))
    with speaking("fr"):
        french = claims([judged()])
    assert (found, code) == ([claims([judged()]), french], 0)


def test_without_a_sketch_it_just_ends() -> None:
    assert answers(b"") == ([], 0)


def test_a_figure_that_cannot_be_drawn_ends_it_after_those_before() -> None:
    found, code = answers(pickle.dumps(("en", CLAIMS)) + pickle.dumps(("en", Sketch("claims", (7,)))))
    assert (found, code) == ([claims([judged()])], 1)


def test_seaborn_does_without_the_statistics_of_scipy() -> None:
    code = "import sys, bench.report.figures.__main__; import seaborn; print(sys.modules['scipy.stats'], seaborn.__name__)"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout == "None seaborn\n"
