"""Which code and which packages made a run.

In: this environment. Out: the harness's source revision, a digest over every installed distribution, and the versions that
belong to any run whatever its backend (Python, operating system, driver). A backend adds those of its own packages.
"""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.environments import Environment, installed
from bench.record import Machine

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Provenance:
    """The conditions that every run of one sweep shares. `environment` lists the packages whose digest is given."""

    source_revision: str | None
    environment_digest: str
    versions: dict[str, str] = field(default_factory=dict)
    environment: Environment | None = None


def provenance(machine: Machine) -> Provenance:
    """Read once a sweep, before anything is measured."""
    versions = {"python": platform.python_version(), "os": machine.os_version}
    drivers = sorted({gpu.driver for gpu in machine.gpus if gpu.driver})
    if drivers:
        versions["driver"] = " ".join(drivers)
    environment = installed()
    return Provenance(source_revision(), environment.digest, versions, environment)


def source_revision(root: Path = ROOT) -> str | None:
    """The commit of the clone that the harness runs from, with `-dirty` where tracked files differ; None outside a clone."""
    revision = _git(root, "rev-parse", "HEAD")
    if revision is None or not (root / ".git").exists():
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "bench", "suites", "pyproject.toml")
    return f"{revision}-dirty" if changed else revision


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
