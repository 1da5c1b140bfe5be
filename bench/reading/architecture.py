"""A model's `config.json`, checked and brought to one form.

In: a Hugging Face `config.json` as a dictionary, from a file or from the catalogue. Out: a `Model` whose architecture text is
the same for the same architecture, however the file spelt it; or every fault of the file.

One form means: the family's defaults written out, so that two stacks cannot fill them in differently (mlx-lm ties a Llama's
embeddings where the key is missing, transformers does not); rotary settings in the older spelling, which both stacks read; and
nothing that says no more than which tokens end a text or which version wrote the file. Of a multimodal model it is the form of
its language model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from bench.model import FAMILIES, Model, model_from_config
from bench.reading.bounds import Epsilon, Heads, Inner, Layers, LayerType, Positions, Share, Spread, Vocabulary, Width
from bench.reading.decoders import other_kind
from bench.reading.gemma3 import PUBLISHED_DEFAULTS, Gemma3Config, LayeredRope, gemma3_faults, gemma3_form
from bench.reading.rope import Rope, Theta, classic_rope, rope_faults
from bench.reading.strict import BadFile, Problem, beyond_json, key_path, meant, one_of, problems_of, shown
from bench.spec import BLOCK_MODULES

BIASES = {"attention_bias": ("llama", "qwen2", "qwen3"), "mlp_bias": ("llama",)}
"""The families whose modules read the key; the others have no such biases whatever it says (qwen2's are always there)."""
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
        "unk_token_id",
        "use_cache",
    }
)
NO_WINDOW = frozenset({"layer_types", "max_window_layers", "sliding_window", "use_sliding_window"})
FLOATS = frozenset({"attention_dropout", "initializer_range", "rms_norm_eps", "rope_theta"})
MULTIMODAL = ("gemma3",)
"""Model types that are nothing without a `text_config`: transformers would build one of its own choice."""
REMEDY = "take it from the model's own config.json"


class AnyConfig(BaseModel):
    """What is needed of any model: its family, and its vocabulary, from which the token ids are drawn.

    The other keys are those by which the planner and the backends judge what a model can take: a family may lack them, or
    call them something else, but what they hold is of the type that their readers expect.
    """

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model_type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    vocab_size: Vocabulary
    hidden_size: Width | None = None
    intermediate_size: Inner | None = None
    num_hidden_layers: Layers | None = None
    num_attention_heads: Heads | None = None
    head_dim: Heads | None = None
    max_position_embeddings: Positions | None = None
    initializer_range: Spread | None = None
    tie_word_embeddings: bool | None = None
    rope_parameters: dict[str, Any] | None = None


