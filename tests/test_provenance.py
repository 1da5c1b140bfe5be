"""Which code and which packages: read from a real clone and a real environment."""

import subprocess
from dataclasses import replace
from pathlib import Path

from bench.environments import installed
from bench.provenance import provenance, source_revision
from bench.record import Gpu, Machine


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    return subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def test_the_revision_of_a_clone_and_its_dirt(tmp_path: Path) -> None:
    assert source_revision(tmp_path) is None
    git(tmp_path, "init", "-q")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "x.py").write_text("1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    revision = git(tmp_path, "rev-parse", "HEAD")
    assert source_revision(tmp_path) == revision
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "new").write_text("rows are not code")
    assert source_revision(tmp_path) == revision
    (tmp_path / "bench" / "x.py").write_text("2")
    assert source_revision(tmp_path) == f"{revision}-dirty"


def test_a_folder_inside_someone_elses_clone_has_no_revision_of_ours(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "inner").mkdir()
    assert source_revision(tmp_path / "inner") is None


def test_the_driver_is_among_the_versions(machine: Machine) -> None:
    assert "driver" not in provenance(machine).versions
    with_card = replace(machine, gpus=(Gpu("NVIDIA GeForce RTX 4090", 25_757_220_864, "GPU-1", "580.1"),))
    found = provenance(with_card)
    assert found.versions["driver"] == "580.1"
    assert found.versions["os"] == "Test OS 1"


def test_the_packages_are_given_with_their_digest(machine: Machine) -> None:
    found = provenance(machine)
    assert found.environment == installed()
    assert found.environment_digest == installed().digest
    assert len(found.environment_digest) == 16
