"""Rotary settings of a `config.json`, checked and brought to one spelling.

In: the configuration as a dictionary, with `rope_scaling` or, as transformers 5 writes it, `rope_parameters`. Out: the same as
`rope_theta` and `rope_scaling`, which both stacks read; or what is wrong with them. Nothing is left to a default where the
stacks have different ones: a `llama3` scaling without its old context length would be 8192 to one and
`max_position_embeddings` to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict

RopeType = Literal["default", "linear", "dynamic", "yarn", "longrope", "llama3"]
"""The types that transformers and mlx-lm both compute."""
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""What each type cannot do without, after the checks in transformers' `modeling_rope_utils.py`."""
TABLES = ("rope_scaling", "rope_parameters")
MAX_POSITIONS = 2**26

Theta = Annotated[float, Gt(0), Le(1e12)]
Factor = Annotated[float, Gt(0), Le(1e6)]


class Rope(BaseModel):
    """One table of rotary settings. A key that neither stack reads is a slip: it would change nothing, and nobody would know."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    rope_type: RopeType | None = None
    type: RopeType | None = None  # the older name
    rope_theta: Theta | None = None
    factor: Factor | None = None
    low_freq_factor: Factor | None = None
    high_freq_factor: Factor | None = None
    original_max_position_embeddings: Annotated[int, Ge(1), Le(MAX_POSITIONS)] | None = None
    attention_factor: Factor | None = None
    beta_fast: Factor | None = None
    beta_slow: Factor | None = None
    mscale: Factor | None = None
    mscale_all_dim: Annotated[float, Ge(0), Le(1e6)] | None = None
    short_factor: list[Factor] | None = None
    long_factor: list[Factor] | None = None
    truncate: bool | None = None
    finetuned: bool | None = None  # says how the weights came about; written by the first models with yarn


def classic_rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its rotary settings as `rope_theta` and `rope_scaling`. Its tables have the form of `Rope`."""
    form = {key: value for key, value in config.items() if key not in TABLES}
    scaling = _merged(config)
    theta = scaling.pop("rope_theta", None)
    if theta is not None:
        form.setdefault("rope_theta", theta)
    if scaling["rope_type"] != "default":
        form["rope_scaling"] = scaling
    return form


def rope_faults(config: Mapping[str, Any], head_dim: int) -> Iterator[tuple[str, str]]:
    """What the rotary settings lack or contradict: (path of the key, message). Its tables have the form of `Rope`."""
    scaling = _merged(config)
    kind, table = scaling["rope_type"], next((name for name in TABLES if config.get(name)), TABLES[0])
    missing = [name for name in REQUIRED[kind] if name not in scaling]
    for name in missing:
        yield f"{table}.{name}", f'missing, and the rope_type "{kind}" needs it'
    if kind == "llama3" and not missing and scaling["high_freq_factor"] <= scaling["low_freq_factor"]:
        yield f"{table}.high_freq_factor", f"{scaling['high_freq_factor']} is not above low_freq_factor"
    for name in REQUIRED["longrope"][:2]:
        if kind == "longrope" and len(scaling.get(name, ())) not in (0, head_dim // 2):
            yield f"{table}.{name}", f"has {len(scaling[name])} numbers: half of head_dim is {head_dim // 2}"


def _merged(config: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables as one, equal numbers made equal: a null says nothing, and a whole number is a float where one is meant."""
    given = {**(config.get("rope_parameters") or {}), **(config.get("rope_scaling") or {})}
    scaling = {key: _plain(key, value) for key, value in given.items() if value is not None and key != "finetuned"}
    scaling["rope_type"] = scaling.pop("type", None) or scaling.get("rope_type", "default")
    return scaling


def _plain(key: str, value: Any) -> Any:
    match value:
        case list():
            return [float(each) for each in value]
        case bool() | str():
            return value
        case _:
            return value if key == "original_max_position_embeddings" else float(value)
