"""A file's own digest, inside the file: any change of any bit is seen.

In: a file's bytes that hold a blank seal once. Out: the same bytes with the seal filled in, or the finding that a seal does not
hold. The seal is SHA-256 over the whole file, taken with the seal's digits at zero. Files already written bear it: its form must
never change.
"""

from __future__ import annotations

import hashlib

_MARK, _DIGITS = b"wingspan-sha256:", 64
_ZEROS = b"0" * _DIGITS
BLANK = (_MARK + _ZEROS).decode()
"""What a file holds before it is sealed. It must be the last text of its kind in the file."""


def seal(content: bytes) -> bytes:
    """The content with its blank seal filled in, same length. Raises ValueError where there is none."""
    start = _digits_at(content)
    if content[start : start + _DIGITS] != _ZEROS:
        raise ValueError("is sealed already")
    return content[:start] + _digest(content, start) + content[start + _DIGITS :]


def check_seal(content: bytes) -> None:
    """Raises ValueError where the content bears no seal, or is not what was sealed."""
    start = _digits_at(content)
    if content[start : start + _DIGITS] != _digest(content, start):
        raise ValueError("its content is not what was written: the seal does not hold")


def _digits_at(content: bytes) -> int:
    found = content.rfind(_MARK)
    if found < 0:
        raise ValueError("is empty" if not content else "bears no seal: cut short, damaged, or not written by this program")
    return found + len(_MARK)


def _digest(content: bytes, start: int) -> bytes:
    digest = hashlib.sha256(content[:start])
    digest.update(_ZEROS)
    digest.update(content[start + _DIGITS :])
    return digest.hexdigest().encode()
