"""What the benchmarks take from the package is there: they run for hours, on demand, and would only then be found broken."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PERF = Path(__file__).parent / "perf"


def taken(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything of `bench` that a file imports by name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "bench":
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("path", sorted(PERF.glob("*.py")), ids=lambda path: path.stem)
def test_every_name_that_a_benchmark_imports_is_there(path: Path) -> None:
    missing = []
    for module, name in taken(path):
        found = import_module(module)
        if not hasattr(found, name):
            try:
                import_module(f"{module}.{name}")
            except ModuleNotFoundError:
                missing.append(f"{module}:{name}")
    assert missing == []


def test_names_were_found() -> None:
    assert ("bench.backends.hf_train", "bare_tokenizer") in set(taken(PERF / "bare_hf.py"))
