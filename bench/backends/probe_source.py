"""What stands in a package's files: names and parameters found by reading them, and words that stand in none of them.

In: the name of a module and of something in it, or a distribution and a word. Out: whether it is there. Nothing is imported: some
packages refuse to be, without a card, and others patch everything that they find.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SUFFIXES = (".py", ".pyi")


class Nowhere(LookupError):
    """What was looked for is not there; the message says what."""


def module_file(module: str) -> Path:
    """The file of a module, its parents unimported. Raises Nowhere; ModuleNotFoundError where even its package is missing."""
    package, *inner = module.split(".")
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}")
    for folder in found.submodule_search_locations:
        path = Path(folder, *inner)
        for candidate in (*(path.with_name(path.name + suffix) for suffix in SUFFIXES if inner), path / "__init__.py"):
            if candidate.is_file():
                return candidate
    raise Nowhere(f"no module {module}")


def definition(module: str, path: str) -> ast.AST:
    """Where the module binds that name; a dotted path leads into classes.

    Raises Nowhere, and SyntaxError for a file that cannot be understood.
    """
    node: ast.AST = ast.parse(module_file(module).read_text(encoding="utf-8"))
    for name in path.split("."):
        node = _bound(node, name, f"{module}:{path}")
    return node


def _bound(scope: ast.AST, name: str, where: str) -> ast.AST:
    for node in _statements(scope):
        if name in _names(node):
            return node
    raise Nowhere(f"no {where}")


def _statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """The scope's own statements, also those under `if`, `try` and `with`; not those of functions and classes in it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _statements(child)


def _names(node: ast.stmt) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return (node.name,)
        case ast.Import() | ast.ImportFrom():
            return tuple(alias.asname or alias.name for alias in node.names)
        case ast.Assign():
            return tuple(target.id for target in node.targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case _:
            return ()


def default_of(found: ast.AST, parameter: str) -> Any:
    """The default of a function's parameter, of a class's field or of a parameter of its `__init__`; None where it has none.

    Raises Nowhere where there is no such parameter. A default that is more than a constant is given as its text.
    """
    value = _default_node(found, parameter)
    if value is None:
        return None
    try:
        return ast.literal_eval(value)
    except ValueError:
        return ast.unparse(value)


def _default_node(found: ast.AST, parameter: str) -> ast.expr | None:
    if isinstance(found, ast.ClassDef):
        for node in found.body:
            if isinstance(node, ast.AnnAssign) and parameter in _names(node):
                return node.value
        found = _bound(found, "__init__", f"parameter {parameter}")
    if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        given = found.args
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
        for argument, default in (
            *zip(positional, defaults, strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ):
            if argument.arg == parameter:
                return default
    raise Nowhere(f"no parameter {parameter}")


def mention(distribution_name: str, words: tuple[str, ...], within: str = "") -> str | None:
    """The first Python file of an installed distribution that has one of the words, whole and in any case; None: none has.

    `within` is the start of the paths that are searched. An underscore ends a word: `nf4` stands in `nf4_dense`.
    Raises PackageNotFoundError, and FileNotFoundError where the distribution lists no such files.
    """
    asked = re.compile("|".join(rf"(?<![a-z0-9]){re.escape(word.lower())}(?![a-z0-9])" for word in words))
    listed = [
        file for file in distribution(distribution_name).files or () if str(file).startswith(within) and file.suffix in SUFFIXES
    ]
    if not listed:
        raise FileNotFoundError(f"{distribution_name} lists no Python files" + (f" in {within}" if within else ""))
    for file in listed:
        found = asked.search(Path(str(file.locate())).read_text(encoding="utf-8", errors="replace").lower())
        if found:
            return f"{file} has “{found[0]}”"
    return None
