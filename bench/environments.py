"""In which environment a run was made, and what changed between two.

In: what is installed here; the conditions of two nights. Out: the list of all packages, kept once for each environment as
`results/environments/<environment_digest>.json`; and by name what differs between the nights.

A list is known by its content: its file bears the digest of what it lists, so one that was edited, cut short or swapped is told
as damaged and is no evidence. It appears whole or not at all, and is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Literal

from bench.epochs import EPOCH_SETTINGS, Conditions
from bench.files import atomic

FOLDER = "environments"
_DIGEST = re.compile(r"[0-9a-f]{16}")


class NotKnown(Exception):
    """An environment's packages cannot be told, for a reason that has to do with the file that should list them."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python version and all installed distributions, each as `name==version` in lower case, sorted."""

    python: str
    distributions: tuple[str, ...]

    @property
    def digest(self) -> str:
        """16 hex digits of SHA-256 over the Python version and the distributions, a line each: `environment_digest` of runs."""
        return hashlib.sha256("\n".join([self.python, *self.distributions]).encode()).hexdigest()[:16]

    @property
    def packages(self) -> dict[str, str]:
        """Versions by normalised name; of a name that is installed twice, both."""
        found: dict[str, list[str]] = {}
        for each in self.distributions:
            name, _, version = each.partition("==")
            found.setdefault(normalised(name), []).append(version)
        return {name: ", ".join(versions) for name, versions in found.items()}

    def to_json(self) -> dict[str, Any]:
        return {"python": self.python, "distributions": list(self.distributions)}


Kind = Literal["python", "package", "driver", "os", "setting", "harness", "implementation"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same. None: a package that is not installed, or something that was not told."""

    kind: Kind
    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.kind == "package" and self.before is None:
            return f"{self.name} {self.after} added"
        if self.kind == "package" and self.after is None:
            return f"{self.name} {self.before} removed"
        return f"{self.name} {self.before or 'not told'} -> {self.after or 'not told'}"


@dataclass(frozen=True, slots=True)
class EnvironmentDiff:
    """What differs between two nights: Python, packages, driver, system, settings, harness; `notes` say what is not known."""

    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For a reader, a difference or a note a line."""
        return [*map(str, self.differences), *self.notes]

    def to_json(self) -> dict[str, Any]:
        return {"differences": [asdict(each) for each in self.differences], "notes": list(self.notes)}


def installed() -> Environment:
    """What is installed here and now."""
    names = {f"{each.metadata['Name']}=={each.version}".lower() for each in distributions()}
    return Environment(platform.python_version(), tuple(sorted(names)))


def normalised(name: str) -> str:
    """A package's name as PEP 503 spells it, under which all its spellings are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


def keep(results: Path, environment: Environment) -> None:
    """Write the list of an environment's packages, where it is not there yet.

    A kill leaves no partial file, and two sweeps may write the same one at once. Raises NotKnown where what is there is damaged:
    it stays as it is, for nothing here is ever replaced. Raises OSError naming the file where writing fails.
    """
    path = file_of(results, environment.digest)
    atomic.sweep(path.parent)
    if not path.exists():
        content = json.dumps(environment.to_json(), indent=1) + "\n"
        with atomic.staged(path, content.encode()) as temporary, suppress(FileExistsError):  # another sweep was faster
            atomic.publish(temporary, path)
    load(results, environment.digest)


def load(results: Path, digest: str) -> Environment:
    """The environment of that digest.

    Raises NotKnown where its list is not there, cannot be read, or is not what was written: its content has another digest.
    """
    path = file_of(results, digest)
    if not _DIGEST.fullmatch(digest):
        raise NotKnown(path, "no such file, as that is no digest of 16 hex digits")
    try:
        if not path.is_file():
            raise NotKnown(path, "no such file")
        environment = _listed(path.read_bytes())
    except OSError as error:
        raise NotKnown(path, error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotKnown(path, f"is damaged: no list of packages ({type(error).__name__})") from error
    if environment.digest != digest:
        raise NotKnown(path, "is damaged: what it lists has another digest than its name")
    return environment


def _listed(content: bytes) -> Environment:
    """What a file lists. Raises one of the errors that `load` knows where that is nothing of the kind."""
    given = json.loads(content)
    environment = Environment(given["python"], tuple(given["distributions"]))
    "".join([environment.python, *environment.distributions]).encode()  # all of it text
    return environment


def file_of(results: Path, digest: str) -> Path:
    """Where the list of that environment lies."""
    return results / FOLDER / f"{digest}.json"


def environment_diff(results: Path, before: Conditions, after: Conditions) -> EnvironmentDiff:
    """What changed from one night to another, in the order in which a reader would suspect it.

    Packages are compared in full where both lists are known. Else those that the runs themselves named on both sides are, and
    `notes` say so. Changes nothing, and raises nothing for lists that are missing or damaged.
    """
    packages, notes = _packages(results, before, after)
    found = [
        Difference("python", "Python", before.versions.get("python"), after.versions.get("python")),
        *packages,
        Difference("driver", "driver", before.driver, after.driver),
        Difference("os", "system", before.system, after.system),
        *_settings(before, after),
        Difference("harness", "harness", _short(before.source_revision), _short(after.source_revision)),
    ]
    if not (before.settings and after.settings) and before.settings != after.settings:
        notes = (*notes, "how the device was set is known of one side only")
    return EnvironmentDiff(tuple(each for each in found if each.before != each.after), notes)


def _packages(results: Path, before: Conditions, after: Conditions) -> tuple[list[Difference], tuple[str, ...]]:
    if before.environment_digest is not None and before.environment_digest == after.environment_digest:
        return [], ()
    (old, old_why), (new, new_why) = (_known(results, each) for each in (before, after))
    whys = [f"{when} ({why})" for when, why in (("before", old_why), ("after", new_why)) if why is not None]
    names = old.keys() & new.keys() if whys else old.keys() | new.keys()
    notes = (f"not all packages are known {' and '.join(whys)}: only those named by the runs of both were compared",)
    return [Difference("package", name, old.get(name), new.get(name)) for name in sorted(names)], notes if whys else ()


def _known(results: Path, conditions: Conditions) -> tuple[dict[str, str], str | None]:
    """The packages of one side; and why these are not all, if so."""
    why = "environment_digest is empty"
    if conditions.environment_digest is not None:
        try:
            return load(results, conditions.environment_digest).packages, None
        except NotKnown as fault:
            why = str(fault)
    own = {name: version for name, version in conditions.versions.items() if name not in ("python", "os", "driver")}
    return {normalised(name): version for name, version in own.items()}, why


def _settings(before: Conditions, after: Conditions) -> Iterator[Difference]:
    """The settings of both sides, where both told any."""
    old, new = before.settings, after.settings
    if old and new:
        yield from (Difference("setting", name, old.get(name), new.get(name)) for name in EPOCH_SETTINGS)


def _short(revision: str | None) -> str | None:
    """A commit as git shortens it, its dirt kept."""
    if revision is None:
        return None
    commit, mark, dirt = revision.partition("-")
    return f"{commit[:12]}{mark}{dirt}"
