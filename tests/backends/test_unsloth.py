"""The door of the unsloth backend: what it refuses, how it imports, and how it reads what went wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.backends import unsloth as door
from bench.backends.interface import Backend, UnsupportedError, load_backend
from bench.backends.unsloth import ENVIRONMENT, Unsloth
from bench.spec import Cell

Make = Callable[..., Cell]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"device": "cpu"}, "falls back on stock transformers"),
    ({"device": "mps"}, "does not run on mps"),
    ({"method": "serve"}, "needs vLLM"),
    ({"method": "qlora", "quantization_bits": 8}, "4 bits only"),
    ({"sequence_length": 4096}, "beyond 2048 positions"),
    ({"weights_dtype": "float32"}, "declare bfloat16, with master_dtype float32"),
    ({"method": "full", "weights_dtype": "float16"}, "trains float16 weights in float32"),
    ({"method": "full", "weights_dtype": "float16", "device": "metal"}, "trains float16 weights in float32"),
    ({"optimizer": "adamw_8bit", "device": "metal"}, "another way than bitsandbytes"),
    ({"attention": "sdpa"}, "sdpa cannot be asked of it"),
    ({"attention": "sdpa", "device": "metal"}, "sdpa cannot be asked of it"),
    ({"kernels": "liger"}, "liger cannot be put in their place"),
    ({"compile": True}, "leave compile out"),
    ({"checkpointing": "unsloth", "sequence_length": 511}, "below 512 tokens"),
    ({"checkpointing": "torch", "device": "metal"}, "never by torch's checkpointing"),
    # what the stack below cannot do, in its own words
    ({"method": "qlora", "quantization_format": "affine"}, "use nf4 or nf4-double"),
    ({"method": "full", "optimizer_dtype": "float32"}, "bfloat16, not float32"),
    ({"method": "qlora", "quantization_format": "nf4", "device": "metal"}, "affine groups"),
    ({"method": "full", "master_dtype": "float32", "device": "metal"}, "no autocast"),
    ({"dropout": 0.1, "device": "metal"}, "another dropout mask"),
]
ACCEPTED: list[dict[str, Any]] = [
    {"method": "full"},
    {"method": "full", "master_dtype": "float32", "optimizer": "adamw_8bit"},
    {"method": "lora", "checkpointing": "torch", "optimizer_kernel": "fused"},
    {"method": "qlora", "checkpointing": "unsloth", "sequence_length": 512},
    {"method": "qlora", "quantization_format": "nf4", "dropout": 0.1},
    {"method": "lora", "checkpointing": "unsloth", "sequence_length": 16, "gradient_checkpointing": False},
    {"method": "full", "device": "metal", "weights_dtype": "float32", "compile": False},
    {"method": "qlora", "device": "metal", "checkpointing": "unsloth"},
    {"method": "lora", "device": "metal", "weights_dtype": "float16", "modules": "attention", "adapter_layers": 2},
]


def made(make: Make, fields: dict[str, Any]) -> Cell:
    return replace(make(**{"device": "cuda", **fields}), backend="unsloth")


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=str)
def test_refuses_what_it_cannot_do_and_says_why(hf_cell: Make, fields: dict[str, Any], reason: str) -> None:
    refusal = Unsloth().refuses(made(hf_cell, fields))
    assert refusal is not None
    assert reason in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_accepts_the_rest(hf_cell: Make, fields: dict[str, Any]) -> None:
    assert Unsloth().refuses(made(hf_cell, fields)) is None


def test_is_the_backend_of_that_name_and_names_what_is_missing() -> None:
    backend: Backend = load_backend("unsloth")
    assert isinstance(backend, Unsloth)
    assert dict(backend.extras) == {"cuda": "cuda-unsloth", "metal": "mac-unsloth"}
    assert {"unsloth", "unsloth_zoo"} <= set(backend.missing("cuda")) & set(backend.missing("metal"))
    assert not {"torch", "trl", "mlx", "mlx_lm"} & {*backend.missing("cuda"), *backend.missing("metal")}


def test_planning_imports_no_framework() -> None:
    script = (
        "import sys; from bench.backends.interface import load_backend\n"
        "from bench.model import model_from_config\n"
        "from bench.spec import Cell, workload\n"
        "model = model_from_config('m', {'model_type': 'other'})\n"
        "it = load_backend('unsloth'); it.missing('cuda'); it.missing('metal'); it.fault(RuntimeError())\n"
        "assert it.refuses(Cell(workload(model=model, method='full'), 'unsloth', 'cuda')) is None\n"
        "print(sorted({'torch', 'transformers', 'trl', 'peft', 'mlx', 'mlx_lm', 'datasets', 'unsloth'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A package `unsloth` with that source, the environment as it was put back afterwards."""
    for name in (*ENVIRONMENT, "UNSLOTH_COMPILE_LOCATION", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "before")
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> None:
        (tmp_path / "unsloth.py").write_text(source)

    yield write
    sys.modules.pop("unsloth", None)


