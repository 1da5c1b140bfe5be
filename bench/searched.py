"""What a suite asks the edge of: its table `[frontier]`, judged beside the rest of the file.

In: what the file declares rightly, field by field. Out: the faults that only show when the table is held against the sweep, the
methods and the models; and the `Frontier` of a table without any.

    [frontier]
    sequence_length = {from = 256, to = 65536, step = 256}     # everything else as fixed: at that batch size
    batch_size = {from = 1, to = 128}                          # at that length
    model = true                                               # the largest of the swept models, at both
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.declaration import Declared
from bench.spec import SEARCHED, TRAINING_FIELDS, Frontier, Span

Faults = Iterator[tuple[str, str]]
"""(Path of the key, message)."""


def frontier(said: Mapping[str, Any]) -> Frontier | None:
    """The frontier of a faultless table; None where the suite has none."""
    if not said:
        return None
    whole = {name: said[name] for name in SEARCHED if _whole(said, name)}
    spans = [Span(name, span["from"], span["to"], span.get("step", 1)) for name, span in whole.items()]
    others = {name: value for name, value in said.items() if name not in SEARCHED}
    return Frontier(spans=tuple(spans), **others)


def _whole(said: Mapping[str, Any], name: str) -> bool:
    """Whether a span has both ends; one that lacks one is a fault already, and no reason to see no others."""
    return name in said and {"from", "to"} <= set(said[name])


def faults(said: Declared, content: Mapping[str, Any]) -> Faults:
    """A frontier that searches nothing, along a field that is swept too or that no method uses, or among no values."""
    raw = _table(content, "frontier")
    if "frontier" in content and not set(SEARCHED) & raw.keys() and raw.get("model", False) is False:
        yield "frontier", f"searches nothing; give {', '.join(SEARCHED)} a span, or say model = true"
    if said.frontier.get("model") and len(said.sweep.get("model", ())) < 2:
        yield "frontier.model", "the largest of one model is itself; sweep several models, or remove it"
    for name in (name for name in SEARCHED if name in said.frontier):
        yield from _span(said, name, _table(raw, name))


def _span(said: Declared, name: str, raw: Mapping[str, Any]) -> Faults:
    path, span = f"frontier.{name}", said.frontier[name]
    for key in ("from", "to"):
        if key not in raw:
            yield f"{path}.{key}", "missing; say between which values to search"
    if name in said.sweep:
        yield path, "is swept too; a field is either swept or searched"
    methods = said.values.get("method", [])
    if methods and not any(_uses(method, name) for method in methods):
        yield path, f"no method here uses it ({', '.join(methods)}); remove it, or add a method that does"
    if {"from", "to"} <= span.keys():
        yield from _ends(said, name, span)


def _ends(said: Declared, name: str, span: Mapping[str, int]) -> Faults:
    """A span that ends before it begins, or begins beyond what a model can take."""
    if span["to"] < span["from"]:
        yield f"frontier.{name}.to", f"{span['to']} is less than from, {span['from']}"
    elif span["from"] < span["to"] < span["from"] + span.get("step", 1):
        yield (
            f"frontier.{name}.step",
            f"{span['step']} leads beyond to, {span['to']}, at once: {span['from']} alone would be tried",
        )
    limits = {model.name: model.config.get("max_position_embeddings") for model in said.values.get("model", [])}
    short = [f"{model} ({limit})" for model, limit in limits.items() if limit is not None and span["from"] > limit]
    if short and name != "batch_size":
        yield f"frontier.{name}.from", f"{span['from']} exceeds the max_position_embeddings of {', '.join(short)}"


def _uses(method: str, name: str) -> bool:
    """Whether a method has the field at all."""
    return name not in TRAINING_FIELDS if method == "serve" else name != "prompt_tokens"


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    return found if isinstance(found, dict) else {}
