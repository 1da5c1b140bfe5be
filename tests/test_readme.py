"""The README says what the code does."""

import re
import tomllib
from pathlib import Path

import pytest

from bench.cli import COMMANDS
from bench.suite import read_suite

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NOXFILE = (ROOT / "noxfile.py").read_text()


def test_both_lines_stand_in_the_readme() -> None:
    install = "python3 -m venv .venv && .venv/bin/pip install nox && .venv/bin/nox -s"
    lines = [line.strip() for line in README.splitlines() if line.strip().startswith("python3 -m venv")]
    assert lines == [f"{install} bench", f"{install} tests"]


def test_ci_runs_the_readmes_test_line() -> None:
    assert "grep -m1 'nox -s tests$' README.md" in (ROOT / ".ci" / "run").read_text()


def test_every_session_named_is_a_session() -> None:
    named = set(re.findall(r"nox -s ([a-z-]+)", README))
    declared = set(re.findall(r'name="([a-z-]+)"', NOXFILE)) | set(re.findall(r"^def ([a-z]+)\(session", NOXFILE, re.MULTILINE))
    assert named
    assert named <= declared


def test_every_command_named_is_a_command_and_the_other_way_round() -> None:
    assert set(re.findall(r"wingspan ([a-z]+)\b", README)) == set(COMMANDS)


def test_the_suite_shown_is_a_suite(tmp_path: Path) -> None:
    shown = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    path = tmp_path / "shown.toml"
    path.write_text(shown.group(1))
    assert read_suite(path).question == tomllib.loads(shown.group(1))["question"]


@pytest.mark.parametrize("path", re.findall(r"^  ([a-z_]+(?:\.py|/))", README, re.MULTILINE))
def test_every_part_of_the_layout_exists(path: str) -> None:
    assert (ROOT / "bench" / path).exists()
