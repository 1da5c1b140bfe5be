"""The lock of an environment, as far as nox itself has to know it: where it lies, what it says, which night it was used on.

In: a results folder and an environment's name; a lock. Out: the lock's path, its versions, the night that its head names last.
Written and compared in the environment itself, by `bench.locks`.
"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_TAKEN = re.compile(r"^# Taken on the night of (\S+)$", re.MULTILINE)
_USED = re.compile(r"^# Last installed for the night of (\S+)$", re.MULTILINE)
_TAIL = re.compile(r"(^|\s)(#|--|\\$).*")
"""What may follow a requirement in a constraints file: a comment, pip's options, a line's continuation."""


class BadLock(ValueError):
    """A lock that cannot be read; the message names the file, the line and the remedy."""

    def __init__(self, lock: Path, what: str) -> None:
        super().__init__(f"{lock}: {what}; mend it, or remove it, and the next night takes the versions that pyproject.toml pins")


def path_of(results: Path, environment: str) -> Path:
    """Where the lock of that environment lies, for this system, processor and Python."""
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return results / "locks" / f"{environment}-{platform.system()}-{platform.machine()}-{python}.txt".lower()


def read(lock: Path) -> str:
    """A lock's text. Raises BadLock where it is no text file."""
    try:
        return lock.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadLock(lock, "not a text in UTF-8") from None
    except OSError as error:
        raise BadLock(lock, str(error.strerror)) from None


def versions_in(lock: Path) -> dict[str, str]:
    """Versions by normalised name. What pins no version (pip's options, ranges, addresses) is passed over, or does not hold here.

    Raises BadLock for a line that is no requirement.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(read(lock).splitlines(), start=1):
        text = _TAIL.sub("", line).strip()
        if text and not text.startswith("-"):
            found |= _pinned(lock, number, text)
    return found


def _pinned(lock: Path, number: int, text: str) -> dict[str, str]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        raise BadLock(lock, f"line {number}: {text[:80]!a} is no requirement such as torch==2.13.0") from None
    if requirement.marker is not None and not requirement.marker.evaluate():
        return {}
    pins = [each.version for each in requirement.specifier if each.operator in ("==", "===") and not each.version.endswith("*")]
    return {str(canonicalize_name(requirement.name)): pins[0]} if pins else {}


def head(night: str) -> str:
    """The lines with which a lock begins, comments to pip; its versions were taken on that night, and so used on it."""
    told = "# The versions that `nox -s nightly` installs here; `nox -s nightly -- --upgrade` refreshes them.\n"
    return f"{told}# Taken on the night of {night}\n{_used(night)}"


def marked(text: str, night: str) -> str:
    """A lock's text with the word that its versions were installed for that night; nothing else of it changes."""
    if _USED.search(text):
        return _USED.sub(_used(night).rstrip(), text, count=1)
    taken = _TAKEN.search(text)
    at = text.index("\n", taken.start()) + 1 if taken else 0
    return text[:at] + _used(night) + text[at:]


def night_of(lock: Path) -> str | None:
    """The night for which a lock's versions were last installed; None where it does not say. Raises BadLock."""
    text = read(lock)
    found = _USED.search(text) or _TAKEN.search(text)
    return found.group(1) if found else None


def _used(night: str) -> str:
    return f"# Last installed for the night of {night}\n"
