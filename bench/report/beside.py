"""Figures drawn by a process beside this one, while this one words the rest of the page.

In: sketches. Out: a promise of each figure. Importing matplotlib and drawing takes as long as all the rest of a report. Whatever
keeps the other process from drawing (it cannot be started, is killed, or fails), the figure is then drawn here, where a fault
of the figure itself shows as what it is.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from bench.report.document import Drawn, Sketch

ROOT = Path(__file__).resolve().parents[2]
"""Where this `bench` lies: the process is to import no other."""
Promise = Callable[[], Drawn | None]
Draw = Callable[[Sketch], Promise]
"""Begins a figure; the promise that it returns waits for it."""


def here(sketch: Sketch) -> Promise:
    """Drawn at once, by this process."""
    from bench.report.figures.made import made  # matplotlib, only where it is needed

    drawn = made(sketch)
    return lambda: drawn


@contextmanager
def beside(language: str) -> Iterator[Draw]:
    """Drawn by a process of its own in that language, one figure after another; the process ends with the context."""
    process = _started()
    if process is None:
        yield here
        return
    turns = ThreadPoolExecutor(1)
    try:
        yield lambda sketch: _promise(turns.submit(_asked, process, sketch, language), sketch)
    finally:
        process.kill()
        process.wait()
        turns.shutdown(cancel_futures=True)
        for pipe in filter(None, (process.stdin, process.stdout)):
            with suppress(OSError):  # what was still on its way has nobody to go to
                pipe.close()


def _started() -> subprocess.Popen[bytes] | None:
    """The process, importing what it needs already; None where the system gives none."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "bench.report.figures"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _asked(process: subprocess.Popen[bytes], sketch: Sketch, language: str) -> Drawn | None:
    """The figure that the process answers with. Raises what pipes and pickles raise where it cannot."""
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump((language, sketch), process.stdin)
    process.stdin.flush()
    return cast(Drawn | None, pickle.load(process.stdout))  # noqa: S301 - from the process that was started here


def _promise(figure: Future[Drawn | None], sketch: Sketch) -> Promise:
    def kept() -> Drawn | None:
        with suppress(Exception):  # whatever it is, drawing here mends it or says it
            return figure.result()
        return here(sketch)()

    return kept
