"""One sweep at a time on a machine.

In: a path and a few words on who takes the lock. Out: a lock that the kernel releases when the last process holding it ends.
Worker processes inherit the descriptor on purpose: an orphan that still computes still holds the machine. The file lies
outside any results folder, since two sweeps into different folders disturb each other all the same.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.spec import BadInput

LOCK_VARIABLE = "WINGSPAN_LOCK"
DEFAULT_LOCK = Path("/tmp/wingspan-machine.lock")  # noqa: S108 (one well-known place for every user of the machine)


HOLDER_START = b"wingspan "
"""What the file begins with, so that no other file is ever taken for a lock."""


class MachineBusy(Exception):
    """Another sweep holds the machine; the message names it."""


def lock_path() -> Path:
    """Where this machine's lock lies; the variable WINGSPAN_LOCK overrides it (tests, containers sharing one /tmp)."""
    return Path(os.environ.get(LOCK_VARIABLE) or DEFAULT_LOCK)


@contextmanager
def hold_machine(path: Path, holder: dict[str, Any]) -> Iterator[int]:
    """Hold the machine for the block; yields the descriptor for children to inherit. Raises MachineBusy at once if it's held."""
    descriptor = _open(path)
    try:
        _take(descriptor, path)
        _refuse_foreign(descriptor, path)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, HOLDER_START + json.dumps(holder).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open for all users; an existing file is opened without O_CREAT, which sticky folders forbid for others' files."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        os.fchmod(descriptor, 0o666)
        return descriptor


def _refuse_foreign(descriptor: int, path: Path) -> None:
    """Raises BadInput where the file is somebody's own, which the holder's name would overwrite."""
    content = os.pread(descriptor, 4096, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"no regular file"
    if content and not content.startswith(HOLDER_START):
        raise BadInput(f"{path} is no lock of Wingspan's: set {LOCK_VARIABLE} to a path of its own")


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise MachineBusy(f"another sweep holds this machine: {_describe(descriptor)} (lock {path})") from None


def _describe(descriptor: int) -> str:
    """Who holds it, from what the holder wrote; a worker left behind by a killed sweep is named as such."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0).removeprefix(HOLDER_START))
        pid = int(holder["pid"])
    except (ValueError, KeyError, TypeError):
        return "its holder left no name"
    alive = _exists(pid)
    who = f"process {pid}" if alive else f"a worker left by process {pid}, which is gone; it ends by itself at once"
    return f"{who}, suite {holder.get('suite')}, since {holder.get('since')}"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
