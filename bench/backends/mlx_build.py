"""Models for mlx-lm: weights straight in their final precision, and adapters.

In: a cell. Out: an `mlx.nn.Module` of mlx-lm's own class, its weights (`mlx_weights`: drawn or read) evaluated module by module,
so that building never holds more than the final size and one module's scratch: a 70B model in 4 bits never passes through 140 GB.
`attach_adapters` freezes it and adds LoRA layers where the method asks for them.

The scratch was measured to be 4 bytes an element of what is drawn in 16 bits, 6 where it is then quantised. Of Llama 3.3 70B that
makes 4.2 GB for the embedding (128,256 × 8192), which comes first, and 1.4 GB for its largest quantised matrix (8192 × 28672).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from bench.backends.interface import Session, UnsupportedError
from bench.backends.mlx_architecture import tied
from bench.backends.mlx_weights import values_of
from bench.spec import ATTENTION_MODULES, Cell, Workload

GROUP_SIZE = 64
"""Weights that share one scale and bias: the default of mlx-lm's `convert`, and of the models published in its format."""
UNTIED_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Families whose transformers config leaves head and embedding untied when it says nothing; mlx-lm's Llama would tie them."""
LEFT_UNQUANTIZED = ("embed_tokens", "lm_head")
"""As transformers with bitsandbytes leaves them, so that both stacks train the same model. mlx-lm's own `convert` quantises both,
which takes 3.0 GB less of Llama 3.3 70B."""


def build(cell: Cell, session: Session) -> Any:
    """The cell's base model in `weights_dtype`, quantised where the method asks for it, without adapters, not yet frozen.

    Raises UnsupportedError where mlx-lm has no such architecture or builds another one than declared, BadFile where real weights
    are not those of this architecture.
    """
    import mlx.core as mx
    from mlx import nn

    workload = cell.workload
    model = empty_model(workload)
    model.update(values_of(model, workload))
    if workload.quantization_bits is not None:
        nn.quantize(model, GROUP_SIZE, workload.quantization_bits, mode="affine", class_predicate=is_quantized)
    for what, part in _parts(model):
        session.progress(what)
        for _, module in part.named_modules():
            if not module.children():
                mx.eval(module.parameters())
                mx.clear_cache()
    mx.eval(model.parameters())
    return model


def attach_adapters(model: Any, workload: Workload) -> None:
    """`add_adapters`, and evaluate them."""
    import mlx.core as mx

    add_adapters(model, workload)
    mx.eval(model.parameters())


def add_adapters(model: Any, workload: Workload) -> None:
    """Leave trainable what the method trains: everything (full), or fresh, lazy LoRA matrices on a frozen base (lora, qlora).

    A is uniform within 1/√(input width) and B zero, in `trainable_dtype`; their product is scaled by alpha / rank. Raises
    UnsupportedError where a block lacks a module that is to be adapted.
    """
    from mlx_lm.tuner.utils import linear_to_lora_layers

    if not workload.has_adapters:
        model.unfreeze()
        return
    if workload.rank is None or workload.alpha is None:
        raise UnsupportedError("adapters need a rank and an alpha")
    keys = [_path_in_block(name) for name in workload.module_names]
    blocks = workload.adapter_layers or len(model.layers)
    _require_modules(model.layers[-blocks:], keys)
    model.freeze()
    scale = workload.alpha / workload.rank
    config = {"rank": workload.rank, "scale": scale, "dropout": workload.dropout or 0.0, "keys": keys}
    linear_to_lora_layers(model, blocks, config)
    for _, adapter in adapters(model):
        for matrix in ("lora_a", "lora_b"):
            adapter[matrix] = adapter[matrix].astype(dtype_of(workload.trainable_dtype))


def adapters(model: Any) -> Iterator[tuple[str, Any]]:
    """Every adapted layer with its path in the model."""
    return ((path, module) for path, module in model.named_modules() if "lora_a" in module)


def count_parameters(model: Any) -> int:
    """The logical number of base parameters: quantised weights by what they stand for, tied weights once, no adapters.

    mlx-lm counts the leaves of the module tree, and an adapted layer is none: only the base layer inside it is.
    """
    from mlx_lm.utils import get_total_parameters

    return int(get_total_parameters(model))


def count_trainable(model: Any) -> int:
    """The number of parameters that the optimizer updates."""
    from mlx.utils import tree_flatten

    return sum(int(value.size) for _, value in tree_flatten(model.trainable_parameters()))


def unquantised_modules(model: Any) -> str:
    """The names of the base modules whose weights stand in full precision, sorted and joined by commas."""
    names = {
        path.rpartition(".")[2] for path, module in model.named_modules() if "weight" in module and not hasattr(module, "bits")
    }
    return ",".join(sorted(names))


def dtype_of(name: str) -> Any:
    """MLX's dtype of that name."""
    import mlx.core as mx

    return getattr(mx, name)


def empty_model(workload: Workload) -> Any:
    """mlx-lm's model for the architecture; its arrays are lazy, so nothing is allocated yet."""
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes as classes_of  # private, but what `mlx_lm.load` calls, and it knows the aliases

    config = mlx_config(workload.model.config)
    try:
        model_class, args_class = classes_of(config)
    except ValueError as error:
        raise UnsupportedError(f"mlx-lm: {error}") from error
    required = [name for name, given in inspect.signature(args_class).parameters.items() if given.default is given.empty]
    missing = [name for name in required if name not in config]
    if missing:
        raise UnsupportedError(f"the config of {workload.model.name} lacks {', '.join(missing)}, which mlx-lm needs")
    model = tied(model_class(args_class.from_dict(config)), config)
    built, declared = sum(value.size for _, value in tree_flatten(model.parameters())), workload.model.parameters
    if declared is not None and built != declared:
        raise UnsupportedError(f"mlx-lm builds {built:,} parameters where {workload.model.name} has {declared:,}")
    return model


def mlx_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with what mlx-lm would otherwise read differently from transformers spelt out.

    transformers 5 nests the rotary settings in `rope_parameters`, which not every mlx-lm model reads: it would silently
    train with a base of 10,000.
    """
    rope = config.get("rope_parameters") or {}
    spelt: dict[str, Any] = {}
    if "rope_theta" in rope:
        spelt["rope_theta"] = rope["rope_theta"]
    if rope.get("rope_type", "default") != "default":
        spelt["rope_scaling"] = rope
    if config.get("model_type") in UNTIED_FAMILIES:
        spelt["tie_word_embeddings"] = False
    return {**spelt, **{name: value for name, value in config.items() if value is not None}}


def is_quantized(path: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and not path.endswith(LEFT_UNQUANTIZED)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """What is evaluated in turn. Embedding and head come first: theirs is the most scratch, and little else stands by then."""
    blocks = list(model.layers)
    inside = {id(module) for block in blocks for _, module in block.named_modules()}
    for path, module in model.named_modules():
        if id(module) not in inside and not module.children():
            yield f"building {path}", module
    for number, block in enumerate(blocks, 1):
        yield f"building block {number} of {len(blocks)}", block


def _path_in_block(name: str) -> str:
    return f"self_attn.{name}" if name in ATTENTION_MODULES else f"mlp.{name}"


def _require_modules(blocks: Any, keys: list[str]) -> None:
    """mlx-lm passes over a key that a block lacks, and would quietly train less."""
    for block in blocks:
        missing = set(keys) - {path for path, _ in block.named_modules()}
        if missing:
            raise UnsupportedError(f"mlx-lm's {type(block).__name__} has no {', '.join(sorted(missing))} to adapt")
