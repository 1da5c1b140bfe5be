"""Files that appear whole or not at all, and never replace another by accident.

In: a path and the bytes it shall hold. Out: that file, on disk before anyone can see it. The bytes go into a temporary file
beside the final name and are flushed to disk; only then does a hard link make them visible, and the folder is flushed in its
turn. A kill at any moment leaves at most a temporary file or two names for one whole file.

Temporary files are called `._<name>.part`: no Parquet reader takes them in (pyarrow would read `.tmp`, DuckDB a dot-file that
ends in `.parquet`). Each is locked while its writer lives, so that `sweep` can tell the abandoned from those in the making.

On macOS `fsync` hands the data to the drive but does not empty the drive's own cache: there a power cut, unlike a kill, may
still cost the latest files.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

_TEMPORARIES = "._*.part"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What `link` answers where the file system has none: exFAT, some network and user-space file systems."""


@contextmanager
def staged(path: Path, content: bytes) -> Iterator[Path]:
    """A temporary file beside `path` that holds `content` and is flushed to disk; it is removed on leaving the block.

    Missing folders are made. Raises OSError naming `path` where that fails (disk full, read-only), leaving nothing behind.
    """
    with _naming(path):
        make_folder(path.parent)
        temporary, descriptor = _open_temporary(path)
    try:
        with _naming(path):
            _write(descriptor, content)
            os.fsync(descriptor)
        yield temporary
    finally:
        with suppress(OSError):  # gone, if it was moved into place; and a leftover does no harm
            temporary.unlink()
        os.close(descriptor)  # last, so that the lock outlives the name


def publish(temporary: Path, path: Path) -> None:
    """Give a staged file its final name, for good.

    Raises FileExistsError where `path` exists, which is left as it is, and any other OSError naming `path`, in which case
    `path` does not exist. Where the file system has no hard links the error says so, and what to do.
    """
    with _naming(path):
        _link(temporary, path)
        try:
            sync_folder(path.parent)
        except OSError:
            path.unlink()
            raise


def republish(temporary: Path, path: Path) -> None:
    """Give a staged file its final name, in the place of whatever bears it. Raises OSError naming `path`."""
    with _naming(path):
        os.replace(temporary, path)
        sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file, if it is there, for good. Raises OSError naming `path`."""
    with _naming(path):
        if path.exists():
            path.unlink()
            sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make `folder` and its parents; each new name is flushed to disk, else a file in it could be lost with it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> list[Path]:
    """Remove the temporary files that killed writers left in `folder`; returns those removed, sorted.

    Safe at any time, beside any writer: what is locked is being written and stays. What cannot be removed stays too (a
    read-only folder, a file system without locks), since a leftover does no harm.
    """
    return [path for path in sorted(folder.glob(_TEMPORARIES)) if _remove_abandoned(path)]


@contextmanager
def adopted(path: Path) -> Iterator[bool]:
    """Whether a staged or published file has lost its writer; if so it is held, against other adopters, for the block."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _taken(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(path: Path) -> bool:
    with adopted(path) as ours:
        if ours:
            with suppress(OSError):
                path.unlink()
                return True
    return False


def _open_temporary(path: Path) -> tuple[Path, int]:
    """A new, locked, empty temporary file for `path`, with a name of its own, and its descriptor."""
    while True:
        temporary = path.with_name(f"._{path.stem}.{token_hex(4)}.part")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # a file system without locks: `sweep` gets none either, and leaves the file alone
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # swept between its creation and its lock


def _write(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        remedy = f"{error.strerror}: this file system has no hard links; put --results on one that has"
        raise OSError(error.errno, remedy) from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the final path in any OSError: those of write and fsync name no file, others a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
