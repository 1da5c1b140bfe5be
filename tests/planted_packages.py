"""A package that is installed for a test: its files, and what importlib.metadata wants to see of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest


def plant(
    folder: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, files: Mapping[str, str], version: str = "1.2"
) -> Path:
    """Put the files on the path as version `version` of a distribution; the folder that holds them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    monkeypatch.syspath_prepend(str(folder))
    return folder