class DecoderConfig(BaseModel):
    """What a Llama-like family needs; fields with a default have the family's default where transformers agrees."""

    model_config = AnyConfig.model_config

    model_type: str
    vocab_size: Vocabulary
    hidden_size: Width
    intermediate_size: Inner
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads | None = None
    head_dim: Heads | None = None
    max_position_embeddings: Positions
    initializer_range: Spread = 0.02
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: Theta | None = None
    rope_scaling: Rope | None = None
    rope_parameters: Rope | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: Share = 0.0
    hidden_act: Literal["silu", "swish"] = "silu"  # two names of one function; mlx-lm computes it whatever the file says
    use_sliding_window: bool | None = None
    sliding_window: Positions | None = None
    max_window_layers: Annotated[int, Ge(0), Le(1024)] | None = None
    layer_types: list[LayerType] | None = None

    @property
    def head_width(self) -> int:
        """Dimensions of a head; by the family's default where the file names none, which rounds down."""
        return self.head_dim or (128 if self.model_type == "qwen3" else self.hidden_size // self.num_attention_heads)


Checked = AnyConfig | DecoderConfig | Gemma3Config


def model_of(name: str, config: object, file: str) -> Model:
    """The model that a `config.json` describes, of a multimodal one its language model, which is all that is trained here.

    Raises BadFile, which names the file, the key and the remedy.
    """
    if not isinstance(config, dict):
        raise BadFile([Problem(file, "", f"expected a table of settings, got {shown(config)}; {REMEDY}")])
    other = other_kind(config)
    if other is not None:
        message = f"{shown(config['model_type'])} is {other}, and only decoder-only models are trained here; name another model"
        raise BadFile([Problem(file, "model_type", message)])
    if config.get("text_config") is not None or config.get("model_type") in MULTIMODAL:
        return _language_model(name, config, file)
    problems = [Problem(file, key_path(where), f"{what}; {REMEDY}") for where, what in beyond_json(config)]
    try:
        checked = _kind(config).model_validate(config)
    except ValidationError as error:
        blamed = {problem.path for problem in problems}
        problems += [each for each in problems_of(error, file, _remedy) if each.path not in blamed]
        raise BadFile(problems) from None
    form = {key: value for key, value in config.items() if key not in NOT_ARCHITECTURE and value is not None}
    problems += [Problem(file, where, f"{what}; {REMEDY}") for where, what in _together(checked, form)]
    if problems:
        raise BadFile(problems)
    return model_from_config(name, _one_form(checked, form))


def _kind(config: Mapping[str, Any]) -> type[Checked]:
    family = config.get("model_type")
    if family == "gemma3_text":
        return Gemma3Config
    return DecoderConfig if family in FAMILIES else AnyConfig


def _language_model(name: str, config: Mapping[str, Any], file: str) -> Model:
    """The model of a multimodal configuration's `text_config`. What the published Gemma 3 leave out there is filled in."""
    part = config.get("text_config")
    if part is None:
        raise BadFile([Problem(file, "text_config", f"missing; {REMEDY}")])
    family = part.get("model_type") if isinstance(part, dict) else None
    if family not in FAMILIES:
        what = f"a multimodal model whose language model is {shown(family)}, not {one_of(FAMILIES)}"
        alone = ", or a file of its text_config alone" if isinstance(family, str) else ""
        raise BadFile([Problem(file, "text_config.model_type", f"{what}; name another model{alone}")])
    filled = {**(PUBLISHED_DEFAULTS if family == "gemma3_text" else {}), **part}
    if filled.get("tie_word_embeddings") is None and config.get("tie_word_embeddings") is not None:
        filled["tie_word_embeddings"] = config["tie_word_embeddings"]
    try:
        return model_of(name, filled, file)
    except BadFile as error:
        inner = error.problems
    raise BadFile(Problem(file, ".".join(filter(None, ("text_config", each.path))), each.message) for each in inner)


def _remedy(details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        return f"{meant(str(details['loc'][-1]), [*Rope.model_fields, *LayeredRope.model_fields])} Or remove it: nothing reads it"
    return REMEDY


def _together(checked: Checked, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with settings that are right in themselves: (path of the key, message). `config` holds no None."""
    match checked:
        case Gemma3Config():
            yield from gemma3_faults(checked, config)
        case DecoderConfig():
            yield from _decoder_faults(checked, config)


def _decoder_faults(checked: DecoderConfig, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    heads, groups = checked.num_attention_heads, checked.num_key_value_heads or checked.num_attention_heads
    if heads % groups:
        yield "num_key_value_heads", f"{heads} heads cannot share {groups} key-value heads evenly"
    if checked.head_dim is None and checked.model_type != "qwen3" and checked.hidden_size % heads:
        yield "head_dim", "head_dim is missing, and hidden_size does not divide by num_attention_heads"
    elif checked.head_width % 2:
        yield "head_dim", f"{checked.head_width} is odd, and rotary embeddings turn pairs of dimensions"
    for name, families in BIASES.items():
        if config.get(name) and checked.model_type not in families:
            yield name, f"a {checked.model_type} has none"
    if checked.layer_types is not None and len(checked.layer_types) != checked.num_hidden_layers:
        yield "layer_types", f"names {len(checked.layer_types)} layers of {checked.num_hidden_layers}"
    yield from rope_faults(config, checked.head_width)


def _one_form(checked: Checked, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with defaults written out and spellings made equal. `config` holds no None."""
    match checked:
        case Gemma3Config():
            form = gemma3_form(checked, config)
        case DecoderConfig():
            form = _decoder_form(checked, config)
        case _:
            return config
    return {key: float(value) if key in FLOATS else value for key, value in form.items()}


def _decoder_form(checked: DecoderConfig, config: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {
        "num_key_value_heads": checked.num_attention_heads,
        "head_dim": checked.head_width,
        "rms_norm_eps": checked.rms_norm_eps,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": checked.tie_word_embeddings,
        "attention_bias": checked.attention_bias,
        "attention_dropout": checked.attention_dropout,
        "initializer_range": checked.initializer_range,
    }
    form = {**defaults, **classic_rope(config), "hidden_act": "silu"}
    if checked.model_type == "llama":
        form.setdefault("mlp_bias", False)
    if not form.get("use_sliding_window") and checked.model_type != "mistral":
        form = {key: value for key, value in form.items() if key not in NO_WINDOW}
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
