"""The models of published measurements: a printed name -> an architecture.

In: `suites/catalog/published.toml`, and the catalogue's own names. Out: a `Model` for each printed name that they know, from the
catalogue or of its own configuration, with where that comes from. A row adds a name; owner, variant, format and separators of a
name are looked past (`spelling.model_key`), so that it need not stand there in every spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.catalog import CATALOG, catalogue
from bench.model import Model
from bench.predict.spelling import model_key
from bench.reading.architecture import model_of
from bench.reading.strict import BadFile, Problem, printable, problems_of, read_toml, shown

PLAIN = {
    "qwen2": {
        "model_type": "qwen2",
        "hidden_act": "silu",
        "max_position_embeddings": 32_768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "attention_dropout": 0.0,
    },
    "gemma": {"model_type": "gemma", "vocab_size": 256_000, "max_position_embeddings": 8192, "tie_word_embeddings": True},
    "gemma2": {"model_type": "gemma2", "vocab_size": 256_000, "max_position_embeddings": 8192, "tie_word_embeddings": True},
}
"""Families that no row of the catalogue is of, with what does not bear on memory or speed."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    names: list[str]
    is_: str | None = Field(None, alias="is")
    like: str | None = None
    config: dict[str, Any] = {}
    source: str | None = None
    note: str | None = None


class _Rows(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: list[_Row]


@cache
def model_named(printed: str) -> Model | None:
    """The model that a printed name means: one that stands in the file so, else one of the same key; else None."""
    exact = cited_models().get(printed)
    if exact is not None:
        return exact
    keys, key = _by_key(), model_key(printed)
    return keys.get(key) or keys.get(UNVERSIONED.sub("", key))


UNVERSIONED = re.compile(r"v\d+(\.\d+)*(?= |$)")
"""A version that no known name of the model bears changes nothing that is known here."""


@cache
def _by_key() -> Mapping[str, Model]:
    """By the one form of each known name; a form that two architectures share means neither."""
    known = [*((model.name, model) for model in catalogue().models.values()), *cited_models().items()]
    known += [(hub, catalogue().models[name]) for name, hub in catalogue().hubs.items()]
    found: dict[str, set[Model]] = {}
    for name, model in known:
        found.setdefault(model_key(name), set()).add(model)
    return MappingProxyType(
        {key: next(iter(models)) for key, models in found.items() if len({m.architecture for m in models}) == 1}
    )


@cache
def cited_models(folder: Path = CATALOG) -> Mapping[str, Model]:
    """By printed name. Raises BadFile with every fault of the file."""
    path = folder / "published.toml"
    try:
        rows = _Rows.model_validate(read_toml(path)).model
    except ValidationError as error:
        raise BadFile(problems_of(error, printable(str(path)), lambda details: "")) from None
    names = [name for row in rows for name in row.names]
    problems = [f"{shown(name)} stands twice" for name in sorted({name for name in names if names.count(name) > 1})]
    problems += [f"{shown(row.names[0])}: {fault}" for row in rows if (fault := _fault(row))]
    if problems:
        raise BadFile([Problem(printable(str(path)), "model", problem) for problem in problems])
    return MappingProxyType({name: model for row in rows for model in [_model(row)] for name in row.names})


def _fault(row: _Row) -> str | None:
    known = {*catalogue().models, *PLAIN}
    if (row.is_ is None) == (row.like is None):
        return "give `is`, a model of the catalogue, or `like` one with a config"
    if (row.is_ or row.like) not in known:
        return f"no model {shown(row.is_ or row.like)} in models.toml"
    if row.like is not None and row.source is None:
        return "source missing; say where the configuration comes from"
    return None


def _model(row: _Row) -> Model:
    if row.is_ is not None:
        return catalogue().models[row.is_]
    like = row.like or ""
    base = PLAIN.get(like) or catalogue().models[like].config
    config = {**base, **row.config}
    return model_of("cited-" + row.names[0].lower().split("/")[-1].split(" ")[0], config, "published.toml")
