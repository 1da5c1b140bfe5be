"""A lock is every installed package but this one, stays where it is, and says what differs from it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.environments import installed
from bench.locks import changes, constraints, locked, settle, write
from bench.nox_sessions.lock import night_of

NIGHT = "2026-11-30"
VERSIONS = {"click": "8.5.0", "torch": "2.13.0+cpu"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "cpu.txt"


def test_names_are_normalised_and_what_installs_is_left_out():
    listed = ["MLX_LM==0.32.2", "wingspan==0.1.0", "pip==26.0", "ruamel.yaml==0.18"]
    assert constraints(listed) == {"mlx-lm": "0.32.2", "ruamel-yaml": "0.18"}


def test_a_lock_reads_as_it_was_written_and_is_a_constraints_file(lock):
    write(lock, VERSIONS, NIGHT)
    assert locked(lock) == VERSIONS
    lines = lock.read_text().splitlines()
    assert all(each.startswith("# ") for each in lines[:3])
    assert lines[3:] == ["click==8.5.0", "torch==2.13.0+cpu"]


def test_lines_of_other_kinds_in_a_lock_are_passed_over(lock):
    lock.parent.mkdir()
    lock.write_text("\n# torch==1.0\nclick==8.5.0  # as of today\n--find-links /wheels\nnumpy>=2\n")
    assert locked(lock) == {"click": "8.5.0"}


def test_where_there_is_no_lock_what_is_installed_becomes_it(lock):
    assert settle(lock, VERSIONS, NIGHT, refresh=False) == [f"{lock}: 2 packages, locked from now on"]
    assert locked(lock) == VERSIONS
    assert settle(lock, VERSIONS, "2026-12-02", refresh=False) == [f"{lock}: as locked"]
    assert (locked(lock), night_of(lock)) == (VERSIONS, "2026-12-02"), "a night in these versions has begun"


def test_a_lock_keeps_its_versions_names_the_night_and_what_differs_from_it_is_told(lock):
    write(lock, VERSIONS, NIGHT)
    told = settle(lock, {"click": "8.6.0", "new": "1"}, "2026-12-01", refresh=False)
    assert told == [f"{lock}: installed is not what it says", "click 8.5.0 -> 8.6.0", "new 1 added", "torch 2.13.0+cpu removed"]
    assert (locked(lock), night_of(lock)) == (VERSIONS, "2026-12-01")


def test_a_refreshed_lock_is_what_is_installed_and_tells_what_changed(lock):
    write(lock, VERSIONS, NIGHT)
    newer = VERSIONS | {"click": "8.6.0"}
    assert settle(lock, newer, "2026-12-01", refresh=True) == [f"{lock}: 1 packages changed", "click 8.5.0 -> 8.6.0"]
    assert (locked(lock), night_of(lock)) == (newer, "2026-12-01")
    assert settle(lock, newer, "2026-12-02", refresh=True) == [f"{lock}: nothing newer"]
    assert night_of(lock) == "2026-12-02", "this night has been refreshed too"


def test_nothing_changed_between_equals():
    assert changes(VERSIONS, dict(VERSIONS)) == []


def test_it_is_about_the_environment_that_it_is_started_in(lock):
    command = [sys.executable, "-m", "bench.locks", str(lock), NIGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "locked from now on" in done.stderr
    assert locked(lock) == constraints(installed().distributions)
    assert "pytest" in locked(lock)
    assert "/" not in lock.read_text().partition("\n")[2], "no path of this computer"


def test_a_lock_that_cannot_be_read_is_one_line(lock):
    lock.parent.mkdir()
    lock.write_bytes(b"\xff\xfe\x00")
    command = [sys.executable, "-m", "bench.locks", str(lock), NIGHT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{lock}: not a text in UTF-8; mend it, or remove it")
    assert done.stderr.count("\n") == 1


def test_pip_takes_a_lock_as_constraints(lock):
    """The real pip, on what is installed: nothing is fetched, and a version that is not there is refused."""
    write(lock, {"click": constraints(installed().distributions)["click"]}, NIGHT)
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet", "click", "--constraint", str(lock)]
    subprocess.run(pip, check=True, capture_output=True)
    write(lock, {"click": "0.0.1"}, NIGHT)
    assert subprocess.run(pip, check=False, capture_output=True).returncode != 0
