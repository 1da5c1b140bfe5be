"""The process that draws beside a report (`bench.report.beside`).

In, on standard input: pickled pairs of a language's code and a sketch. Out, on standard output: for each its figure, pickled
likewise, in the same order. It ends with its input, or with the process that started it; a sketch that cannot be drawn ends it
too.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress

sys.modules["scipy.stats"] = None  # type: ignore[assignment]  # seaborn does without it, and it is most of its import

from bench.report.figures.made import made  # noqa: E402 - after what spares it
from bench.report.language import speaking  # noqa: E402


def main() -> None:
    """Draw whatever comes, until nothing comes any more."""
    sketches, figures = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints is no figure
    with suppress(EOFError, BrokenPipeError):
        while True:
            language, sketch = pickle.load(sketches)  # noqa: S301 - from the report that started this process
            with speaking(language):
                pickle.dump(made(sketch), figures)
            figures.flush()


if __name__ == "__main__":
    main()
