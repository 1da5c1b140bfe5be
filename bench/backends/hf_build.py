"""A transformers model, written module by module into its final precision, and its adapters.

In: a cell. Out: a torch model on the cell's device. The skeleton stands on the meta device, where weights cost nothing; each
weight is then made (`hf_weights`: drawn or read) and, for a 4-bit layer, quantised before the next one is made. So the peak is
the final size and a constant, whatever the number of layers: a 70B 4-bit model never needs 140 GB.

The constant is what the largest weight needs on its way. Embeddings and the head are never quantised; drawn, they are written in
place. Quantising was measured to take 16 bytes an element on the CPU, most of them float32 copies in bitsandbytes: for the
largest matrix of Llama 3.3 70B, 8192 × 28672, 3.8 GB. On CUDA its kernel needs the 16-bit weight, 0.5 GB, and no copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.backends.hf_attention import BUILT
from bench.backends.hf_device import require
from bench.backends.hf_weights import Values, values_of
from bench.backends.interface import Session, UnsupportedError
from bench.spec import Cell, Workload

WINDOWED = ("mistral", "qwen2", "qwen3")
"""Families whose transformers configuration assumes a window of 4096 tokens where none is given. A config.json that says
`null` means none, and the one form of an architecture holds no nulls."""


def build(cell: Cell, session: Session, source: Callable[[Any, Cell], Values] | None = None) -> Any:
    """The base model on the cell's device, every weight in its final precision, without adapters.

    A `transformers.PreTrainedModel`. `source` gives the values in place of the cell's own: the predictor's take no memory.
    Raises UnsupportedError for an architecture that transformers cannot build or a device that torch does not see.
    """
    require(cell.device)
    model = _skeleton(cell)
    quantizer = _quantize_skeleton(model, cell) if cell.workload.quantization_bits else None
    model.tie_weights()
    _materialise(model, cell, session, (source or values_of)(model, cell))
    model.tie_weights()
    if quantizer is not None:
        quantizer.postprocess_model(model)
        model.hf_quantizer = quantizer
    return model


def attach_adapters(model: Any, workload: Workload) -> Any:
    """The model with fresh LoRA adapters in `adapter_dtype`, all else frozen; the model itself for a full fine-tune.

    A `peft.PeftModel` whose adapters are named `base_model.model.<module>.lora_A.default.weight` (rank × in) and `lora_B`
    (out × rank). `lora_A` is drawn from torch's generator seeded by `workload.seed`, `lora_B` is zero, and their product is
    scaled by alpha / rank. Raises UnsupportedError where the architecture lacks one of the modules.
    """
    if not workload.has_adapters:
        return model
    import torch
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import LoraLayer

    torch.manual_seed(workload.seed)
    blocks = _adapted_blocks(model.config.num_hidden_layers, workload.adapter_layers)
    config = LoraConfig(
        r=workload.rank,
        lora_alpha=workload.alpha,
        lora_dropout=workload.dropout,
        target_modules=list(workload.module_names),
        layers_to_transform=blocks,
        bias="none",
        task_type="CAUSAL_LM",
    )
    expected = len(blocks) * len(workload.module_names)
    try:
        adapted = get_peft_model(model, config)
    except ValueError as error:
        raise _incomplete(0, expected) from error
    found = sum(isinstance(module, LoraLayer) for module in adapted.modules())
    if found != expected:
        raise _incomplete(found, expected)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(getattr(torch, workload.trainable_dtype))
    return adapted


def count_parameters(model: Any) -> int:
    """Parameters of the base model: tied ones once, 4-bit ones by the elements that they stand for, no adapters."""
    return sum(_elements(parameter) for name, parameter in model.named_parameters() if ".lora_" not in name)


def count_trainable(model: Any) -> int:
    """Parameters that the optimizer will update, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _elements(parameter: Any) -> int:
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel() if state is None else state.shape.numel())


def _skeleton(cell: Cell) -> Any:
    """The model with its parameters on the meta device and its few buffers (rotary frequencies) real."""
    import torch
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM, __version__

    workload = cell.workload
    dtype = getattr(torch, workload.master_dtype or workload.weights_dtype)
    try:
        with init_empty_weights(include_buffers=False):
            return AutoModelForCausalLM.from_config(
                configuration(workload), dtype=dtype, attn_implementation=BUILT[cell.implementation.attention or "sdpa"]
            )
    except (ValueError, ImportError) as error:  # ImportError: a package for attention that is not there
        family = workload.model.config["model_type"]
        raise UnsupportedError(f"transformers {__version__} cannot build {family!r}: {_first_sentence(error)}") from error


def configuration(workload: Workload) -> Any:
    """The architecture as transformers holds it. Raises ValueError for a family that it does not know."""
    from transformers import AutoConfig

    declared = workload.model.config
    family = declared.pop("model_type")
    if family in WINDOWED:
        declared.setdefault("sliding_window", None)
    return AutoConfig.for_model(family, **declared)


def _quantize_skeleton(model: Any, cell: Cell) -> Any:
    """Put bitsandbytes' 4-bit layers, still empty, in place of the blocks' linear layers; their quantizer."""
    import torch
    from bitsandbytes.nn import Linear4bit
    from transformers import BitsAndBytesConfig
    from transformers.quantizers.auto import AutoHfQuantizer

    dtype = getattr(torch, cell.workload.weights_dtype)
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=cell.implementation.quantization_format != "nf4",
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=["lm_head"],
    )
    quantizer = AutoHfQuantizer.from_config(config, pre_quantized=False)
    quantizer.preprocess_model(model=model, device_map={"": cell.device}, dtype=dtype)
    for module in model.modules():
        if isinstance(module, Linear4bit):
            # On CPUs with AVX512-BF16 a forward in eval mode repacks the weights, and gradients are then lost, without an error.
            module.support_avx512bf16_for_cpu = False
    return quantizer


def _materialise(model: Any, cell: Cell, session: Session, values_for: Values) -> None:
    """Make every parameter that is still on the meta device, in the order of the model, and move the buffers."""
    import torch

    trainable = cell.workload.method == "full"
    for name, empty in list(model.named_parameters()):
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        values = values_for(name, empty)
        if hasattr(empty, "quant_type"):
            setattr(owner, leaf, _quantized(owner, empty, values))
        else:
            setattr(owner, leaf, torch.nn.Parameter(values, requires_grad=trainable))
        session.progress(f"built {name}")
    for module in model.modules():
        for leaf, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, leaf, buffer.to(cell.device))


def _quantized(layer: Any, empty: Any, values: Any) -> Any:
    """The 4-bit parameter of a layer: bitsandbytes quantises on the first move to a device, even to the same one."""
    from bitsandbytes.nn import Params4bit

    unpacked = Params4bit(
        values,
        requires_grad=False,
        quant_type=empty.quant_type,
        compress_statistics=empty.compress_statistics,
        quant_storage=empty.quant_storage,
        module=layer,
    )
    return unpacked.to(values.device)


def _adapted_blocks(count: int, wanted: int | None) -> list[int]:
    return list(range(count - (wanted or count), count))


def _incomplete(found: int, expected: int) -> UnsupportedError:
    return UnsupportedError(f"the workload adapts {expected} modules, and peft finds {found} of them in this architecture")


def _first_sentence(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0].split(". ", 1)[0]
