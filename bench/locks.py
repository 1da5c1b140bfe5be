"""The versions in which an environment is installed, night after night: its lock.

In: the path of a lock, from `nox -s nightly`; the packages installed here. Out: the lock, a constraints file for pip with every
installed package but this one; and in words what is not as it says. Started in the environment that it is about:

    python -m bench.locks LOCK NIGHT [--refresh]

A lock that is there keeps its versions, and what differs from them is told, so that nights are comparable, and say so where they
are not; one that is not there, or is to be refreshed, is written from what is installed. Either way its head names the night, so
that the same night, taken up again, is known to have begun in these versions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.environments import installed, normalised
from bench.files import atomic
from bench.nox_sessions.lock import BadLock, head, marked, read, versions_in

LEFT_OUT = frozenset({"pip", "wingspan"})
"""What installs, and what is installed from the clone: no constraint holds either."""


def constraints(distributions: Iterable[str]) -> dict[str, str]:
    """Versions by normalised name, of distributions given as `name==version`."""
    pairs = (each.partition("==")[::2] for each in distributions)
    return {normalised(name): version for name, version in pairs if normalised(name) not in LEFT_OUT}


def locked(lock: Path) -> dict[str, str]:
    """What a lock says of packages that it may hold. Raises BadLock for one that cannot be read."""
    return {name: version for name, version in versions_in(lock).items() if name not in LEFT_OUT}


def write(lock: Path, versions: Mapping[str, str], night: str) -> None:
    """Put a lock in the place of the one that is there, whole or not at all."""
    _put(lock, head(night) + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))


def _put(lock: Path, text: str) -> None:
    with atomic.staged(lock, text.encode()) as temporary:
        atomic.republish(temporary, lock)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What differs, a package a line, by name."""
    told = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            told.append(f"{name} {new} added")
        elif new is None:
            told.append(f"{name} {old} removed")
        elif old != new:
            told.append(f"{name} {old} -> {new}")
    return told


def settle(lock: Path, versions: Mapping[str, str], night: str, refresh: bool) -> list[str]:
    """Write the lock where it is due, else the night in its head; what there is to say, a line each. Raises BadLock."""
    if not lock.exists():
        write(lock, versions, night)
        return [f"{lock}: {len(versions)} packages, locked from now on"]
    found = changes(locked(lock), versions)
    if refresh:
        write(lock, versions, night)
        return [f"{lock}: " + (f"{len(found)} packages changed" if found else "nothing newer"), *found]
    _put(lock, marked(read(lock), night))
    return [f"{lock}: installed is not what it says", *found] if found else [f"{lock}: as locked"]


def main(arguments: list[str]) -> None:
    """Settle the lock of the environment that this runs in."""
    parser = argparse.ArgumentParser(prog="python -m bench.locks", description="Keep the versions of this environment.")
    parser.add_argument("lock", type=Path)
    parser.add_argument("night", help="the night's label, such as 2026-11-30")
    parser.add_argument("--refresh", action="store_true", help="take what is installed for what is locked from now on")
    asked = parser.parse_args(arguments)
    try:
        told = settle(asked.lock, constraints(installed().distributions), asked.night, asked.refresh)
    except BadLock as error:
        sys.exit(str(error))
    sys.stderr.write("\n".join(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
