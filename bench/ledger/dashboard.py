"""asv's page over the ledger.

In: a results folder whose nights are recorded, and the folder for the page. Out: the page, by `asv publish` itself. It shows in a
browser once served (`asv preview`), and fetches its scripts from public servers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.files import atomic
from bench.ledger import place, repository
from bench.ledger.place import FOLDER, LEDGER, RECORDED
from bench.ledger.record import BENCHMARKS, require_tools
from bench.provenance import ROOT
from bench.spec import BadInput

CONFIGURATION = "asv.conf.json"
TRUST = "gitconfig"
MARK = "asv.js"
"""A file of asv's page: a folder without it is somebody's own."""
SAID = 300
"""Characters of asv's last words that are told: a shell's window is filled by no more than four lines."""


def configure(results: Path, html: Path) -> Path:
    """Write the configuration for these folders beside the ledger, so that asv can be called on them from anywhere."""
    folder = (results / FOLDER).resolve()
    own = {
        "repo": str(folder / LEDGER),
        "benchmark_dir": str(BENCHMARKS),
        "env_dir": str(folder / "environments"),
        "results_dir": str(folder / RECORDED),
        "html_dir": str(html.resolve()),
    }
    content = json.dumps({**json.loads((ROOT / CONFIGURATION).read_text()), **own}, indent=4) + "\n"
    return _put(folder / CONFIGURATION, content.encode())


def _put(path: Path, content: bytes) -> Path:
    with atomic.staged(path, content) as temporary:
        atomic.republish(temporary, path)
    return path


def publish(results: Path, html: Path) -> Path:
    """Put asv's page of the recorded nights into `html`, in the place of the one that is there; returns its index.

    A link is followed: what it leads to is replaced, and the link stays. One at a time, as `record`. Raises BadInput where no
    night is recorded, git or asv is missing or fails, or `html` holds something else than its page.
    """
    require_tools()
    if not repository.commits(results / FOLDER / LEDGER):
        raise BadInput(f"{results}: no night is recorded there; `wingspan export asv` records those that are stored")
    page = Path(os.path.realpath(html))
    place.make_folder(page.parent)
    with place.held(results) as lock, place.turn(page.parent):
        if page.exists() and not (page / MARK).is_file() and (not page.is_dir() or any(page.iterdir())):
            raise BadInput(f"{html}: holds something else than asv's page, which would replace it: name another folder")
        with _replaced(page) as staged:
            _asv(results, lock, "publish", "--config", str(configure(results, page)), "--html-dir", str(staged))
    return html / "index.html"


@contextmanager
def _replaced(page: Path) -> Iterator[Path]:
    """A folder to fill in a block, which takes the page's place at its end."""
    staged, old = (page.parent / f"._{page.name}.{kind}" for kind in ("new", "old"))
    place.discard(staged)
    place.discard(old)
    yield staged
    if page.exists():
        page.rename(old)
    staged.rename(page)
    place.discard(old)


def _asv(results: Path, lock: int, *arguments: str) -> None:
    """Run asv. Its git looks at the ledger alone, whatever repository its caller is in, and whoever the ledger belongs to.

    Should its caller be killed, it goes on: so it holds `lock` with it, for as long as it writes.
    """
    folder = (results / FOLDER).resolve()
    trust = {"GIT_CONFIG_GLOBAL": str(_put(folder / TRUST, _trusting(folder / LEDGER)))}
    command, environment = [sys.executable, "-m", "asv", *arguments], repository.environment(os.environ) | trust
    done = subprocess.run(command, env=environment, pass_fds=(lock,), capture_output=True, errors="replace", check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise BadInput(f"asv {arguments[0]} failed: {_end(' '.join(said[-3:])) or f'exit status {done.returncode}'}")


def _trusting(ledger: Path) -> bytes:
    """The git configuration by which git reads a ledger that belongs to another user, as it may in a container."""
    name = os.fsencode(ledger).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'[safe]\n\tdirectory = "' + name + b'"\n'


def _end(text: str) -> str:
    return text if len(text) <= SAID else f"… {text[-SAID:]}"
