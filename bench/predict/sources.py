"""Which published rows come of the same people, and so are one source: what one of them says is no news of another.

In: observations. Out: the same, each with its source's name in `family`. Rows are of one source where the first word of their ids
is the same (`unsloth-007`, `unsloth-iss-001`), or where they name the same repository, whatever their ids; and so on from row to
row. That draws the circle too wide rather than too narrow: a source must never predict itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from bench.predict.evidence import Observation

REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")


def of_one_source(observations: Iterable[Observation]) -> list[Observation]:
    """In the same order; a source bears the first of its families' names in the alphabet."""
    rows = list(observations)
    named: dict[str, set[str]] = {}
    for seen in rows:
        if found := REPOSITORY.search(seen.source):
            named.setdefault(found.group().lower(), set()).add(seen.family)
    group = {seen.family: seen.family for seen in rows}
    for families in named.values():
        joined = {group[family] for family in families}
        group = {family: min(joined) if name in joined else name for family, name in group.items()}
    return [replace(seen, family=group[seen.family]) for seen in rows]
