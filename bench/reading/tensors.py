"""The header of a safetensors file, checked against itself and the file's size.

In: the path of a file. Out: its tensors by name, each with its kind, shape and place; or the first thing wrong with the file. No
framework is needed, and none of the data is read.

The format: 8 bytes that give the header's length, little-endian; the header, a JSON object of tensors by name with `dtype`,
`shape` and `data_offsets`; then the data, without holes. Source: the README of github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.reading.strict import BadFile, Problem, printable, shown

DTYPE_BYTES: Mapping[str, int] = {
    **{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1},
    **{"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1},
}
"""Bytes of an element, by the format's name of its kind."""
MAX_HEADER_BYTES = 100_000_000
MOST_DIMENSIONS = 16
"""The format's own limit."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint: `start` and `stop` are the places of its bytes in `file`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stop: int


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of one file. Raises BadFile with what is wrong with it first."""
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > MAX_HEADER_BYTES:
            raise BadFile([fault(path, "is no safetensors file (Git LFS leaves a short text in its place); fetch it again")])
        if size < 8 + length:
            raise BadFile([_truncated(path, 8 + length, size)])
        header = _parsed(path, stream.read(length))
    tensors = {name: _tensor(path, name, entry, 8 + length) for name, entry in header.items() if name != "__metadata__"}
    end = 8 + length
    for tensor in sorted(tensors.values(), key=lambda each: (each.start, each.stop)):
        if tensor.start != end:
            raise BadFile([fault(path, f"{shown(tensor.name)} starts at byte {tensor.start}, expected {end}; fetch it again")])
        end = tensor.stop
    if size < end:
        raise BadFile([_truncated(path, end, size)])
    if size > end:
        raise BadFile([fault(path, f"has {size - end:,} bytes more than its header accounts for; fetch it again")])
    return tensors


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise BadFile([fault(path, "is no safetensors file: its header is no JSON object; fetch it again")])
    return header


def _tensor(path: Path, name: str, entry: Any, data: int) -> Tensor:
    """One entry of a header; `data` is where the data begin."""
    given: dict[str, Any] = entry if isinstance(entry, dict) else {}
    kind, shape, places = (given.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or kind not in DTYPE_BYTES:
        raise BadFile([fault(path, f"{shown(name)} is of an unknown dtype, {shown(kind)}; known are {', '.join(DTYPE_BYTES)}")])
    if shape is None or places is None or not (_counts(shape) and _counts(places) and len(places) == 2):
        raise BadFile([fault(path, f"{shown(name)} has no shape, or no place in the file; fetch it again")])
    size = math.prod(shape) * DTYPE_BYTES[kind]
    if places[1] - places[0] != size:
        taken = places[1] - places[0]
        raise BadFile([fault(path, f"{shown(name)} takes {taken:,} bytes, its shape and dtype make {size:,}; fetch it again")])
    return Tensor(name, kind, tuple(shape), path, data + places[0], data + places[1])


def _counts(value: Any) -> bool:
    """Whether this is a list of whole numbers that can be sizes or places."""
    return (
        isinstance(value, list)
        and len(value) <= MOST_DIMENSIONS
        and all(type(each) is int and 0 <= each < 2**63 for each in value)
    )


def opened(path: Path) -> IO[bytes]:
    """The file, to be read. Raises BadFile."""
    try:
        if path.exists() and not path.is_file():
            raise BadFile([fault(path, "is no regular file")])
        return path.open("rb")
    except FileNotFoundError:
        raise BadFile([fault(path, "is missing; fetch it again")]) from None
    except OSError as error:
        raise BadFile([fault(path, f"cannot be read: {error.strerror}")]) from None


def _truncated(path: Path, wanted: int, size: int) -> Problem:
    return fault(path, f"is truncated: {size:,} of {wanted:,} bytes are there; fetch it again")


def fault(path: Path, message: str) -> Problem:
    """What is wrong with a file or a folder as a whole."""
    return Problem(printable(str(path)), "", printable(message))
