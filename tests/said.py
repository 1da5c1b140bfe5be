"""Every English text that a report can say, read off the sources: no test needs to bring it about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import bench.report
from bench.metrics import METRICS
from bench.report.ladder import MEMORY
from bench.trust.flags import FLAGS

SOURCES = Path(bench.report.__file__).parent


@cache
def texts() -> frozenset[str]:
    """The first arguments of `say`, `to_say` and `Column`, those of the templates, and what flags and meters are called."""
    said = {text for path in SOURCES.rglob("*.py") for text in _in_python(path.read_text("utf-8"))}
    said |= {text for path in SOURCES.glob("templates/*.j2") for text in re.findall(r'\bsay\("([^"]+)"', path.read_text("utf-8"))}
    said |= {text for flag in FLAGS.values() for text in (flag.cause, flag.remedy)}
    return frozenset(said | {METRICS[name].label for name in MEMORY})


def _in_python(source: str) -> Iterator[str]:
    for call in _calls(source, "say", "to_say", "Column"):
        first = call.args[0]
        if isinstance(first, ast.Constant) and not any(keyword.arg == "as_is" for keyword in call.keywords):
            yield str(first.value)


def pieced_together(source: str) -> list[int]:
    """The lines on which `say` or `to_say` gets an f-string or a text put together, which no translation can be found by."""
    return [call.lineno for call in _calls(source, "say", "to_say") if isinstance(call.args[0], ast.JoinedStr | ast.BinOp)]


def _calls(source: str, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node
