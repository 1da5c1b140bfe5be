"""Figures drawn by a process beside this one, while this one words the rest of the page.

In: sketches. Out: a promise of each figure. Importing matplotlib and drawing takes as long as all the rest of a report. Whatever
becomes of the other process (none can be started, it is killed, it fails, it does not answer), its figures are then drawn here,
where a fault of a figure shows as what it is.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, cast

from bench.report.document import Drawn, Sketch

Promise = Callable[[], Drawn | None]
Draw = Callable[[Sketch], Promise]
"""Begins a figure; the promise that it returns waits for it."""
ANSWER_S = 120.0
"""For a figure of a second, since matplotlib is imported before it, perhaps from a cold and busy disk."""
_START = "import sys; answers, *sys.path = sys.argv[1:]; from bench.report.figures.process import answer; answer(int(answers))"
"""With this process's own path, so that it imports what this one would and from nowhere else."""


def here(sketch: Sketch) -> Promise:
    """Drawn at once, by this process."""
    from bench.report.figures.made import made  # matplotlib, only where it is needed

    drawn = made(sketch)
    return lambda: drawn


@contextmanager
def beside(language: str) -> Iterator[Draw]:
    """Drawn by a process of its own in that language, one figure after another; it is ended with the context."""
    artist = _started(language)
    if artist is None:
        yield here
        return
    try:
        yield artist.begin
    finally:
        artist.end()


@dataclass(frozen=True, slots=True)
class _Artist:
    """The process, the pipe on which it answers, and the turns in which it is asked."""

    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    language: str
    turns: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def begin(self, sketch: Sketch) -> Promise:
        """Ask for a figure, once those before it are drawn."""
        try:
            figure = self.turns.submit(self._asked, sketch)
        except RuntimeError:  # the system has no thread to spare
            return here(sketch)
        return lambda: self._kept(figure, sketch)

    def _asked(self, sketch: Sketch) -> Drawn | None:
        """Raises what pipes and pickles raise; from then on nothing that the process may still say is listened to."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(pickle.dumps((self.language, sketch)))
            self.process.stdin.flush()
            return cast(Drawn | None, pickle.load(self.answers))  # noqa: S301 - from the process that was started here
        except BaseException:
            self.process.kill()
            raise

    def _kept(self, figure: Future[Drawn | None], sketch: Sketch) -> Drawn | None:
        with suppress(Exception):  # whatever it is, drawing here mends it or says it
            return figure.result(timeout=ANSWER_S)
        self.process.kill()
        return here(sketch)()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.turns.shutdown(cancel_futures=True)
        for pipe in filter(None, (self.process.stdin, self.answers)):
            with suppress(OSError):  # what was still on its way has nobody to go to
                pipe.close()


def _started(language: str) -> _Artist | None:
    """The process, importing what it needs already; None where the system gives none."""
    if not sys.executable:
        return None
    with suppress(OSError):
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(writing), *map(str, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # what a library prints is no figure
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return _Artist(process, os.fdopen(reading, "rb"), language)
    return None
