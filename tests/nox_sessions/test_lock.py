"""A lock is named after all that its versions hang on, and says whose night's they are."""

import platform
import sys
from pathlib import Path

import pytest

from bench.nox_sessions.lock import BadLock, head, marked, night_of, path_of, versions_in


def test_it_is_named_after_environment_system_processor_and_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    assert path_of(Path("results"), "mac") == Path(f"results/locks/mac-darwin-arm64-{python}.txt")


def test_its_night_is_read_from_its_head(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(head("2026-11-30") + "click==8.5.0\n")
    assert night_of(lock) == "2026-11-30"


def test_it_is_of_the_night_that_it_was_last_installed_for_and_nothing_else_of_it_changes(tmp_path: Path) -> None:
    """Also one of a release that wrote no such line, and one whose versions were put back by hand."""
    lock, versions = tmp_path / "lock.txt", "click==8.5.0\n# kept back\ntorch==2.13.0\n"
    for old in (head("2026-11-29"), "# Taken on the night of 2026-11-29\n", ""):
        text = marked(marked(old + versions, "2026-11-30"), "2026-12-01")
        lock.write_text(text)
        assert night_of(lock) == "2026-12-01"
        assert text.endswith(versions)
        assert ("# Taken on the night of 2026-11-29\n" in text) == bool(old)
        assert text.count("2026-1") == 1 + bool(old)
    lock.write_text("# Taken on the night of 2026-11-29\n" + versions)
    assert night_of(lock) == "2026-11-29"


HAND_WRITTEN = """\ufeff# Taken on the night of 2026-11-29\r
torch == 2.13.0 ; python_version > "3"\r
old==1 ; python_version < "3"
Bad_Name===1
mlx-lm==0.32.2 --hash=sha256:00  # as of today
click==8.5.0 \\
    --hash=sha256:00
-e .
--find-links /wheels
numpy>=2
range==1.*
foo @ https://example.org/foo==1.whl
"""


def test_what_pins_a_version_is_read_and_the_rest_is_passed_over(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_bytes(HAND_WRITTEN.encode())
    assert versions_in(lock) == {"torch": "2.13.0", "bad-name": "1", "mlx-lm": "0.32.2", "click": "8.5.0"}
    assert night_of(lock) == "2026-11-29"


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "=======", "torch==", "==1.0", "torch 2.13.0"])
def test_a_line_that_is_no_requirement_is_named_with_the_remedy(line: str, tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"click==8.5.0\n{line}\n")
    with pytest.raises(BadLock) as told:
        versions_in(lock)
    assert str(told.value).startswith(f"{lock}: line 2: {line!r} is no requirement such as torch==2.13.0; mend it, or remove it")


def test_one_that_was_written_by_hand_is_of_no_night(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("click==8.5.0\n")
    assert night_of(lock) is None
