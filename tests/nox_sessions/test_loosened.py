"""A pin becomes a lower bound, a ceiling goes, and all else that an extra says stays as it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bench.nox_sessions.loosened import loosened


def project(folder: Path, **extras: list[str]) -> Path:
    path = folder / "pyproject.toml"
    lines = [f"{name.replace('_', '-')} = {requirements!r}" for name, requirements in extras.items()]
    path.write_text("\n".join(['[project]\nname = "Wing_span"\n[project.optional-dependencies]', *lines]))
    return path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("trl==1.16.0", "trl>=1.16.0"),
        ("trl===1.16.0", "trl>=1.16.0"),
        ("trl~=1.16", "trl>=1.16"),
        ("trl==1.*", "trl>=1"),
        ("torch==2.13.0+cpu", "torch>=2.13.0"),
        ("torch>=2.13,<2.16", "torch>=2.13"),
        ("torch<=2.16", "torch"),
        ("torch>2", "torch>2"),
        ("trl==1.16.0,!=1.17.0", "trl!=1.17.0,>=1.16.0"),
        ("trl", "trl"),
        ("mlx[cpu]==0.32.4; sys_platform == 'linux'", 'mlx[cpu]>=0.32.4; sys_platform == "linux"'),
        ("here @ https://example.org/here-1.tar.gz", "here@ https://example.org/here-1.tar.gz"),
    ],
)
def test_what_becomes_of_a_requirement(tmp_path: Path, given: str, expected: str) -> None:
    (found,) = loosened(project(tmp_path, cpu=[given]), "cpu")
    assert Requirement(found) == Requirement(expected)


def test_what_is_held_stays_by_whatever_spelling(tmp_path: Path) -> None:
    path = project(tmp_path, cpu=["Torch_Audio==2.13.0", "trl==1.16.0"])
    assert loosened(path, "cpu", ["torch-audio"]) == ["Torch_Audio==2.13.0", "trl>=1.16.0"]


def test_the_projects_own_extras_are_resolved_with_the_marker_under_which_they_are_wanted(tmp_path: Path) -> None:
    path = project(
        tmp_path,
        flash=["wing-span[under]; sys_platform == 'linux'", "flash-attn==2.8"],
        under=["wing.span[base]", "unsloth==1; python_version < '4' or python_version > '5'"],
        base=["trl==1.16.0"],
    )
    trl, unsloth, flash = map(Requirement, loosened(path, "flash"))
    assert str(flash) == "flash-attn>=2.8"
    assert str(trl) == 'trl>=1.16.0; sys_platform == "linux"'
    assert unsloth.marker is not None
    assert unsloth.marker.evaluate({"sys_platform": "linux"})
    assert not unsloth.marker.evaluate({"sys_platform": "darwin"})


def test_an_extra_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="gpu"):
        loosened(project(tmp_path, cpu=[]), "gpu")


def test_the_real_pip_reads_it() -> None:
    """What is installed here satisfies it, so nothing is fetched."""
    wanted = loosened(Path(__file__).parents[2] / "pyproject.toml", "dev")
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "--quiet"]
    only = [each for each in wanted if Requirement(each).name in ("pytest", "ruff", "mypy")]
    assert len(only) == 3
    subprocess.run([*pip, *only], check=True, capture_output=True)
