"""The sizes of a decoder-only model, as every way of predicting by rule needs them.

In: a `Model`. Out: a `Shape`: its linear layers, norms, heads, vocabulary. For the known families it is exact, and a test holds
its parameter count to that of `bench.model`. Any other `config.json` is read as if it were a Llama with the sizes that it names,
or a Mixtral where it names experts (`known` is then False): good for an estimate, and said so wherever it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.model import FAMILIES, Model
from bench.reading.architecture import REMEDY
from bench.reading.strict import shown
from bench.spec import ATTENTION_MODULES, BLOCK_MODULES, BadInput

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "model_dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_per_token": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k"),
    "expert_width": ("moe_intermediate_size", "expert_intermediate_size"),
    "shared_width": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
}
"""What families call the same size, in transformers' configuration classes."""
MOST: Mapping[str, int] = {"num_hidden_layers": 1024, "intermediate_size": 2**24}
MOST_OTHERWISE = 2**20
"""What is larger is a slip of the pen: the bounds of `bench.reading.bounds`."""
GEMMA_PATTERN = 6
"""Of Gemma 3's blocks each sixth sees the whole sequence (`Gemma3TextConfig`)."""
MLP_RATIO = 4
"""Width of an MLP over that of the model where a configuration names none: GPT-2's `n_inner` in transformers."""


@dataclass(frozen=True, slots=True)
class Linear:
    """One linear layer of a block: `outputs` × `inputs` elements, and `outputs` more where it has a bias."""

    name: str
    outputs: int
    inputs: int
    bias: bool = False

    @property
    def elements(self) -> int:
        return self.outputs * self.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes in elements. `query` and `key_value` are the widths of all heads together; `block_norms` counts the weights of a
    block's norms, `head_norms` says whether some of them are over the heads of q and k. `sliding` is the share of the blocks that
    attend within the last `window` positions. `experts` copies of the MLP stand in each block, and `inner` is the width that a
    token passes through: that of all experts which compute it.
    """

    family: str
    known: bool
    hidden: int
    inner: int
    layers: int
    heads: int
    query: int
    key_value: int
    vocabulary: int
    tied: bool
    linears: tuple[Linear, ...]
    head_norms: bool
    block_norms: int
    experts: int = 1
    window: int | None = None
    sliding: float = 0.0

    @property
    def block_linear(self) -> int:
        """Elements of a block's linear weights, biases left out."""
        return sum(each.elements * self.copies(each) for each in self.linears)

    @property
    def block_other(self) -> int:
        """Elements of a block's norms and biases."""
        return self.block_norms + sum(each.outputs for each in self.linears if each.bias)

    @property
    def embedding(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def embeddings(self) -> int:
        """Elements of embedding and head, once where they are tied."""
        return self.embedding * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        return self.layers * (self.block_linear + self.block_other) + self.embeddings + self.hidden

    @property
    def largest_linear(self) -> int:
        return max(each.elements for each in self.linears)

    def copies(self, linear: Linear) -> int:
        return 1 if linear.name in ATTENTION_MODULES else self.experts


@cache
def shape_of(model: Model) -> Shape:
    """Raises BadInput for a configuration that does not name the sizes."""
    config = model.config
    if "model_type" not in config:
        raise BadInput(f"{model.name}: its config.json has no model_type; {REMEDY}")
    family = str(config["model_type"])
    hidden, layers = (_size(config, name, model.name) for name in ("hidden_size", "num_hidden_layers"))
    heads = _size(config, "num_attention_heads", model.name)
    dense = _found(config, "intermediate_size", model.name) or MLP_RATIO * hidden
    experts, width, inner = _mixture(config, dense, model.name)
    head_dim = config.get("head_dim") or hidden // heads
    if not head_dim:
        raise BadInput(f"{model.name}: its config.json has {heads} heads in a width of {hidden} and no head_dim; {REMEDY}")
    groups = _found(config, "num_key_value_heads", model.name) or heads
    if groups > heads:
        raise BadInput(f"{model.name}: its config.json has {groups} key-value heads for {heads} heads; {REMEDY}")
    query, key_value = heads * head_dim, groups * head_dim
    head_norms = family in ("qwen3", "gemma3_text")
    norms = (4 if family == "gemma3_text" else 2) * hidden + (2 * head_dim if head_norms else 0)
    return Shape(
        family=family,
        known=family in FAMILIES,
        hidden=hidden,
        inner=inner,
        layers=layers,
        heads=heads,
        query=query,
        key_value=key_value,
        vocabulary=int(config["vocab_size"]),
        tied=bool(config.get("tie_word_embeddings")),
        linears=_linears(config, family, hidden, width, query, key_value),
        head_norms=head_norms,
        block_norms=norms,
        experts=experts,
        window=config.get("sliding_window") if family == "gemma3_text" else None,
        sliding=_sliding(config, layers) if family == "gemma3_text" else 0.0,
    )


def _sliding(config: Mapping[str, Any], layers: int) -> float:
    """The share of Gemma 3's blocks that attend within its window: all but each sixth, unless the file says otherwise."""
    kinds = config.get("layer_types")
    if kinds:
        return float(sum(kind == "sliding_attention" for kind in kinds) / len(kinds))
    every = int(config.get("sliding_window_pattern") or GEMMA_PATTERN)
    return 1 - (layers // every) / layers


def _linears(config: Mapping[str, Any], family: str, hidden: int, inner: int, query: int, key_value: int) -> tuple[Linear, ...]:
    attention, mlp = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
    qkv = attention or family == "qwen2"
    sides = (
        (query, hidden, qkv),
        (key_value, hidden, qkv),
        (key_value, hidden, qkv),
        (hidden, query, attention and family != "qwen2"),
        (inner, hidden, mlp),
        (inner, hidden, mlp),
        (hidden, inner, mlp),
    )
    return tuple(Linear(name, *side) for name, side in zip(BLOCK_MODULES, sides, strict=True))


def _mixture(config: Mapping[str, Any], dense: int, model: str) -> tuple[int, int, int]:
    """(experts in a block, the width of one, the width that a token passes through); (1, dense, dense) where there are none.

    Experts that every token passes through count as so many more. Blocks that have none, as the first of DeepSeek's, are read as
    if they had.
    """
    routed = _found(config, "experts", model) or 0
    if routed < 2:
        return 1, dense, dense
    width = _found(config, "expert_width", model) or dense
    shared = _found(config, "shared_experts", model) or -(-(_found(config, "shared_width", model) or 0) // width)
    chosen = min(_found(config, "experts_per_token", model) or routed, routed)
    return routed + shared, width, (chosen + shared) * width


def _found(config: Mapping[str, Any], name: str, model: str) -> int | None:
    """The size under the first of its spellings that the configuration holds; None where it holds none, or zero experts."""
    key = next((spelling for spelling in SPELLINGS.get(name, (name,)) if config.get(spelling) is not None), None)
    if key is None:
        return None
    value, most = config[key], MOST.get(name, MOST_OTHERWISE)
    least = 0 if "expert" in key else 1
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadInput(
            f"{model}: {key} of its config.json is {shown(value)}; expected a whole number from {least:,} to {most:,}; {REMEDY}"
        )
    return value


def _size(config: Mapping[str, Any], name: str, model: str) -> int:
    value = _found(config, name, model)
    if value is None:
        spelt = ", ".join(SPELLINGS[name][1:])
        raise BadInput(f"{model}: its config.json names no {name} (nor {spelt}), so nothing can be predicted of it; {REMEDY}")
    return value
