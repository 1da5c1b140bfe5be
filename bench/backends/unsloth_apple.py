"""unsloth on Apple silicon: its MLX loader and adapters around a model of ours, and its MLX trainer.

In: a cell for Metal, its batches and a session. Out: steps and peaks. unsloth loads through mlx-lm's `load_model`; for one load,
that function hands over the model of `mlx_build`, so both backends train the same weights in the same 4-bit format.
What unsloth would do otherwise than declared is undone or refused, never passed over.
"""

from __future__ import annotations

import time
from typing import Any

from bench.backends import mlx_build
from bench.backends.interface import Session, UnsupportedError
from bench.backends.mlx_train import compile_choice
from bench.backends.unsloth_apple_train import train
from bench.backends.unsloth_folder import model_folder, replaced
from bench.data import Batches
from bench.events import Counters, Loaded
from bench.spec import Cell, Device, Workload

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
"""The name of the class with a head, by which loaders tell a language model from others; by transformers' naming elsewhere."""


def run(cell: Cell, batches: Batches, session: Session) -> Counters:
    """Build, attach adapters, train. Raises UnsupportedError where unsloth would not do the work as declared."""
    choose_device(cell.device)
    began_s = time.perf_counter()
    model, tokenizer = build(cell, session)
    build_s = time.perf_counter() - began_s
    attach_adapters(model, cell.workload)
    session.loaded(
        Loaded(
            load_s=time.perf_counter() - began_s,
            parameters=mlx_build.count_parameters(model),
            trainable_parameters=mlx_build.count_trainable(model),
            implementation=describe(model, cell),
            build_s=build_s,
        )
    )
    return train(model, tokenizer, cell, batches, session)


def choose_device(device: Device) -> None:
    """Metal from now on; the CPU only in tests, for a suite's `unsloth@cpu` is refused. Raises UnsupportedError without Metal."""
    import mlx.core as mx

    if device == "metal" and not mx.metal.is_available():
        raise UnsupportedError("MLX sees no metal device here")
    mx.set_default_device(mx.gpu if device == "metal" else mx.cpu)


def build(cell: Cell, session: Session) -> tuple[Any, Any]:
    """(model, tokenizer) as `FastLanguageModel.from_pretrained` returns them, over weights made here. Without adapters.

    Raises UnsupportedError where unsloth changed the weights' dtype.
    """
    import mlx_lm.utils
    from unsloth import FastLanguageModel

    workload = cell.workload
    config = _config(workload)

    def load_model(*_: Any, **__: Any) -> tuple[Any, dict[str, Any]]:
        return mlx_build.build(cell, session), dict(config)

    with model_folder(config) as folder, replaced(mlx_lm.utils, "load_model", load_model):
        model, tokenizer = FastLanguageModel.from_pretrained(
            folder,
            max_seq_length=workload.sequence_length + 1,
            dtype=workload.weights_dtype,
            load_in_4bit=workload.quantization_bits == 4,
            full_finetuning=workload.method == "full",
            float32_mixed_precision=False,
            text_only=True,
            random_state=workload.seed,
        )
    _require_dtypes(model, workload)
    return model, tokenizer


def attach_adapters(model: Any, workload: Workload) -> None:
    """LoRA by unsloth on the declared modules, in `adapter_dtype`; nothing for a full fine-tune, where all weights train.

    Raises UnsupportedError where it adapts other modules than declared.
    """
    import mlx.core as mx
    from unsloth import FastLanguageModel

    if not workload.has_adapters:
        model.unfreeze()
        return
    FastLanguageModel.get_peft_model(
        model,
        r=workload.rank,
        target_modules=list(workload.module_names),
        lora_alpha=workload.alpha,
        lora_dropout=workload.dropout or 0.0,
        finetune_last_n_layers=workload.adapter_layers,
        use_gradient_checkpointing=False,  # the trainer switches it on, and off again at its end
        random_state=workload.seed,
    )
    adapted = list(mlx_build.adapters(model))
    _require_modules(model, workload, [path for path, _ in adapted])
    for _, adapter in adapted:
        for matrix in ("lora_a", "lora_b"):
            adapter[matrix] = adapter[matrix].astype(mlx_build.dtype_of(workload.trainable_dtype))
    mx.eval(model.parameters())


def describe(model: Any, cell: Cell) -> dict[str, str]:
    """How unsloth does the cell, read off the model where it shows there."""
    from unsloth_zoo.mlx.utils import make_cce_loss_fn

    work = cell.workload
    loss = getattr(make_cce_loss_fn(model), "_unsloth_cce_backend", "unknown")
    return {
        "attention": "mx.fast.scaled_dot_product_attention, patched by unsloth for mx.compile",
        "loss": f"unsloth MLX cross-entropy: {loss}",
        "optimizer": "mlx.SGD, keeping an unused momentum" if work.optimizer == "sgd" else "mlx.AdamW, bias-corrected",
        "quantization_format": f"affine, groups of {mlx_build.GROUP_SIZE}" if work.quantization_bits else "none",
        "unquantised": mlx_build.unquantised_modules(model) if work.quantization_bits else "all",
        "checkpointing": f"unsloth mx.checkpoint of every {type(model.layers[0]).__name__}"
        if work.gradient_checkpointing
        else "none",
        "norms": "float32" if work.has_adapters else work.weights_dtype,
        "compile": compile_choice(cell.implementation.compile),
        "adapters": ",".join(sorted({type(adapter).__name__ for _, adapter in mlx_build.adapters(model)})) or "none",
    }


def _config(workload: Workload) -> dict[str, Any]:
    """config.json in mlx-lm's reading; quantised where the weights come quantised, so that unsloth takes them as they are."""
    config = mlx_build.mlx_config(workload.model.config)
    family = str(config["model_type"])
    config["architectures"] = [ARCHITECTURES.get(family, f"{family.title().replace('_', '')}ForCausalLM")]
    if workload.quantization_bits:
        config["quantization"] = {"group_size": mlx_build.GROUP_SIZE, "bits": workload.quantization_bits, "mode": "affine"}
    return config


def _require_dtypes(model: Any, workload: Workload) -> None:
    """A float16 model, for one, unsloth would train in float32."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    declared = mlx_build.dtype_of(workload.weights_dtype)
    found = {value.dtype for _, value in tree_flatten(model.parameters()) if mx.issubdtype(value.dtype, mx.floating)}
    if found - {declared}:
        others = ", ".join(sorted(str(dtype) for dtype in found - {declared}))
        raise UnsupportedError(f"unsloth made {others} of weights declared {workload.weights_dtype}")


def _require_modules(model: Any, workload: Workload, found: list[str]) -> None:
    blocks = workload.adapter_layers or len(model.layers)
    expected = blocks * len(workload.module_names)
    if len(found) != expected or {path.rpartition(".")[2] for path in found} != set(workload.module_names):
        raise UnsupportedError(f"the workload adapts {expected} modules, and unsloth {len(found)} of this architecture")
