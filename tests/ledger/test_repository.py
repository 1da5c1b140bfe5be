"""The ledger's commits: the same nights give the same hashes, and no other repository or configuration has a say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from nightly_rows import git, label

from bench.ledger import place, repository
from bench.ledger.nights import Night
from bench.spec import BadInput

NIGHTS = [
    Night(machine, label(number), f"machine {machine}\nalpha=={number // 2}\n")
    for number in range(4)
    for machine in ("box", "a b")
]


def test_one_commit_per_machine_and_night_in_order(tmp_path: Path) -> None:
    hashes = repository.write(tmp_path / "ledger", NIGHTS)
    told = git(tmp_path / "ledger", "log", "--reverse", "--format=%H|%s|%an <%ae>|%aI|%cI", "nights").splitlines()
    assert told[0] == f"{hashes[0]}|box, night of 2026-11-01|Wingspan <wingspan@localhost>|" + "|".join(
        ["2026-11-01T00:00:00+00:00"] * 2
    )
    assert [line.split("|")[1] for line in told] == [f"{each.machine}, night of {each.label}" for each in NIGHTS]
    assert git(tmp_path / "ledger", "show", f"{hashes[-1]}:a%20b/environment.txt") == NIGHTS[-1].environment


def test_the_same_nights_give_the_same_hashes_whatever_was_there(tmp_path: Path) -> None:
    grown, late = tmp_path / "grown", tmp_path / "late"
    for count in range(1, len(NIGHTS) + 1):
        repository.write(grown, NIGHTS[:count])
    repository.write(late, NIGHTS[4:])
    wanted = repository.write(tmp_path / "whole", NIGHTS)
    assert repository.write(late, NIGHTS) == wanted == repository.commits(grown)
    assert repository.commits(late) == wanted
    assert git(late, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/nights"]


def test_again_adds_nothing(tmp_path: Path) -> None:
    many = [Night("box", f"20{year:02}-{month:02}-01", f"{year} {month}\n") for year in range(20, 40) for month in range(1, 13)]
    repository.write(tmp_path, many)
    before = sorted(path for path in tmp_path.rglob("*"))
    repository.write(tmp_path, many)
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_no_other_repository_hook_or_setting_has_a_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "project"
    subprocess.run(["git", "init", "--quiet", own], check=True)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-commit"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    settings = {
        "commit": "gpgSign = true",
        "core": f"hooksPath = {hooks}",
        "safe": "bareRepository = explicit",
        "init": "defaultObjectFormat = sha256",
    }
    (tmp_path / "gitconfig").write_text("".join(f"[{section}]\n{line}\n" for section, line in settings.items()))
    for name, value in {
        "GIT_DIR": own / ".git",
        "GIT_WORK_TREE": own,
        "GIT_CONFIG_GLOBAL": tmp_path / "gitconfig",
        "GIT_AUTHOR_NAME": "Me",
    }.items():
        monkeypatch.setenv(name, str(value))
    before = sorted((path, path.stat().st_mtime_ns) for path in own.rglob("*"))
    hashes = repository.write(own / "results" / "asv" / "ledger", NIGHTS)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_CONFIG_GLOBAL", "GIT_AUTHOR_NAME"):
        monkeypatch.delenv(name)
    assert hashes == repository.write(tmp_path / "elsewhere", NIGHTS)
    after = [(path, path.stat().st_mtime_ns) for path in own.rglob("*") if "results" not in path.parts and path != own]
    assert sorted(after) == [each for each in before if each[0] != own]


def object_of(folder: Path, name: str) -> Path:
    """The file of an object that is stored by itself."""
    told = git(folder, "rev-parse", name).strip()
    path = folder / ".git" / "objects" / told[:2] / told[2:]
    path.chmod(0o644)
    return path


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def spoil_the_pack(folder: Path) -> None:
    git(folder, "gc", "--quiet")
    (path,) = (folder / ".git" / "objects" / "pack").glob("*.pack")
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: shorten(object_of(folder, "nights~2:box/environment.txt")),
        lambda folder: object_of(folder, "nights~2:box/environment.txt").write_bytes(b""),
        lambda folder: object_of(folder, "nights~2:box/environment.txt").unlink(),
        lambda folder: shorten(object_of(folder, "nights~2^{tree}")),
        lambda folder: object_of(folder, "nights~2^{tree}").unlink(),
        lambda folder: shorten(object_of(folder, "nights~2")),
        spoil_the_pack,
        lambda folder: (folder / ".git" / "refs" / "heads" / "nights.lock").touch(),
        lambda folder: (folder / ".git" / "HEAD").unlink(),
        lambda folder: (folder / ".git" / "config").write_text("[core"),
        lambda folder: shutil.rmtree(folder / ".git" / "objects"),
        lambda folder: (folder / ".git" / "refs" / "heads" / "nights").write_text("no hash\n"),
    ],
    ids=[
        *("half a blob", "an empty blob", "no blob", "half a tree", "no tree", "half a commit", "a damaged pack"),
        *("a lock left", "no HEAD", "half a configuration", "no objects", "half a branch"),
    ],
)
def test_a_broken_ledger_is_made_anew(tmp_path: Path, harm) -> None:
    hashes = repository.write(tmp_path / "ledger", NIGHTS[:-1])
    harm(tmp_path / "ledger")
    found = repository.write(tmp_path / "ledger", NIGHTS)
    assert found[:-1] == hashes
    kept = (f"{commit}:{night.machine.replace(' ', '%20')}/environment.txt" for commit, night in zip(found, NIGHTS, strict=True))
    assert git(tmp_path / "ledger", "show", *kept) == "".join(night.environment for night in NIGHTS)


@pytest.mark.parametrize("part", ["", ".git", ".git/objects", ".git/refs", ".git/HEAD"])
def test_a_ledger_that_leads_elsewhere_by_a_link_is_refused(tmp_path: Path, part: str) -> None:
    theirs, ledger = tmp_path / "theirs", tmp_path / "ledger"
    repository.write(theirs, NIGHTS[:1])
    repository.write(ledger, NIGHTS[:2])
    place.discard(ledger / part)
    (ledger / part).symlink_to(theirs / part)
    refused(ledger, ledger / part, theirs)


def test_a_ledger_that_is_anothers_worktree_is_refused(tmp_path: Path) -> None:
    theirs, ledger = tmp_path / "theirs", tmp_path / "ledger"
    repository.write(theirs, NIGHTS[:1])
    git(theirs, "worktree", "add", "--detach", "--quiet", str(ledger), "nights")
    refused(ledger, ledger / ".git", theirs)
    (ledger / ".git").unlink()
    (theirs / ".git" / "worktrees" / "ledger").rename(ledger / ".git")
    (ledger / ".git" / "commondir").write_text(f"{theirs / '.git'}\n")
    refused(ledger, ledger / ".git" / "commondir", theirs)


def refused(ledger: Path, named: Path, theirs: Path) -> None:
    """Writing names what leads elsewhere, and the repository there stays as it was."""
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    with pytest.raises(BadInput) as told:
        repository.write(ledger, NIGHTS)
    assert str(told.value).startswith(f"{named}: leads to another repository")
    assert {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()} == before


def test_without_git_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="git is not installed: install it"):
        repository.write(tmp_path / "ledger", NIGHTS)


def test_git_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'fatal: no space' >&2\nexit 128\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(BadInput, match="git cannot write the ledger of nights: fatal: no space"):
        repository.write(tmp_path / "ledger", NIGHTS)
