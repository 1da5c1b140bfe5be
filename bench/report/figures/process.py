"""What the process that draws beside a report does (`bench.report.beside`).

In, on standard input: pickled pairs of a language's code and a sketch. Out, on a pipe of its own: for each its figure, pickled
likewise, in the same order. It ends with its input, so soon after the process that started it; a sketch that cannot be drawn ends
it too.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress


def answer(answers: int) -> None:
    """Draw whatever comes, until nothing comes any more. `answers` is the descriptor of the pipe for the figures."""
    sys.modules["scipy.stats"] = None  # type: ignore[assignment]  # seaborn does without it, and it is most of its import
    from bench.report.figures.made import made
    from bench.report.language import speaking

    with suppress(EOFError, BrokenPipeError), os.fdopen(answers, "wb") as figures:
        while True:
            language, sketch = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the report that started this process
            with speaking(language):
                figures.write(pickle.dumps(made(sketch)))
            figures.flush()
