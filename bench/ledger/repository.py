"""The ledger: a git repository with one commit per machine and night, for asv orders by commit.

In: the nights, and the folder of the repository. Out: the hash of each night's commit. A commit holds what the environment was;
author, dates and order follow from the night alone, so the same nights always give the same hashes, and one that comes late
(merged from another computer) takes its place among the others.

It is written by one `git fast-import`, which moves the branch last. What a kill leaves is either whole or refused by git, and
then made anew: nothing here is worth more than the runs that it follows from. No git variable or configuration of the user's has
a say, and git never looks for a repository elsewhere: this project's own history is out of reach. Nor is a ledger written that
leads elsewhere, by a link or as git's worktrees do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.files.layout import partition_name
from bench.ledger import place
from bench.ledger.nights import Night
from bench.spec import BadInput

BRANCH = "nights"
WHO = b"Wingspan <wingspan@localhost>"
ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}


class GitFailed(RuntimeError):
    """What git said, in one line."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without any of git's, and with git's configuration out of sight."""
    return {name: value for name, value in variables.items() if not name.startswith("GIT_")} | ISOLATED


def commits(folder: Path) -> list[str]:
    """The hashes of the ledger, oldest first; none where there is no ledger, or none that git can list."""
    try:
        return _git(folder, "rev-list", "--first-parent", "--reverse", BRANCH).split()
    except GitFailed:
        return []


def require_git() -> None:
    """Raises BadInput where git is not installed."""
    if shutil.which("git") is None:
        raise BadInput("the ledger of nights is a git repository, and git is not installed: install it (https://git-scm.com)")


def write(folder: Path, nights: Sequence[Night]) -> list[str]:
    """Make the ledger hold these nights and no others; their hashes, in the order of `nights`.

    Raises BadInput where git is not installed, the ledger leads elsewhere, or git fails on a ledger made anew too.
    """
    require_git()
    _refuse_another(folder)
    try:
        return _write(folder, nights)
    except GitFailed:  # a kill left half an object or a lock, or an object has been damaged since
        shutil.rmtree(folder, ignore_errors=True)
    try:
        return _write(folder, nights)
    except GitFailed as error:
        raise BadInput(f"{folder}: git cannot write the ledger of nights: {error}") from error


def _refuse_another(folder: Path) -> None:
    """Raises BadInput where what git would write is not in `folder`, but in another repository."""
    inner = folder / ".git"
    parts = (folder, inner, *(inner / name for name in ("HEAD", "config", "objects", "packed-refs", "refs")))
    leading = next((part for part in parts if part.is_symlink()), None)
    if leading is None:
        leading = next((part for part in (inner, inner / "commondir") if part.is_file()), None)
    if leading is not None:
        raise BadInput(f"{leading}: leads to another repository, which is not the ledger's to write: remove {folder}")


def _write(folder: Path, nights: Sequence[Night]) -> list[str]:
    if not (folder / ".git" / "HEAD").is_file():
        place.make_folder(folder)
        _run("git", "init", "--quiet", "--template=", str(folder))
        _git(folder, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
    _git(folder, "fast-import", "--quiet", "--force", "--done", standard_input=b"".join(_stream(nights)))
    _git(folder, "fsck", "--no-dangling", "--no-progress")  # fast-import takes an object that is there for whole, unread
    found = commits(folder)
    if len(found) != len(nights):
        raise GitFailed(f"{len(found)} commits are there, {len(nights)} were written")
    return found


def _stream(nights: Sequence[Night]) -> Iterator[bytes]:
    """The nights as `git fast-import` reads them; each environment is stored once, however many nights it lasted."""
    marks: dict[str, int] = {}
    for night in nights:
        if night.environment not in marks:
            marks[night.environment] = len(marks) + 1
            yield b"blob\nmark :%d\n" % marks[night.environment] + _data(night.environment)
    yield b"reset refs/heads/%s\n" % BRANCH.encode()
    for night in nights:
        when = WHO + b" %d +0000\n" % int(night.moment.timestamp())
        yield b"commit refs/heads/%s\n" % BRANCH.encode()
        yield b"author " + when + b"committer " + when
        yield _data(f"{night.machine}, night of {night.label}\n")
        yield b"M 100644 :%d %s/environment.txt\n" % (marks[night.environment], partition_name(night.machine).encode())
    yield b"done\n"


def _data(text: str) -> bytes:
    content = text.encode()
    return b"data %d\n" % len(content) + content + b"\n"


def _git(folder: Path, *arguments: str, standard_input: bytes = b"") -> str:
    options = ("-c", "core.logAllRefUpdates=false", f"--git-dir={folder / '.git'}")
    return _run("git", *options, *arguments, standard_input=standard_input)


def _run(*command: str, standard_input: bytes = b"") -> str:
    done = subprocess.run(command, env=environment(os.environ), input=standard_input, capture_output=True, check=False)
    if done.returncode:
        raise GitFailed(" ".join(done.stderr.decode(errors="replace").split()) or f"exit status {done.returncode}")
    return done.stdout.decode()
