"""Real weights of the Hugging Face hub, brought onto this disk before a backend is loaded.

In: a cell. Out: the same cell, its model's origin now a folder of the hub's cache, and its revision the commit that lies there;
or `UnsupportedError`, which says what to do. Another process asks the hub and fetches (`hub_fetch`): it has the user's own
settings, and leaves nothing of itself in the process that will be measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.backends.interface import UnsupportedError
from bench.model import Model
from bench.reading.architecture import model_of
from bench.reading.strict import BadFile, read_json
from bench.spec import Cell

EVERY_S = 1.0
QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def at_hand(cell: Cell, tell: Callable[[str], None]) -> Cell:
    """The cell with its weights on this disk; the cell itself where they are not the hub's.

    `tell` is given a sign of life every second. Raises UnsupportedError where the hub refuses them, or cannot be reached, or the
    disk is too small, or the hub has another architecture of the name; RuntimeError where fetching failed.
    """
    work = cell.workload
    if work.weights != "hub":
        return cell
    if work.model.origin is None:
        raise UnsupportedError(f"no hub id is known of {work.model.name}; give weights of a folder")
    answer = _fetched(work.model.origin, work.revision, tell)
    if "refused" in answer:
        raise UnsupportedError(answer["refused"])
    require_same(work.model, Path(answer["folder"]))
    model = replace(work.model, origin=answer["folder"])
    return replace(cell, workload=replace(work, model=model, revision=answer["revision"]))


def require_same(model: Model, folder: Path) -> None:
    """Raises UnsupportedError where a folder's config.json contradicts the architecture; keys that one of them lacks do not.

    The shapes of weights would show most differences, but not another rotary base.
    """
    try:
        found = read_json(folder / "config.json")
        theirs = model_of(model.name, found.get("text_config", found), str(folder)).config
    except (BadFile, AttributeError):  # told in a form of its own: the shapes of the weights are all there is to judge by
        return
    ours = model.config
    apart = [f"{key} {theirs[key]}, not {ours[key]}" for key in ours if key in theirs and theirs[key] != ours[key]]
    if apart:
        raise UnsupportedError(f"{model.name} on the hub is another architecture than in the catalogue: {'; '.join(apart)}")


def _fetched(repo: str, revision: str | None, tell: Callable[[str], None]) -> dict[str, Any]:
    """What `hub_fetch` answers: `folder` and `revision`, or `refused`."""
    command = [sys.executable, "-P", "-m", "bench.backends.hub_fetch", repo, revision or ""]
    environment = {**os.environ, **QUIET}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            said = _waited(process, lambda: tell(f"fetching {repo}"))
        finally:
            process.kill()
    lines = said.splitlines()
    if process.returncode != 0 or not lines:
        raise RuntimeError(f"fetching {repo} failed with exit code {process.returncode}; the log says why")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def _waited(process: subprocess.Popen[str], tell: Callable[[], None]) -> str:
    while True:
        tell()
        try:
            return process.communicate(timeout=EVERY_S)[0]
        except subprocess.TimeoutExpired:
            continue
