"""What a night's commit in the ledger says: the environment that its runs were made in, line by line.

In: the night's runs, in an order of which the last of each backend tells best. Out: text in which two nights differ by the
lines of what changed, for `git log -p` to show. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.environments import Environment
from bench.epochs import Conditions


def describe(machine: str, rows: Iterable[Mapping[str, Any]], known: Mapping[str, Environment]) -> str:
    """One block per environment, headed by the backends that ran in it; all installed packages where `known` has their list."""
    last = {f"{row['backend']}@{row['device']}": Conditions.of(row) for row in rows}
    blocks: dict[str, list[str]] = {}
    for party, conditions in sorted(last.items()):
        blocks.setdefault("\n".join(_lines(conditions, known)), []).append(party)
    return "\n\n".join([f"machine {machine}", *(f"[{', '.join(parties)}]\n{text}" for text, parties in blocks.items())]) + "\n"


def _lines(conditions: Conditions, known: Mapping[str, Environment]) -> Iterator[str]:
    told = {
        "environment": conditions.environment_digest,
        "python": conditions.versions.get("python"),
        "system": conditions.system,
        "driver": conditions.driver,
        "harness": conditions.source_revision,
    }
    yield from (f"{name} {value}" for name, value in told.items() if value)
    yield from (f"{name} {value}" for name, value in conditions.settings.items())
    listed = known.get(conditions.environment_digest or "")
    if listed is not None:
        yield from listed.distributions
    else:
        own = {name: version for name, version in conditions.versions.items() if name not in ("python", "os", "driver")}
        yield from (f"{name}=={version}" for name, version in sorted(own.items()))
