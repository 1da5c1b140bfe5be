"""The drawing process by itself: pairs in, figures out, and an end with its input."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from judgements import judged

from bench.report.document import Sketch
from bench.report.figures.claims import claims
from bench.report.language import speaking

CODE = "import sys; from bench.report.figures.process import answer; answer(int(sys.argv[1]))"
CLAIMS = Sketch("claims", ([judged()],))


def answers(folder: Path, given: bytes) -> tuple[list[Any], int]:
    """What it answers, into a file in the place of a pipe, and how it ends."""
    told = folder / "answers"
    with told.open("wb") as file:
        command = [sys.executable, "-c", CODE, str(file.fileno())]
        ended = subprocess.run(command, input=given, capture_output=True, check=False, pass_fds=(file.fileno(),))
    found = []
    with told.open("rb") as file:
        while file.tell() < os.stat(told).st_size:
            found.append(pickle.load(file))
    return found, ended.returncode


def test_each_sketch_is_answered_in_its_language_and_the_end_of_input_is_the_end(tmp_path: Path) -> None:
    found, code = answers(tmp_path, pickle.dumps(("en", CLAIMS)) + pickle.dumps(("fr", CLAIMS)))
    with speaking("fr"):
        french = claims([judged()])
    assert (found, code) == ([claims([judged()]), french], 0)


def test_without_a_sketch_it_just_ends(tmp_path: Path) -> None:
    assert answers(tmp_path, b"") == ([], 0)


def test_a_figure_that_cannot_be_drawn_ends_it_after_those_before(tmp_path: Path) -> None:
    found, code = answers(tmp_path, pickle.dumps(("en", CLAIMS)) + pickle.dumps(("en", Sketch("claims", (7,)))))
    assert (found, code) == ([claims([judged()])], 1)


def test_seaborn_does_without_the_statistics_of_scipy() -> None:
    code = f"{CODE}; import seaborn; print(sys.modules['scipy.stats'], seaborn.__name__)"
    told = subprocess.run([sys.executable, "-c", code, "2"], check=True, capture_output=True, text=True, input="")
    assert told.stdout == "None seaborn\n"
