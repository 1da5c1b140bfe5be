"""Compactions, or merges, each killed at another moment.

usage: compact_stage.py (compact | merge DIR…) TEMPLATE OUT MOMENTS

Each plays in a folder of its own, `OUT/<moment>`, which begins as a copy of TEMPLATE, and is killed just before, in or just
after its nth change of a name (`MOMENTS`: numbers with commas between). Prints as JSON the moments at which it was still alive.
The processes are forked, since importing takes far longer than what is to be killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.compact import compact
from bench.merge import merge

PAUSE_S = 0.002
"""After each mark, which widens the window that a kill must hit."""


def play(what: str, results: Path, folders: list[Path], marks: int) -> None:
    """In the child: a byte into the pipe `marks` before each call that gives, changes or removes a name."""

    def marked(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            os.write(marks, b".")
            time.sleep(PAUSE_S)
            return real(*arguments, **options)

        return call

    for name in ("link", "replace", "unlink"):
        setattr(os, name, marked(getattr(os, name)))
    if what == "compact":
        compact(results)
    else:
        merge(results, folders)


def killed(what: str, results: Path, folders: list[Path], moment: int) -> bool:
    """Play and kill; whether it lived to see the moment."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        play(what, results, folders, writing)
        os._exit(0)
    os.close(writing)
    seen = 0
    while seen < moment and (found := os.read(reading, 1)):
        seen += len(found)
    if seen == moment:
        time.sleep(random.Random(moment).uniform(0, 2 * PAUSE_S))
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(what: str, *rest: str) -> None:
    *folders, template, out = map(Path, rest[:-1])
    struck = []
    for moment in map(int, rest[-1].split(",")):
        results = out / str(moment)
        shutil.copytree(template, results)
        if killed(what, results, folders, moment):
            struck.append(moment)
    print(json.dumps(struck))


if __name__ == "__main__":
    main(*sys.argv[1:])