def test_prepare_sets_the_environment_before_the_import(fake_package: Callable[[str], None]) -> None:
    fake_package("import os, sys\nDEVICE_TYPE = 'mlx'\nSEEN = dict(os.environ)\n")
    backend = Unsloth()
    backend.prepare()
    seen = sys.modules["unsloth"].SEEN
    assert {name: seen[name] for name in ENVIRONMENT} == ENVIRONMENT
    assert ENVIRONMENT["UNSLOTH_DISABLE_CPU_FALLBACK"] == "1"
    assert ENVIRONMENT["HF_HUB_OFFLINE"] == "1"
    assert "ACCELERATE_MIXED_PRECISION" not in ENVIRONMENT
    assert Path(seen["UNSLOTH_COMPILE_LOCATION"]).is_dir()
    assert not Path(seen["UNSLOTH_COMPILE_LOCATION"]).is_relative_to(Path.cwd())
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "before"


def test_without_a_gpu_it_is_unsupported_and_never_the_fallback(fake_package: Callable[[str], None]) -> None:
    fake_package("raise NotImplementedError('Unsloth cannot find any torch accelerator? You need a GPU.')\n")
    with pytest.raises(UnsupportedError, match="finds no GPU here: Unsloth cannot find any"):
        Unsloth().prepare()


@pytest.mark.parametrize(("device", "part"), [("cuda", "unsloth_cuda"), ("metal", "unsloth_apple")])
def test_each_device_has_its_part(hf_cell: Make, monkeypatch: pytest.MonkeyPatch, device: str, part: str) -> None:
    ran = []
    monkeypatch.setattr(f"bench.backends.{part}.run", lambda *given: ran.append(given))
    cell = made(hf_cell, {"device": device})
    door.Unsloth().run(cell, "batches", "session")  # type: ignore[arg-type]  # they are passed on untouched
    assert ran == [(cell, "batches", "session")]


FAULTS = [
    ("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB", "oom_device"),
    ("CUDA error: device-side assert triggered", "device_lost"),
    (
        "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "oom_device",
    ),
    ("[malloc] Unable to allocate 123 bytes.", "oom_device"),
    ("[metal::malloc] Resource limit (499000) exceeded.", "crashed"),
    ("shapes do not match", None),
]


@pytest.mark.parametrize(("message", "outcome"), FAULTS, ids=[message[:30] for message, _ in FAULTS])
def test_reads_the_faults_of_both_stacks(message: str, outcome: str | None) -> None:
    assert Unsloth().fault(RuntimeError(message)) == outcome


def test_memory_is_held_as_on_the_stack_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.backends.hf_limit.hold", lambda device, capacity_bytes: (device, capacity_bytes))
    assert Unsloth().limit_memory("cuda", 7) == ("cuda", 7)
    assert Unsloth().limit_memory("metal", 7).means == "accounting"
