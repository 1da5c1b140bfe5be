"""Sentences that are known by their shape: said in the reader's language by whoever knows how, far from where they were worded.

In: a sentence in English, and the texts with {named} places that it may be one of, none with a plural form. Out: the first that
it is, in the language that is spoken. What predicts, judges and compares does not know that there are readers in other languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from bench.report.language import say

Places = Mapping[str, Callable[[str], str]]
"""How what stands in a place of that name is said, where it isn't data."""


def by_shape(sentence: str, texts: Iterable[str], places: Places) -> str | None:
    """The sentence as the first text whose shape it has; None where it has none of them."""
    for text in texts:
        if found := shape(text).fullmatch(sentence):
            return say(text, **{name: places.get(name, str)(value) for name, value in found.groupdict().items()})
    return None


@cache
def shape(text: str) -> re.Pattern[str]:
    """A pattern that knows the text, whatever stands in its places."""
    parts = re.split(r"\{(\w+)\}", text)
    return re.compile("".join(f"(?P<{part}>.+)" if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))
