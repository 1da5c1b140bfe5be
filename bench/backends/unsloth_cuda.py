"""unsloth on CUDA: its loader, adapters and patched trainer around a model of ours.

In: a cell, its batches and a session. Out: steps and peaks. unsloth loads through transformers' `AutoModelForCausalLM`; for the
time of one load that hands over the model of `hf_build`, made after unsloth has patched the architecture, so both backends train
the same weights in the same 4-bit format. The trainer is trl's as unsloth patches it, driven by `hf_train` as on backend `hf`.

What unsloth does by itself (autocast to the dtype of the model, its kernels, where the embedding lies) is read back and recorded;
what it would do otherwise than declared is undone or refused.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from bench.backends import hf_build, hf_device, hf_train
from bench.backends.hf_readback import implementation
from bench.backends.interface import Session, UnsupportedError
from bench.backends.unsloth_folder import model_folder, replaced
from bench.data import Batches
from bench.events import Counters
from bench.spec import Cell, Device, Implementation, Workload

BLOCK_COMPILED = "_unsloth_block_compiled"
"""The mark of `unsloth.models._block_compile` in unsloth 2026.10."""


def run(cell: Cell, batches: Batches, session: Session) -> Counters:
    """Build, attach adapters, train. Raises UnsupportedError where unsloth would not do the work as declared."""
    hf_device.require(cell.device)
    started_s = time.perf_counter()
    model = build(cell, session)
    hf_device.synchronize(cell.device)
    build_s = time.perf_counter() - started_s
    model = attach_adapters(model, cell)

    def describe(trainer: Any, device: Device) -> dict[str, str]:
        return read_back(trainer, device, cell)

    plain = replace(cell, implementation=Implementation(optimizer_kernel=cell.implementation.optimizer_kernel))
    counters = hf_train.train(model, plain, batches, session, started_s=started_s, build_s=build_s, describe=describe)
    return replace(counters, compile_s=hf_train.compile_s(compiling=True))


def build(cell: Cell, session: Session) -> Any:
    """The base model as `FastLanguageModel.from_pretrained` returns it, over weights made here. Without adapters.

    Raises UnsupportedError for an architecture that transformers cannot build.
    """
    import torch
    import transformers
    from unsloth import FastLanguageModel

    work = cell.workload
    plain = replace(cell, implementation=Implementation(quantization_format=cell.implementation.quantization_format))

    def from_pretrained(*_: Any, attn_implementation: str | None = None, **__: Any) -> Any:
        model = hf_build.build(plain, session)
        if attn_implementation not in (None, model.config._attn_implementation):
            model.set_attn_implementation(attn_implementation)
        return model

    stand_in = replaced(transformers.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    with model_folder(_config(work)) as folder, stand_in:
        model, _ = FastLanguageModel.from_pretrained(
            folder,
            max_seq_length=work.sequence_length,
            dtype=getattr(torch, work.weights_dtype),
            load_in_4bit=work.quantization_bits == 4,
            full_finetuning=work.method == "full",
            float32_mixed_precision=work.master_dtype is not None,
            use_gradient_checkpointing=checkpointing(cell),
            random_state=work.seed,
        )
    return model


def attach_adapters(model: Any, cell: Cell) -> Any:
    """LoRA by unsloth on the declared modules, in `adapter_dtype`; the model itself for a full fine-tune.

    Raises UnsupportedError where it adapts other modules than declared.
    """
    import torch
    from peft.tuners.lora import LoraLayer
    from unsloth import FastLanguageModel

    work = cell.workload
    if not work.has_adapters:
        return model
    count = model.config.num_hidden_layers
    blocks = list(range(count - (work.adapter_layers or count), count))
    adapted = FastLanguageModel.get_peft_model(
        model,
        r=work.rank,
        target_modules=list(work.module_names),
        lora_alpha=work.alpha,
        lora_dropout=work.dropout or 0.0,
        layers_to_transform=blocks,
        use_gradient_checkpointing=checkpointing(cell),
        random_state=work.seed,
    )
    expected = len(blocks) * len(work.module_names)
    found = sum(isinstance(module, LoraLayer) for module in adapted.modules())
    if found != expected:
        raise UnsupportedError(f"the workload adapts {expected} modules, and unsloth {found} of this architecture")
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(getattr(torch, work.trainable_dtype))
    return adapted


def checkpointing(cell: Cell) -> str | bool:
    """What unsloth calls `use_gradient_checkpointing`: its own unless torch's is asked for."""
    if not cell.workload.gradient_checkpointing:
        return False
    return True if cell.implementation.checkpointing == "torch" else "unsloth"


