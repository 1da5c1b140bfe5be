"""A hub of our own for the tests: a local HTTP server that answers what huggingface_hub asks of a model repository.

In: repositories by name, each at a commit. Out: an address for `HF_ENDPOINT`, and a list of what was asked. A repository may be
gated, or broken: then its files are refused, or the server fails.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

GATED, BROKEN = "gated", "broken"


@dataclass
class Repository:
    """Files by name, at one commit; `claimed_bytes` is the size that the listing gives the weights (None: the true one)."""

    files: dict[str, bytes]
    commit: str = "a" * 40
    trouble: str | None = None
    claimed_bytes: int | None = None

    def listing(self) -> list[dict[str, Any]]:
        return [self._entry(name, content) for name, content in sorted(self.files.items())]

    def _entry(self, name: str, content: bytes) -> dict[str, Any]:
        size = self.claimed_bytes if self.claimed_bytes and name.endswith(".safetensors") else len(content)
        return {"type": "file", "path": name, "rfilename": name, "size": size, "oid": digest(content), "blobId": digest(content)}


@dataclass
class Hub:
    """What is served and what was asked."""

    repositories: dict[str, Repository]
    address: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        parts = [unquote(part) for part in urlsplit(path).path.split("/") if part]
        api = parts[:2] == ["api", "models"]
        owner = parts[2:] if api else parts
        repository = self.repositories.get("/".join(owner[:2]))
        if repository is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if repository.trouble == BROKEN:
            return 500, {}, b"{}"
        kind, revision, *file = [*owner[2:], *[""] * (4 - len(owner))]
        if revision not in ("", "main", repository.commit):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if api:
            listed = repository.listing()
            info = {"id": "/".join(owner[:2]), "sha": repository.commit, "siblings": listed, "private": False, "tags": []}
            return 200, {"Content-Type": "application/json"}, json.dumps(listed if kind == "tree" else info).encode()
        return self._file(repository, "/".join(file))

    def _file(self, repository: Repository, name: str) -> tuple[int, dict[str, str], bytes]:
        if repository.trouble == GATED:
            return 403, {"X-Error-Code": "GatedRepo"}, b"{}"
        if name not in repository.files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        content = repository.files[name]
        return 200, {"ETag": f'"{digest(content)}"', "X-Repo-Commit": repository.commit}, content


def digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@contextmanager
def serving(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """The hub, at an address of this machine."""
    hub = Hub(repositories)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815  # the server finds methods by these names

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
