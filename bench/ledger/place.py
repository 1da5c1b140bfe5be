"""Where the ledger and asv's results lie in a results folder, and the right to write there.

In: a results folder. Out: its folder for asv, held by one writer at a time. All of it follows from the stored runs: what stands
in the way may be removed, by its owner.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.files import atomic
from bench.spec import BadInput

FOLDER, LEDGER, RECORDED = "asv", "ledger", "recorded"
"""In a results folder; `asv.conf.json` names the same."""
LOCK = "lock"
UNTRACKED = b"# Made anew from the stored runs: `wingspan export asv`.\n*\n"


@contextmanager
def held(results: Path) -> Iterator[int]:
    """The folder for one writer at a time, and out of sight of any git that it lies in. A writer's end, however, frees it.

    Yields the lock's descriptor: a process that inherits it goes on holding the folder after its parent's end.
    """
    folder = results / FOLDER
    make_folder(folder)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        atomic.sweep(folder)
        if not (folder / ".gitignore").exists():
            with atomic.staged(folder / ".gitignore", UNTRACKED) as temporary:
                atomic.republish(temporary, folder / ".gitignore")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Hold the names in a folder against others that do the same; NFS lets no folder be locked, and there nothing is held."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents. Raises BadInput naming a file, or a link to nothing, in the place of one of them."""
    for each in (*reversed(folder.parents), folder):
        if os.path.lexists(each) and not each.is_dir():
            raise BadInput(f"{each}: is no folder, and one is needed there for {folder}: move it away")
    atomic.make_folder(folder)


def discard(path: Path) -> None:
    """Remove whatever is there: a folder with all in it, a file, or a link but not what it leads to. OSError if it stays."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
