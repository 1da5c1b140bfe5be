"""Strict reading: a file of facts in, values or every fault at once out.

In: the path of a TOML or JSON file and pydantic's verdict on it. Out: the content, or a `BadInput` that holds one `Problem` for
each fault: the file, the path of the key, what is wrong, and what was probably meant. Whatever the bytes are, nothing but
`BadInput` is raised, and nothing that the file says reaches a terminal unescaped.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bench.spec import BadInput

MAX_FILE_BYTES = 2**18
MAX_DOTS = 64
"""In one line of TOML. tomllib's time grows with the square of a dotted key's parts: 50,000 of them take a minute."""
MAX_DEPTH = 16
SHOWN_CHARACTERS = 60
SHOWN_CHOICES = 8
MESSAGE_CHARACTERS = 400

Location = tuple[str | int, ...]
WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "string_pattern_mismatch": "a name of letters, digits, '.', '_' and '-'",
}
SAID = {"missing": "missing", "extra_forbidden": "unknown key", "too_short": "empty", "string_too_short": "empty"}
BOUNDS = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most", "less_than": "below"}


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a file. `path` is the key's, as in `sweep.method[1]`; empty where the whole file is meant."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.path, self.message) if part)


class BadFile(BadInput):
    """A file with faults: `problems` holds them all, the message is one line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file. Raises BadFile."""
    text = read_text(path)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MAX_DOTS:
            raise _bad(path, f"line {number}: more than {MAX_DOTS} dots; break it into several lines")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(path, _toml_message(str(error))) from None
    except RecursionError:
        raise _bad(path, "nested too deeply to be meant") from None
    except ValueError as error:
        raise _bad(path, f"not valid TOML: {printable(str(error))}") from None


def read_json(path: Path) -> Any:
    """The content of a JSON file; NaN, Infinity and keys that stand twice are refused. Raises BadFile."""
    text, twice = read_text(path), list[tuple[dict[str, Any], str]]()
    try:
        content = json.loads(text, parse_constant=_no_constant, object_pairs_hook=lambda pairs: _table(pairs, twice))
    except json.JSONDecodeError as error:
        raise _bad(path, f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None
    except RecursionError:
        raise _bad(path, "nested too deeply to be meant") from None
    except ValueError as error:
        raise _bad(path, f"not valid JSON: {printable(str(error))}") from None
    if twice:
        places = {id(table): where for where, table in _walk(content)}
        paths = [key_path((*places[id(table)], key)) for table, key in twice if id(table) in places]
        if paths:  # else they lie deeper than anything that is meant
            raise BadFile(Problem(printable(str(path)), each, "stands twice; keep one of them") for each in paths)
    return content


def _table(pairs: list[tuple[str, Any]], twice: list[tuple[dict[str, Any], str]]) -> dict[str, Any]:
    """A JSON object; the keys that it holds more than once are added to `twice`, with the object itself to find it by."""
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice += [(table, key) for key, count in counts.items() if count > 1]
    return table


def _walk(content: Any) -> Iterator[tuple[Location, Any]]:
    """Every value with its place, the outer before the inner, in the order of the file; without recursion, whatever the depth."""
    stack: list[tuple[Location, Any]] = [((), content)]
    while stack:
        where, value = stack.pop()
        yield where, value
        if isinstance(value, dict | list) and len(where) < MAX_DEPTH:
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            stack += reversed([((*where, key), inner) for key, inner in pairs])


def beyond_json(content: Any) -> Iterator[tuple[Location, str]]:
    """What no two readers of JSON would take alike: numbers beyond 64 bits, depths beyond meaning, types that JSON lacks."""
    for where, value in _walk(content):
        match value:
            case None | bool() | str():
                continue
            case int() if not -(2**63) <= value < 2**63:
                yield where, f"{shown(value)} is out of range: must fit into 64 bits"
            case float() if not math.isfinite(value):
                yield where, f"expected a finite number, got {shown(value)}"
            case dict() | list() if value and len(where) >= MAX_DEPTH:
                yield where, "nested too deeply to be meant"
            case int() | float() | dict() | list():
                continue
            case _:
                yield where, f"expected what JSON can hold, got {shown(value)}"


def read_text(path: Path) -> str:
    """The text of a regular UTF-8 file of at most `MAX_FILE_BYTES`; a byte order mark is dropped. Raises BadFile."""
    try:
        if path.exists() and not path.is_file():
            raise OSError(0, "it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a name with a NUL byte
        raise _bad(path, f"cannot be read: {error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise _bad(path, f"larger than {MAX_FILE_BYTES:,} bytes, and so not written by hand; give a smaller file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _bad(path, f"line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


def _bad(path: Path, message: str) -> BadFile:
    return BadFile([Problem(printable(str(path)), "", message)])


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _toml_message(text: str) -> str:
    found = re.fullmatch(r"(?s)(.*) \(at (line \d+, column \d+|end of document)\)", text)
    if found is None:
        return f"not valid TOML: {printable(text)}"
    return f"{found[2]}: not valid TOML: {printable(found[1])}"


def problems_of(error: ValidationError, file: str, remedy: Callable[[ErrorDetails], str]) -> list[Problem]:
    """Every fault that pydantic found, in its order. `remedy` may add to a message, after a semicolon.

    A validator may raise an error whose context holds `problems` of another file that a value names: each becomes one here.
    """
    found: list[Problem] = []
    for details in error.errors(include_url=False):
        inner = details.get("ctx", {}).get("problems")
        own = "; ".join(part for part in (_message(details), remedy(details)) if part)
        messages = [own] if inner is None else [str(problem) for problem in inner]
        found += [Problem(file, key_path(details["loc"]), message) for message in messages]
    return found


def _message(details: ErrorDetails) -> str:
    kind, value = details["type"], details["input"]
    if kind in SAID:
        return SAID[kind]
    if kind == "literal_error":
        return _unknown(details)
    if kind in BOUNDS:
        bound = str(next(iter(details.get("ctx", {}).values()))).removesuffix(".0")
        return f"{shown(value)} is out of range: must be {BOUNDS[kind]} {bound}"
    if kind in WANTED:
        return f"expected {WANTED[kind]}, got {shown(value)}"
    return printable(details["msg"][:MESSAGE_CHARACTERS])


def _unknown(details: ErrorDetails) -> str:
    """A value that is none of the choices; pydantic lists them as `'a', 'b' or 'c'`, numbers without quotes."""
    value, expected = details["input"], details.get("ctx", {}).get("expected", "")
    choices = re.findall(r"'([^']*)'", expected) or re.findall(r"[^\s,]+(?<!^or)", expected.replace(" or ", ", "))
    noun = next((part for part in reversed(details["loc"]) if isinstance(part, str)), "value")
    if not isinstance(value, str):
        return f"expected {one_of(choices)}, got {shown(value)}"
    return f"unknown {noun} {shown(value)}; {meant(value, choices)}"


def meant(value: str, choices: Sequence[str]) -> str:
    """The choice that was probably meant, else the choices."""
    close = get_close_matches(value.lower(), choices, n=1, cutoff=0.5)
    return f'did you mean "{close[0]}"?' if close else f"use {one_of(choices)}"


def one_of(choices: Sequence[str]) -> str:
    """The first choices in words."""
    return ("one of " if len(choices) > 1 else "") + first_of(choices)


def first_of(choices: Sequence[str]) -> str:
    """The first choices, joined by commas; an ellipsis says that there are more."""
    return ", ".join(choices[:SHOWN_CHOICES]) + (", …" if len(choices) > SHOWN_CHOICES else "")


def key_path(location: Location) -> str:
    """`("sweep", "method", 1)` as `sweep.method[1]`; a key that TOML would quote is quoted."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in location]
    return "".join(parts).removeprefix(".")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else shown(name)


def shown(value: Any) -> str:
    """A value of the file in a message: one line, no control characters, not too long."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            text = value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…"
            return f'"{printable(text)}"'
        case int() if value.bit_length() > 128:
            return f"a number of {value.bit_length()} bits"
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """The text with everything escaped that a terminal might obey or hide."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
