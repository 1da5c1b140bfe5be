"""The language model of Gemma 3 as a `config.json` declares it, checked and brought to one form.

In: the configuration of a `gemma3_text`, or the `text_config` of a `gemma3`, which sees pictures too. Out: the same with what
transformers and mlx-lm would fill in differently written out, in the spelling that both read; or what is wrong with it.

Most layers of Gemma 3 attend within a sliding window and turn positions by a frequency of their own; each n-th layer sees the
whole sequence. Older files say `sliding_window_pattern`, `rope_theta` and `rope_local_base_freq`, which both stacks read; newer
ones name each layer in `layer_types` and hold a table for each kind in `rope_parameters`, which mlx-lm passes over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict

from bench.reading.bounds import Epsilon, Heads, Inner, Layers, LayerType, Positions, Share, Spread, Vocabulary, Width
from bench.reading.rope import Rope, Theta, classic_rope, rope_faults

PUBLISHED_DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
}
"""What the `text_config` of the published models leaves out where it is so: the defaults of transformers' `Gemma3TextConfig`, of
which mlx-lm's `gemma3.ModelArgs` repeats the first three."""
LAYERED = "rope_parameters"
LAYERS = frozenset({"layer_types", "sliding_window_pattern"})
UNREAD = frozenset({"_sliding_window_pattern", "cache_implementation"})
"""Written beside the architecture by transformers; neither stack reads them back."""


class LayeredRope(BaseModel):
    """Rotary settings by kind of layer, as transformers 5 writes them."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    full_attention: Rope | None = None
    sliding_attention: Rope | None = None


class Gemma3Config(BaseModel):
    """What a `gemma3_text` needs. Keys without a default are those for which the stacks have different ones, or none."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model_type: str
    vocab_size: Vocabulary
    hidden_size: Width
    intermediate_size: Inner
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads
    head_dim: Heads
    max_position_embeddings: Positions
    query_pre_attn_scalar: Annotated[int, Ge(1), Le(2**20)]
    sliding_window: Positions
    sliding_window_pattern: Annotated[int, Ge(1), Le(1024)] | None = None
    layer_types: list[LayerType] | None = None
    initializer_range: Spread = 0.02
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: Theta | None = None
    rope_local_base_freq: Theta | None = None
    rope_scaling: Rope | None = None
    rope_parameters: LayeredRope | None = None
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    attention_dropout: Share = 0.0
    hidden_activation: Literal["gelu_pytorch_tanh"] = "gelu_pytorch_tanh"  # mlx-lm computes it whatever the file says
    final_logit_softcapping: Annotated[float, Gt(0)] | None = None
    attn_logit_softcapping: Annotated[float, Gt(0)] | None = None
    use_bidirectional_attention: bool | None = None

    @property
    def kinds(self) -> list[LayerType]:
        """The kind of each layer. Where the file says nothing, both stacks let each sixth layer see the whole sequence."""
        every = self.sliding_window_pattern or 6
        return self.layer_types or _kinds(every, self.num_hidden_layers)


def gemma3_faults(checked: Gemma3Config, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with settings that are right in themselves: (path of the key, message). `config` holds no None."""
    heads, groups = checked.num_attention_heads, checked.num_key_value_heads
    if heads % groups:
        yield "num_key_value_heads", f"{heads} heads cannot share {groups} key-value heads evenly"
    if checked.head_dim % 2:
        yield "head_dim", f"{checked.head_dim} is odd, and rotary embeddings turn pairs of dimensions"
    if config.get("mlp_bias"):
        yield "mlp_bias", "a gemma3_text has none"
    if len(checked.kinds) != checked.num_hidden_layers:
        yield "layer_types", f"names {len(checked.kinds)} layers of {checked.num_hidden_layers}"
    sliding = _tables(config)["sliding_attention"]
    if sliding.get("rope_type", sliding.get("type", "default")) != "default":
        yield f"{LAYERED}.sliding_attention.rope_type", "only the layers that see the whole sequence scale their frequencies"
    layered = bool(_tables(config)["full_attention"])
    for path, what in rope_faults(_one_table(config), checked.head_dim):
        yield path.replace(LAYERED, f"{LAYERED}.full_attention", 1) if layered else path, what


def gemma3_form(checked: Gemma3Config, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with defaults written out and spellings made equal. `config` holds no None."""
    defaults = {
        "initializer_range": checked.initializer_range,
        "rms_norm_eps": checked.rms_norm_eps,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "tie_word_embeddings": checked.tie_word_embeddings,
        "attention_bias": checked.attention_bias,
        "attention_dropout": checked.attention_dropout,
        "hidden_activation": checked.hidden_activation,
    }
    kept = {key: value for key, value in classic_rope(_one_table(config)).items() if key not in UNREAD | LAYERS}
    if not checked.use_bidirectional_attention:
        kept.pop("use_bidirectional_attention", None)
    form = {**defaults, **kept, **_pattern(checked.kinds)}
    return {**form, "rope_local_base_freq": float(form["rope_local_base_freq"])}


def _kinds(every: int, layers: int) -> list[LayerType]:
    """Each n-th layer sees the whole sequence, the others slide."""
    return ["sliding_attention" if number % every else "full_attention" for number in range(1, layers + 1)]


def _pattern(kinds: list[LayerType]) -> dict[str, Any]:
    """The layers as a pattern, which both stacks read; else one by one, which only transformers does."""
    every = kinds.index("full_attention") + 1 if "full_attention" in kinds else 0
    if every and kinds == _kinds(every, len(kinds)):
        return {"sliding_window_pattern": every}
    return {"layer_types": kinds}


def _tables(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rotary settings of both kinds of layer, where they are given by kind. Its tables have the form of `LayeredRope`."""
    given = config.get(LAYERED) or {}
    kinds = ("full_attention", "sliding_attention")
    return {kind: {key: value for key, value in (given.get(kind) or {}).items() if value is not None} for kind in kinds}


def _one_table(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the settings of the layers that see everything as its only table, and both frequencies beside it.

    As in transformers, a frequency in a table goes before the same beside it.
    """
    tables = _tables(config)
    form = {key: value for key, value in config.items() if key != LAYERED}
    for key, table in (("rope_theta", tables["full_attention"]), ("rope_local_base_freq", tables["sliding_attention"])):
        if "rope_theta" in table:
            form[key] = table["rope_theta"]
    return {**form, LAYERED: tables["full_attention"]} if tables["full_attention"] else form
