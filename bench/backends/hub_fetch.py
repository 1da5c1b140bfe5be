"""The process that asks the hub: `python -m bench.backends.hub_fetch REPO [REVISION]`.

In: a repository, and a revision or nothing for the newest. Out: one JSON line: `folder` (a snapshot in the hub's cache) and
`revision` (its commit), or `refused` with the remedy. Only config.json and safetensors are fetched; no code of the repository is
read, much less run. `HF_HUB_OFFLINE`, `HF_ENDPOINT`, `HF_TOKEN` and `HF_HOME` mean what they mean to huggingface_hub.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bench.reading.strict import BadFile
from bench.weights import INDEX, read_checkpoint

PATTERNS = ("config.json", "model*.safetensors", INDEX)
"""Beside them some repositories hold the same weights once more, in folders or as `consolidated.safetensors`."""
AGAIN = "then run again with --no-resume"
GB = 1e9


class RefusedError(Exception):
    """Why there are no weights, and the remedy."""


def fetch(repo: str, revision: str | None) -> dict[str, str]:
    """The snapshot's folder and commit, from the cache where it is whole, else from the hub. Raises RefusedError."""
    from huggingface_hub import constants

    if revision is not None or constants.HF_HUB_OFFLINE:
        cached = _cached(repo, revision)
        if cached is not None:
            return _answer(cached)
    if constants.HF_HUB_OFFLINE:
        raise RefusedError(
            f"{repo} is not in the hub's cache ({constants.HF_HUB_CACHE}) and HF_HUB_OFFLINE forbids asking for it; "
            f"unset it, or run hf download {repo} where it is not set, {AGAIN}"
        )
    return _answer(_downloaded(repo, revision))


def _answer(folder: Path) -> dict[str, str]:
    return {"folder": str(folder), "revision": folder.name}


def _cached(repo: str, revision: str | None) -> Path | None:
    """The snapshot in the cache, if it is whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=revision, allow_patterns=list(PATTERNS), local_files_only=True))
        read_checkpoint(folder)
    except (LocalEntryNotFoundError, BadFile):
        return None
    return folder if (folder / "config.json").is_file() else None


def _downloaded(repo: str, revision: str | None) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    try:
        info = HfApi().model_info(repo, revision=revision, files_metadata=True)
        sizes = {each.rfilename: each.size or 0 for each in info.siblings or [] if _is_wanted(each.rfilename)}
        _require_weights(repo, sizes)
        _require_room(repo, info.sha, sizes)
        return Path(snapshot_download(repo, revision=revision, allow_patterns=list(PATTERNS)))
    except Exception as error:  # whatever is no refusal is raised again
        why = _refusal(error, repo, revision)
        if why is None:
            raise
        raise RefusedError(why) from error


def _refusal(error: Exception, repo: str, revision: str | None) -> str | None:
    """What an error of huggingface_hub says to the user, and the remedy; None for a failure that may pass.

    The HTTP library below it has had three names (requests, httpx, httpx2), so its errors are known by theirs.
    """
    from huggingface_hub import errors as hub

    kind, status = type(error).__name__, getattr(getattr(error, "response", None), "status_code", None)
    answers = (
        (
            isinstance(error, hub.GatedRepoError),
            f"{repo} is gated: accept its terms on its page, log in (hf auth login, or HF_TOKEN), {AGAIN}",
        ),
        (isinstance(error, hub.RevisionNotFoundError), f"{repo} has no revision {revision}; take one from its list of commits"),
        (
            isinstance(error, hub.RepositoryNotFoundError),
            f"the hub has no {repo}, or shows it to its members only: log in (hf auth login, or HF_TOKEN), {AGAIN}",
        ),
        (status in (401, 403), f"the hub refuses {repo}: log in with an account that may read it (hf auth login), {AGAIN}"),
        (
            isinstance(error, hub.LocalEntryNotFoundError) or (status is None and re.search("Connect|Timeout", kind) is not None),
            f"the hub cannot be reached ({kind}): go online, {AGAIN}",
        ),
    )
    return next((answer for holds, answer in answers if holds), None)


def _is_wanted(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in PATTERNS) and "/" not in name


def _require_weights(repo: str, names: Iterable[str]) -> None:
    if not any(name.endswith(".safetensors") for name in names):
        raise RefusedError(f"{repo} holds no safetensors files, and pickled weights are never read; take another repository")


def _require_room(repo: str, commit: str | None, sizes: Mapping[str, int]) -> None:
    """What is not in the cache yet must fit on its disk."""
    from huggingface_hub import constants, try_to_load_from_cache

    missing = sum(
        size for name, size in sizes.items() if not isinstance(try_to_load_from_cache(repo, name, revision=commit), str)
    )
    cache = Path(constants.HF_HUB_CACHE).absolute()
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if missing > free:
        figures = f"{missing / GB:.1f} GB are to be fetched and {free / GB:.1f} GB are free in {cache}"
        raise RefusedError(f"the disk is too small for {repo}: {figures}; make room, or set HF_HOME to a larger disk, {AGAIN}")


def main(arguments: list[str]) -> None:
    """Answer on standard output."""
    repo, revision = arguments
    answer: dict[str, Any]
    try:
        answer = fetch(repo, revision or None)
    except RefusedError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer))  # the answer to the parent process


if __name__ == "__main__":
    main(sys.argv[1:])
