"""Techniques that no name gives away, tried on a few small tensors.

In: the frameworks of this environment. Out: per trial whether the stack does it, and what was seen; None where it cannot be tried
here. Each trial imports what it needs, so it is run in a child process (`bench.backends.probe`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.backends.hf_train import bare_tokenizer

Outcome = tuple[bool | None, str]
LENGTH, HEADS, HEAD_SIZE = 4096, 8, 64
"""Of the attention that is tried: its scores would take 256 MiB in 16 bits, all else of it under 50."""


def hf_adapters() -> Outcome:
    """In which dtype SFTTrainer trains the adapters that peft puts on a 4-bit model, where nobody asks for one."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig, get_peft_model
    from trl import SFTConfig, SFTTrainer

    model = get_peft_model(_four_bit_model(), LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with tempfile.TemporaryDirectory() as folder:
        settings = SFTConfig(
            output_dir=folder, use_cpu=not torch.cuda.is_available(), report_to="none", bf16=True, gradient_checkpointing=False
        )
        data = Dataset.from_list([{"input_ids": [1, 2, 3]}])
        trainer = SFTTrainer(model, settings, train_dataset=data, processing_class=bare_tokenizer())
    dtypes = {str(each.dtype).removeprefix("torch.") for each in trainer.model.parameters() if each.requires_grad}
    return dtypes <= {"bfloat16", "float16"}, f"adapters on a 4-bit model are {', '.join(sorted(dtypes))} in trl's SFTTrainer"


def _four_bit_model() -> Any:
    """One block of a Llama in nf4, on the CPU."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig
    from transformers.quantizers.auto import AutoHfQuantizer

    shape = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=256
    )
    settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16)
    quantizer = AutoHfQuantizer.from_config(settings, pre_quantized=False)
    quantizer.preprocess_model(model=model, device_map={"": "cpu"}, dtype=torch.bfloat16)
    quantizer.postprocess_model(model)
    model.hf_quantizer = quantizer
    return model


def mlx_adapters() -> Outcome:
    """In which dtype mlx-lm makes the adapters of a 4-bit layer of a 16-bit model."""
    import mlx.core as mx
    from mlx import nn
    from mlx_lm.tuner.lora import LoRALinear

    layer = nn.Linear(64, 64, bias=False)
    layer.set_dtype(mx.bfloat16)
    adapted = LoRALinear.from_base(nn.QuantizedLinear.from_linear(layer, 64, 4), r=4)
    dtypes = {str(each.dtype).removeprefix("mlx.core.") for each in (adapted.lora_a, adapted.lora_b)}
    return dtypes <= {"bfloat16", "float16"}, f"LoRALinear on a 4-bit layer has {', '.join(sorted(dtypes))} adapters"


def mlx_format(mode: str) -> Outcome:
    """Whether MLX quantises to that format and multiplies by it."""
    import mlx.core as mx

    weight = mx.ones((32, 64), dtype=mx.bfloat16)
    try:
        packed, scales, *_ = mx.quantize(weight, mode=mode)
        mx.eval(mx.quantized_matmul(mx.ones((1, 64), dtype=mx.bfloat16), packed, scales, mode=mode))
    except (ValueError, RuntimeError) as error:
        return False, f"mx.quantize refuses {mode}: {error}"
    return True, f"mx.quantize and mx.quantized_matmul take {mode}"


def mlx_unified() -> Outcome:
    """Whether the GPU that MLX sees has the computer's own main memory."""
    import mlx.core as mx

    if not mx.metal.is_available():
        return None, "no Metal device here"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    seen = int(mx.device_info()["memory_size"])
    return seen == total, f"the Metal device has {seen:,} bytes of memory, the computer {total:,}"


def mlx_flash() -> Outcome:
    """Whether attention's gradients come without the matrix of scores, told by the peak of memory."""
    import mlx.core as mx

    if not mx.metal.is_available():
        return None, "no Metal device here"
    return attention_peak()


def attention_peak() -> Outcome:
    """The peak of one attention forward and backward against what its scores take, on MLX's default device."""
    import mlx.core as mx

    def loss(queries: Any, keys: Any, values: Any) -> Any:
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=HEAD_SIZE**-0.5, mask="causal")
        return attended.astype(mx.float32).sum()

    tensors = [mx.random.normal((1, HEADS, LENGTH, HEAD_SIZE)).astype(mx.float16) for _ in range(3)]
    mx.eval(tensors)
    mx.reset_peak_memory()
    mx.eval(mx.grad(loss, argnums=(0, 1, 2))(*tensors))
    peak_bytes, scores_bytes = mx.get_peak_memory(), HEADS * LENGTH * LENGTH * 2
    seen = (
        f"forward and backward of {LENGTH} tokens peak at {peak_bytes / 1e6:.0f} MB, their scores take {scores_bytes / 1e6:.0f}"
    )
    return peak_bytes < scores_bytes / 2, seen


def mlx_fp8() -> Outcome:
    """Whether the gradients of a layer that multiplies in 8-bit floats can be had on Metal."""
    import mlx.core as mx
    from mlx import nn

    if not mx.metal.is_available():
        return None, "no Metal device here"
    layer = nn.QQLinear(64, 64, mode="mxfp8")
    layer.train()
    try:
        mx.eval(nn.value_and_grad(layer, lambda rows: layer(rows).sum())(mx.ones((32, 64), dtype=mx.bfloat16)))
    except (ValueError, RuntimeError) as error:
        return False, f"nn.QQLinear in mxfp8 does not train on Metal: {error}"
    return True, "nn.QQLinear in mxfp8 trains on Metal"


TRIALS: Mapping[str, Callable[[], Outcome]] = {
    "hf-adapters": hf_adapters,
    "mlx-adapters": mlx_adapters,
    "mlx-mxfp4": partial(mlx_format, "mxfp4"),
    "mlx-nvfp4": partial(mlx_format, "nvfp4"),
    "mlx-unified": mlx_unified,
    "mlx-flash": mlx_flash,
    "mlx-fp8": mlx_fp8,
}
