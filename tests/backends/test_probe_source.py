"""What stands in a package's files is found by reading them, and they are never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from planted_packages import plant

from bench.backends.probe_source import Nowhere, default_of, definition, mention, module_file

BOOM = "raise RuntimeError('imported')\n"
MODULE = (
    BOOM
    + """
from elsewhere import Alias as Renamed
try:
    import faster
except ImportError:
    faster = None
if True:
    def guarded(): ...
CONSTANT: int = 3

class Settings:
    bits: int = 8
    name: str = make()
    def method(self, a, b=2, *, c=True): ...

class Built:
    def __init__(self, width, depth=3): ...

def work(first, /, second=1, *, third=-2.5, fourth): ...
"""
)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    return lambda files: plant(tmp_path, monkeypatch, "planted-thing", files)


@pytest.mark.parametrize(
    "path", ["Renamed", "faster", "guarded", "CONSTANT", "Settings", "Settings.method", "Settings.bits", "work"]
)
def test_names_are_found_and_nothing_is_run(planted: Callable[[dict[str, str]], None], path: str) -> None:
    planted({"planted/__init__.py": BOOM, "planted/inner/__init__.py": BOOM, "planted/inner/module.py": MODULE})
    assert definition("planted.inner.module", path) is not None


@pytest.mark.parametrize("path", ["nothing", "Settings.nothing", "a", "method", "Alias"])
def test_names_that_the_module_does_not_bind_are_nowhere(planted: Callable[[dict[str, str]], None], path: str) -> None:
    planted({"planted/__init__.py": BOOM, "planted/module.py": MODULE})
    with pytest.raises(Nowhere, match=f"no planted.module:{path}"):
        definition("planted.module", path)


def test_a_missing_module_is_nowhere_and_a_missing_package_is_no_answer(planted: Callable[[dict[str, str]], None]) -> None:
    planted({"planted/__init__.py": BOOM, "planted/stub.pyi": "x: int"})
    assert module_file("planted.stub").suffix == ".pyi"
    assert module_file("planted").name == "__init__.py"
    with pytest.raises(Nowhere):
        module_file("planted.gone")
    with pytest.raises(ModuleNotFoundError):
        module_file("never_planted.gone")


@pytest.mark.parametrize(
    ("path", "parameter", "default"),
    [
        ("work", "first", None),
        ("work", "second", 1),
        ("work", "third", -2.5),
        ("work", "fourth", None),
        ("Settings", "bits", 8),
        ("Settings", "name", "make()"),
        ("Settings.method", "c", True),
        ("Built", "depth", 3),
    ],
)
def test_defaults(planted: Callable[[dict[str, str]], None], path: str, parameter: str, default: object) -> None:
    planted({"planted/__init__.py": BOOM, "planted/module.py": MODULE})
    assert default_of(definition("planted.module", path), parameter) == default


@pytest.mark.parametrize("path", ["work", "Settings", "Built", "CONSTANT"])
def test_a_parameter_that_is_not_there_is_nowhere(planted: Callable[[dict[str, str]], None], path: str) -> None:
    planted({"planted/__init__.py": BOOM, "planted/module.py": MODULE})
    with pytest.raises(Nowhere):
        default_of(definition("planted.module", path), "gone")


@pytest.mark.parametrize(
    ("word", "found"),
    [("nf4", True), ("NF4", True), ("dense", True), ("f4", False), ("nf", False), ("lora+", True), ("only_text", False)],
)
def test_words_are_whole_in_any_case_and_in_python_files_alone(
    planted: Callable[[dict[str, str]], None], word: str, found: bool
) -> None:
    planted({"planted/a.py": "x = 1", "planted/b.py": "# Nf4_dense, LoRA+", "planted/c.txt": "only_text"})
    assert (mention("planted-thing", (word,)) is not None) == found


def test_words_are_looked_for_within_a_folder(planted: Callable[[dict[str, str]], None]) -> None:
    planted({"planted/a.py": "galore", "planted/mlx/b.py": "muon"})
    assert mention("planted-thing", ("galore",), "planted/mlx/") is None
    assert mention("planted-thing", ("galore", "muon"), "planted/mlx/") == "planted/mlx/b.py has “muon”"
    with pytest.raises(FileNotFoundError, match="planted-thing lists no Python files in planted/gone/"):
        mention("planted-thing", ("galore",), "planted/gone/")
