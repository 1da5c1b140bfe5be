"""A model's `config.json`, checked and brought to one form.

In: a Hugging Face `config.json` as a dictionary, from a file or from the catalogue. Out: a `Model` whose architecture text is
the same for the same architecture, however the file spelt it; or every fault of the file.

One form means: the family's defaults written out, so that two stacks cannot fill them in differently (mlx-lm ties a Llama's
embeddings where the key is missing, transformers does not); rotary settings in the older spelling, which both stacks read; and
nothing that says no more than which tokens end a text or which version wrote the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from bench.reading.strict import BadFile, Problem, problems_of, shown
from bench.spec import BLOCK_MODULES, Model, canonical_json, model_from_config

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
NOT_ARCHITECTURE = frozenset(
    {
        "_commit_hash",
        "_name_or_path",
        "architectures",
        "auto_map",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "pad_token_id",
        "pretraining_tp",
        "quantization",
        "quantization_config",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)
NO_WINDOW = frozenset({"layer_types", "max_window_layers", "sliding_window", "use_sliding_window"})
FLOATS = frozenset(
    {"attention_dropout", "factor", "high_freq_factor", "initializer_range", "low_freq_factor", "rms_norm_eps", "rope_theta"}
)
REMEDY = "take it from the model's own config.json"

Size = Annotated[int, Ge(1), Le(2**24)]


class AnyConfig(BaseModel):
    """What is needed of any model: its family, and its vocabulary, from which the token ids are drawn."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model_type: str
    vocab_size: Annotated[int, Ge(4), Le(2**24)]  # three ids are reserved, see bench.data


class DecoderConfig(AnyConfig):
    """What a Llama-like family needs beside; fields with a default have the family's default where transformers agrees."""

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Ge(1), Le(1024)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    max_position_embeddings: Size
    rms_norm_eps: Annotated[float, Gt(0)] = 1e-6
    rope_theta: Annotated[float, Gt(0)] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    attention_dropout: Annotated[float, Ge(0), Le(1)] = 0.0
    hidden_act: str = "silu"

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        groups = self.num_key_value_heads or self.num_attention_heads
        if self.num_attention_heads % groups:
            raise PydanticCustomError("heads", f"{self.num_attention_heads} heads cannot share {groups} key-value heads evenly")
        if self.head_dim is None and self.model_type != "qwen3" and self.hidden_size % self.num_attention_heads:
            raise PydanticCustomError("heads", "head_dim is missing, and hidden_size does not divide by num_attention_heads")
        return self


def model_of(name: str, config: object, file: str) -> Model:
    """The model that a `config.json` describes. Raises BadFile, which names the file, the key and the remedy."""
    if not isinstance(config, dict):
        raise BadFile([Problem(file, "", f"expected a table of settings, got {shown(config)}; {REMEDY}")])
    known = config.get("model_type") in FAMILIES
    kind = DecoderConfig if known else AnyConfig
    try:
        checked = kind.model_validate(config)
        plain = {key: value for key, value in config.items() if key not in NOT_ARCHITECTURE and value is not None}
        architecture = _one_form(checked, plain) if isinstance(checked, DecoderConfig) else plain
        return model_from_config(name, architecture) if known else Model(name, canonical_json(architecture))
    except ValidationError as error:
        raise BadFile(problems_of(error, file, _remedy)) from None
    except (TypeError, ValueError, RecursionError):
        raise BadFile([Problem(file, "", f"holds values that JSON cannot; {REMEDY}")]) from None


def _remedy(details: ErrorDetails) -> str:
    return "" if details["type"] == "heads" else REMEDY


def _one_form(checked: DecoderConfig, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with defaults written out and spellings made equal. `config` holds no None."""
    heads = checked.num_attention_heads
    defaults = {
        "num_key_value_heads": heads,
        "head_dim": 128 if checked.model_type == "qwen3" else checked.hidden_size // heads,
        "rms_norm_eps": checked.rms_norm_eps,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
    }
    form = {**defaults, **_classic_rope(config)}
    if checked.model_type == "llama":
        form.setdefault("mlp_bias", False)
    if not form.get("use_sliding_window") and checked.model_type != "mistral":
        form = {key: value for key, value in form.items() if key not in NO_WINDOW}
    return {key: float(value) if key in FLOATS else value for key, value in form.items()}


def _classic_rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings as `rope_theta` and `rope_scaling`; transformers 5 nests both in `rope_parameters`."""
    form = {key: value for key, value in config.items() if key not in ("rope_parameters", "rope_scaling")}
    scaling = {**config.get("rope_parameters", {}), **config.get("rope_scaling", {})}
    theta = scaling.pop("rope_theta", None)
    if theta is not None:
        form.setdefault("rope_theta", theta)
    scaling["rope_type"] = scaling.pop("type", None) or scaling.get("rope_type", "default")
    if scaling["rope_type"] != "default":
        form["rope_scaling"] = {key: float(value) if key in FLOATS else value for key, value in scaling.items()}
    return form


def smallest_adapted_dimension(config: Mapping[str, Any], modules: tuple[str, ...]) -> int | None:
    """The narrowest side of the adapted projections: no adapter's rank can usefully exceed it. None if unknown."""
    if config.get("model_type") not in FAMILIES or not modules:
        return None
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key_value = config["num_key_value_heads"] * config["head_dim"]
    sides = (query, key_value, key_value, query, inner, inner, inner)
    widths: dict[str, int] = dict(zip(BLOCK_MODULES, sides, strict=True))
    return int(min(hidden, *(widths[name] for name in modules)))