def require_dtypes(model: Any, work: Workload) -> None:
    """Everything that trains is in the declared dtype. Raises UnsupportedError: unsloth keeps norms in float32, for one."""
    found = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters() if parameter.requires_grad}
    if found - {work.trainable_dtype}:
        raise UnsupportedError(f"unsloth trains {', '.join(sorted(found))} where {work.trainable_dtype} is declared")


def read_back(trainer: Any, device: Device, cell: Cell) -> dict[str, str]:
    """The implementation as it stands ready to train. Raises UnsupportedError where it is not the one that was asked for."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    require_dtypes(model, cell.workload)
    return {
        **implementation(trainer, device),
        "attention": attention(model),
        "loss": f"{_defined_at(type(trainer).compute_loss)} over {_defined_at(type(_base(model)).forward)}",
        "compile": compiled(model),
        "adapter_kernels": adapter_kernels(model),
        "checkpointing": checkpointing_used(model, cell),
        "embedding_device": str(model.get_input_embeddings().weight.device),
        "packing": str(bool(trainer.args.packing or getattr(trainer.args, "padding_free", False))).lower(),
    }


def checkpointing_used(model: Any, cell: Cell) -> str:
    """Whose: unsloth's own swaps torch's function for one that moves activations to main memory.

    Raises UnsupportedError where another one was asked for.
    """
    import torch.utils.checkpoint

    if not cell.workload.gradient_checkpointing:
        return "none"
    recorded = getattr(model, "_unsloth_gradient_checkpointing", None)
    patched = torch.utils.checkpoint.checkpoint.__module__.startswith("unsloth")
    used = "unsloth" if patched and recorded in (None, "unsloth") else "torch"
    if cell.implementation.checkpointing not in (None, used):
        raise UnsupportedError(f"checkpointing {cell.implementation.checkpointing} was asked for, and unsloth made it {used}")
    return used


def attention(model: Any) -> str:
    """Where the blocks' attention is computed, and by which library: unsloth's own code chooses one, transformers' is told."""
    block = next((module for name, module in model.named_modules() if name.endswith("self_attn")), None)
    where = "unknown" if block is None else _defined_at(type(block).forward)
    dispatch = sys.modules.get("unsloth.utils.attention_dispatch")
    if dispatch is None or not where.startswith("unsloth"):
        return f"{where}, {model.config._attn_implementation}"
    return f"{where}, {dispatch.select_attention_backend()}"


def compiled(model: Any) -> str:
    """What unsloth put through torch's compiler, by the mark that it leaves on a block's forward."""
    blocks = {type(module).__name__ for module in model.modules() if getattr(type(module).forward, BLOCK_COMPILED, False)}
    return f"torch.compile by unsloth of each {', '.join(sorted(blocks))}" if blocks else "kernels of unsloth's own choice"


def adapter_kernels(model: Any) -> str:
    """The functions that unsloth put in place of the blocks' projections, where it did."""
    names = ("apply_qkv", "apply_o")
    bound = (module.__dict__.get(name) for module in model.modules() for name in names)
    kernels = {str(getattr(each, "__name__", each)) for each in bound if each is not None}
    return ",".join(sorted(kernels)) or "none"


def _base(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _defined_at(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _config(work: Workload) -> dict[str, Any]:
    """config.json as transformers writes it, with the class that has the head. Raises UnsupportedError for a strange family."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    family = work.model.config["model_type"]
    if family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise UnsupportedError(f"transformers has no language model {family!r}")
    config = hf_build.configuration(work)
    config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[family]]
    config.dtype = work.weights_dtype
    written: dict[str, Any] = config.to_dict()
    return written
