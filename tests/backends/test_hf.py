"""The door of the Hugging Face backend: what it refuses, what it runs, and how it reads what went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tiny_models import GEMMA3

from bench.backends import hf_limit
from bench.backends.hf import ENVIRONMENT, HuggingFace
from bench.backends.interface import Held, UnsupportedError, load_backend
from bench.spec import Cell

REFUSED = [
    ({"method": "serve", "compile": True}, "compiles generation on CUDA, not on cpu"),
    ({"method": "serve", "compile": True, "device": "mps"}, "compiles generation on CUDA, not on mps"),
    ({"method": "serve", "quantization_bits": 8}, "4 bits only"),
    ({"method": "serve", "quantization_bits": 4, "quantization_format": "affine"}, "use nf4 or nf4-double"),
    ({"device": "metal"}, "does not run on metal"),
    ({"method": "qlora", "quantization_bits": 8}, "4 bits only"),
    ({"method": "full", "optimizer_dtype": "float32"}, "bfloat16, not float32"),
    ({"method": "lora", "optimizer_dtype": "bfloat16"}, "float32, not bfloat16"),
    ({"method": "full", "weights_dtype": "float16"}, "zero in float16"),
    ({"method": "lora", "adapter_dtype": "float16"}, "zero in float16"),
    ({"method": "full", "weights_dtype": "float16", "master_dtype": "float32"}, "no float16 autocast on the CPU"),
    ({"method": "lora", "optimizer": "adamw_8bit", "device": "mps"}, "no 8-bit optimizer on MPS"),
    ({"method": "lora", "adapter_layers": 4}, "last 4 blocks of a model that has 3"),
    ({"method": "qlora", "quantization_format": "affine"}, "use nf4 or nf4-double"),
    ({"method": "full", "optimizer": "adamw_8bit", "optimizer_kernel": "fused"}, "fused was asked for"),
    ({"checkpointing": "unsloth"}, "its own backend's"),
    ({"attention": "flash-attn"}, "computes on CUDA, not on cpu"),
    ({"attention": "flash-attn", "device": "mps"}, "computes on CUDA, not on mps"),
    ({"attention": "flash", "device": "mps"}, "no flash kernel on MPS"),
    ({"attention": "flash", "device": "cuda", "weights_dtype": "float32"}, "flash attention computes in 16 bits"),
    ({"attention": "flash-attn", "device": "cuda", "weights_dtype": "float32"}, "flash-attn attention computes in 16 bits"),
    ({"kernels": "liger"}, "which hf has on CUDA, not on cpu"),
    ({"method": "serve", "attention": "flash"}, "in training alone"),
    ({"method": "serve", "kernels": "liger", "device": "cuda"}, "in training alone"),
    ({"config": {"rope_traditional": True}}, "never neighbouring pairs (rope_traditional)"),
    ({"family": "qwen3", "config": {"mlp_bias": True}}, "qwen3 has no biases in its MLP (mlp_bias)"),
    ({"family": "mistral", "config": {"attention_bias": True}}, "mistral has no biases in attention (attention_bias)"),
    ({"config": {"layer_types": ["full_attention", "sliding_attention"]}}, "no difference between layers (layer_types)"),
    ({"config": {"num_attention_heads": 6, "head_dim": 16}}, "wants hidden_size 64 to be a multiple of its 6 heads"),
    ({"config": {**GEMMA3, "num_attention_heads": 6}}, "wants hidden_size 64 to be a multiple of its 6 heads"),
    ({"config": {**GEMMA3, "attn_logit_softcapping": 50.0}}, "caps no scores of attention (attn_logit_softcapping)"),
]
ACCEPTED = [
    {"method": "full"},
    {"method": "full", "weights_dtype": "bfloat16", "master_dtype": "float32", "optimizer_dtype": "float32"},
    {"method": "full", "weights_dtype": "float16", "master_dtype": "float32", "device": "cuda"},
    {"method": "full", "optimizer": "adamw_8bit"},
    {"method": "full", "optimizer": "sgd", "weights_dtype": "float16"},
    {"method": "lora", "adapter_layers": 3, "modules": "attention", "attention": "eager"},
    {"method": "lora", "quantization_format": "affine"},
    {"method": "lora", "attention": "flash", "weights_dtype": "float32", "checkpointing": "torch"},
    {"method": "qlora", "attention": "flash-attn", "kernels": "liger", "compile": True, "device": "cuda"},
    {"method": "qlora", "quantization_format": "nf4", "adapter_dtype": "bfloat16"},
    {"method": "qlora", "device": "mps"},
    {"method": "serve", "compile": False},
    {"method": "serve", "compile": True, "device": "cuda"},
    {"method": "serve", "quantization_bits": 4, "quantization_format": "nf4", "weights_dtype": "float16"},
    {"config": {"attention_bias": True, "mlp_bias": True, "attention_dropout": 0.5, "hidden_act": "gelu"}},
    {"family": "mistral", "config": {"sliding_window": 4, "attention_bias": False, "mlp_bias": False}},
    {"family": "qwen3", "config": {"num_attention_heads": 6, "head_dim": 16}},
    {"config": {**GEMMA3, "final_logit_softcapping": 30.0, "attention_bias": True}},
]


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refuses_what_it_cannot_do_and_says_why(hf_cell: Callable[..., Cell], fields: dict[str, Any], reason: str) -> None:
    refusal = HuggingFace().refuses(hf_cell(**fields))
    assert refusal is not None
    assert reason in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_accepts_the_rest(hf_cell: Callable[..., Cell], fields: dict[str, Any]) -> None:
    assert HuggingFace().refuses(hf_cell(**fields)) is None


def test_planning_imports_no_framework() -> None:
    script = (
        "import sys; from bench.backends.interface import load_backend\n"
        "from bench.model import model_from_config\n"
        "from bench.spec import Cell, workload\n"
        "model = model_from_config('m', {'model_type': 'other'})\n"
        "hf = load_backend('hf'); hf.missing('cpu'); hf.fault(RuntimeError())\n"
        "assert hf.refuses(Cell(workload(model=model, method='full'), 'hf', 'cpu')) is None\n"
        "print(sorted({'torch', 'transformers', 'trl', 'peft', 'datasets', 'bitsandbytes', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_is_the_backend_named_hf_and_complete_here() -> None:
    backend = load_backend("hf")
    assert isinstance(backend, HuggingFace)
    assert backend.name == "hf"
    assert backend.missing("cpu") == []
    assert backend.extras == {"cuda": "cuda", "mps": "hf-mps", "cpu": "cpu"}


def test_prepare_leaves_no_way_out_to_the_network(hf: HuggingFace) -> None:
    assert {name: os.environ[name] for name in ENVIRONMENT} == ENVIRONMENT
    assert "trl.trainer.sft_trainer" in sys.modules


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_a_run_tells_true_steps_and_learns(
    hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], family: str, method: str
) -> None:
    cell = hf_cell(family, method, weights_dtype="bfloat16")
    run = hf_run(cell, max_steps=4, repeat_every=1)
    steps = run.session.steps
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert all(step.tokens == 32 and step.loss_tokens == 30 for step in steps)
    assert {step.tokens_digest for step in steps} == {run.batches.digest(0, 1)}
    assert steps[0].start_s == 0
    assert all(one.start_s + one.duration_s == pytest.approx(next_one.start_s) for one, next_one in pairwise(steps))
    assert run.session.losses[-1] < run.session.losses[0] - 0.02
    assert run.loaded.parameters == cell.workload.model.parameters
    assert 0 < run.loaded.build_s < run.loaded.load_s
    assert run.peaks.compile_s == 0.0
    assert (run.peaks.framework_peak_bytes, run.peaks.reserved_peak_bytes, run.peaks.cache_peak_bytes) == (None, None, None)
    assert all(step.framework_peak_bytes is None for step in steps)


def test_an_architecture_unknown_to_transformers_is_unsupported(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_batches: Callable[..., Any], hf_recorder: Any
) -> None:
    cell = hf_cell(method="full", config={"model_type": "nobodys"})
    with pytest.raises(UnsupportedError, match="cannot build 'nobodys'") as caught:
        hf.run(cell, hf_batches(cell), hf_recorder())
    assert "\n" not in str(caught.value)


def test_a_failed_allocation_on_the_host_is_read_as_such(hf: HuggingFace) -> None:
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert hf.fault(caught.value) == "oom_host"


FAULTS = [
    (
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 8.69 MiB is free.",
        "oom_device",
    ),
    ("MPS backend out of memory (MPS allocated: 9.05 GB, other allocations: 2.40 MB, max allowed: 9.07 GB).", "oom_device"),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "oom_device"),
    ("CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported", "device_lost"),
    ("CUDA error: unspecified launch failure", "device_lost"),
    ("CUDA error: uncorrectable ECC error encountered", "device_lost"),
    ("CUDA error: an illegal memory access was encountered", "device_lost"),
    ("mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", None),
]


@pytest.mark.parametrize(("message", "outcome"), FAULTS, ids=[message[:40] for message, _ in FAULTS])
def test_reads_the_framework_s_faults(hf: HuggingFace, message: str, outcome: str | None) -> None:
    assert hf.fault(RuntimeError(message)) == outcome


def test_reads_a_fault_by_its_kind_where_it_has_one(hf: HuggingFace) -> None:
    import torch

    assert hf.fault(torch.OutOfMemoryError("whatever the driver says")) == "oom_device"
    assert hf.fault(torch.AcceleratorError("CUDA error: device-side assert triggered", 710)) == "device_lost"
    assert hf.fault(ValueError("out of memory")) is None


def test_its_limit_is_kept_by_hf_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def hold(device: str, capacity_bytes: int) -> Held:
        asked.append((device, capacity_bytes))
        return Held("torch-cuda-allocator")

    monkeypatch.setattr(hf_limit, "hold", hold)
    assert HuggingFace().limit_memory("cuda", 24) == Held("torch-cuda-allocator")
    assert asked == [("cuda", 24)]
