"""A computer that does not fall asleep in the middle of a sweep.

In: somebody to be told where that is not to be had. Out: for the block, the system's own command holds off sleep: `caffeinate` on
macOS, `systemd-inhibit` on Linux. Either holds for as long as a command of ours runs, which is `cat` with a pipe from this
process: it ends when the pipe is closed, by us or by the kernel when the harness is killed, so nothing is left behind. `cat` also
answers: a line that comes back shows that the hold was granted. It waits in read(2) and takes no processor. A lid that is closed
or a battery that runs empty puts the computer to sleep all the same; that shows in the flag `slept`.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "darwin": ("caffeinate", "-dims"),
    "linux": (
        "systemd-inhibit",
        "--what=sleep:idle",
        "--who=wingspan",
        "--why=a benchmark is being measured",
        "--mode=block",
    ),
}
"""`-d` keeps the display as it is too: its power must not change in the middle of a sweep (caffeinate(8), systemd-inhibit(1))."""
ANSWER_S = 5.0
END_S = 5.0


@contextmanager
def kept_awake(note: Callable[[str], None], system: str = sys.platform) -> Iterator[None]:
    """Hold off sleep for the block. Where the system does not let us, `note` is told, and the block runs all the same."""
    if "microsoft" in platform.release().lower():
        note("under WSL it is Windows that falls asleep: keep it awake by its power plan")
    process = _started(note, system)
    try:
        yield
    finally:
        if process is not None:
            _end(process, note)


def _started(note: Callable[[str], None], system: str) -> subprocess.Popen[bytes] | None:
    """The command, once it is known to hold; None, and a note, where it does not."""
    command = COMMANDS.get(system, ())
    if not command or shutil.which(command[0]) is None:
        note(f"cannot keep the computer awake: {command[0] if command else 'a command for it'} is not there")
        return None
    try:
        process = subprocess.Popen(
            [*command, "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # no terminal: neither a question for a password nor Ctrl-C, which ends the run first
        )
    except OSError as error:
        note(f"cannot keep the computer awake: {command[0]} cannot be run: {error.strerror}")
        return None
    if _answers(process):
        return process
    _kill(process)
    said = _said(process)
    _close(process)
    note(f"cannot keep the computer awake: {command[0]} refuses{f': {said[:200]}' if said else ''}")
    return None


def _answers(process: subprocess.Popen[bytes]) -> bool:
    """Whether a line comes back within five seconds."""
    if process.stdin is None or process.stdout is None:
        return False
    with suppress(BrokenPipeError):
        process.stdin.write(b"\n")
        process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], ANSWER_S)
    return bool(ready and os.read(process.stdout.fileno(), 1))


def _said(process: subprocess.Popen[bytes]) -> str:
    """What it has written to standard error; without waiting, for a process of its own may hold the pipe open for ever."""
    if process.stderr is None:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    return " ".join((process.stderr.read() or b"").decode(errors="replace").split())


def _end(process: subprocess.Popen[bytes], note: Callable[[str], None]) -> None:
    """Let go: the pipe's end is the command's end. One that had ended before did not hold to the end."""
    if process.poll() is not None:
        note("the computer was not kept awake to the end: the command that held off sleep ended before")
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        _kill(process)
    _close(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The command and what it started, which is a group of its own."""
    with suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM for a group of which only the dead are left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
