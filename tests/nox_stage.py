"""What noxfile.py is tried with: a session that records, and a computer that is of another kind than it is."""

from __future__ import annotations

import platform
import runpy
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nox.command
import pytest

ROOT = Path(__file__).parents[1]


class Session:
    """What the sessions use of nox's session, recorded."""

    def __init__(self, *posargs: str, failing: str | None = None) -> None:
        self.posargs = list(posargs)
        self.queued: list[tuple[str, list[str]]] = []
        self.done: list[tuple[str, ...]] = []
        self.warned: list[str] = []
        self.logged: list[str] = []
        self.failing = failing

    def error(self, message: str) -> None:
        raise SystemExit(message)

    def warn(self, message: str) -> None:
        self.warned.append(message)

    def log(self, message: str) -> None:
        self.logged.append(message)

    def notify(self, name: str, posargs: list[str]) -> None:
        self.queued.append((name, posargs))

    def install(self, *arguments: str) -> None:
        self.done.append(("install", *arguments))

    def run(self, *arguments: str) -> None:
        self.done.append(arguments)
        if self.failing is not None and self.failing in arguments:
            raise nox.command.CommandFailed(f"{arguments} failed")

    @property
    def runs(self) -> list[tuple[str, ...]]:
        return [each[2:] for each in self.done if each[:2] == ("wingspan", "run")]


@cache
def read() -> Any:
    """All that noxfile.py defines; nox registers a session once."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "noxfile.py")))


MACHINES = {
    "mac": ("Darwin", "arm64", False),
    "cuda": ("Linux", "x86_64", True),
    "cpu": ("Linux", "x86_64", False),
    "an Intel Mac": ("Darwin", "x86_64", False),
}


def on(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system, processor, has_driver = MACHINES[kind]
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi" if has_driver else None)
