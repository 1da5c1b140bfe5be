"""Text that means nothing to a Markdown renderer.

In: any value. Out: its text on one line, with everything that CommonMark, GitHub's tables and links or raw HTML could act on
made literal. It is the `finalize` of the Markdown template, so that no value reaches the page without it; and no value begins
a line there, so that lists, headings and rules cannot begin with one.
"""

from __future__ import annotations

import re
from typing import Any

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "@": "&#64;", ":": "&#58;", ".": "&#46;"}
_INSIDE_A_WORD = r"(?<=[a-z0-9])(?:_(?=[a-z0-9])|@(?=[a-z0-9]+(?![\w.@-])))"
"""`batch_size` is no emphasis; `hf@cpu` is neither a mention, which begins a word, nor an address, whose host has a dot."""
_SPACES = re.compile(r"[^\S\u00a0\u202f]+")
"""Every space and end of line but those that a language sets at which no line may break."""
_ACTIVE = re.compile(rf"(?!{_INSIDE_A_WORD})[\\`*_\[\]#~$&<>|@]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def literal(value: Any) -> str:
    """The value's text as it is to be read.

    Emphasis, code, links, images, mathematics and references are escaped by backslashes. HTML, table bars and what makes a
    bare address a link (`@`, `://`, `www.`) become entities, which renderers without backslash escapes understand too.
    """
    return _ACTIVE.sub(lambda found: _ENTITIES.get(found[0], "\\" + found[0]), _SPACES.sub(" ", str(value)).strip())
