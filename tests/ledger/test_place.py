"""The folder of the ledger: held by one at a time, and made and cleared whatever stands there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from bench.ledger import place
from bench.spec import BadInput


def free(path: Path) -> bool:
    """Whether nobody holds it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "asv" / "lock"
    with place.held(tmp_path):
        assert not free(lock)
    assert free(lock)
    with place.turn(tmp_path):
        assert not free(tmp_path)
    assert free(tmp_path)


def test_a_child_that_inherits_the_lock_outlives_its_parent(tmp_path: Path) -> None:
    with place.held(tmp_path) as descriptor:
        inherited = os.dup(descriptor)
    assert not free(tmp_path / "asv" / "lock")
    os.close(inherited)
    assert free(tmp_path / "asv" / "lock")


def test_a_folder_is_made_with_its_parents_and_nothing_is_overwritten(tmp_path: Path) -> None:
    place.make_folder(tmp_path / "a" / "b")
    place.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "dangling"):
        with pytest.raises(BadInput, match=f"{name}: is no folder, and one is needed there for .*{name}/b/c"):
            place.make_folder(tmp_path / name / "b" / "c")
    assert (tmp_path / "file").read_text() == "mine"


def test_whatever_is_there_is_discarded_but_never_what_a_link_leads_to(tmp_path: Path) -> None:
    mine, there = tmp_path / "mine", tmp_path / "there"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    for make in (
        lambda: there.symlink_to(mine),
        lambda: there.symlink_to(tmp_path / "nowhere"),
        lambda: there.write_text("a file"),
        lambda: (there / "sub").mkdir(parents=True),
        lambda: None,
    ):
        make()
        place.discard(there)
        assert not os.path.lexists(there)
    assert (mine / "thesis.tex").exists()
