"""The door of the mlx backend: whole runs on tiny models, refusals, and how faults are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Any

import pytest
from tiny_models import FAMILIES, LLAMA, QWEN3

from bench.backends import mlx as door
from bench.backends.interface import Backend, SeenRequest, SeenStep, UnsupportedError, load_backend
from bench.data import Batches
from bench.events import Loaded
from bench.model import Model, count_parameters, model_from_config
from bench.record import OUTCOMES
from bench.spec import Cell, Device, Implementation, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold


@dataclass
class Recorder:
    """A session that keeps what it is told."""

    max_steps: int = 3
    built: list[str] = field(default_factory=list)
    loads: list[Loaded] = field(default_factory=list)
    steps: list[SeenStep] = field(default_factory=list)
    requests: list[SeenRequest] = field(default_factory=list)

    def progress(self, what: str) -> None:
        self.built.append(what)

    def loaded(self, loaded: Loaded) -> None:
        self.loads.append(loaded)

    def step(self, seen: SeenStep) -> bool:
        self.steps.append(seen)
        return True

    def request(self, seen: SeenRequest) -> bool:
        self.requests.append(seen)
        return True


def cell_of(config: dict[str, Any] = LLAMA, device: Device = "cpu", how: Implementation | None = None, **declared: Any) -> Cell:
    shape = {"method": "lora", "batch_size": 2, "sequence_length": 12, "learning_rate": 1e-2, "rank": 8}
    work = workload(model=model_from_config("tiny", config), **{**shape, **declared})
    return Cell(work, "mlx", device, how or Implementation())


def batches_of(cell: Cell) -> Batches:
    work = cell.workload
    return Batches(work.model.config["vocab_size"], work.batch_size, work.sequence_length, work.seed, repeat_every=1)


def test_the_backend_stands_behind_the_door() -> None:
    backend: Backend = load_backend("mlx")
    assert backend.devices[0] == "metal"
    assert set(backend.extras) == set(backend.devices)
    assert backend.missing("cpu") == []


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_cell_runs_and_learns_the_tokens_it_was_given(family: str, method: str, checkpointing: bool) -> None:
    cell = cell_of(FAMILIES[family], method=method, gradient_checkpointing=checkpointing)
    batches, session = batches_of(cell), Recorder()
    backend = door.Mlx()
    assert backend.refuses(cell) is None
    backend.prepare()
    peaks = backend.run(cell, batches, session)

    assert [seen.step for seen in session.steps] == [1, 2, 3]
    assert all(seen.tokens_digest == batches.digest(seen.step - 1, 1) for seen in session.steps)
    assert all((seen.tokens, seen.loss_tokens) == (24, 22) for seen in session.steps)
    losses = [seen.loss for seen in session.steps]
    assert losses[0] is not None
    assert losses[-1] is not None
    assert losses[-1] < losses[0] - 0.1
    (loaded,) = session.loads
    assert loaded.build_s is not None
    assert 0 < loaded.build_s < loaded.load_s
    assert peaks.compile_s == 0.0
    assert loaded.parameters == count_parameters(FAMILIES[family])
    assert session.built[-1] == "building block 2 of 2"
    assert peaks.framework_peak_bytes == session.steps[-1].framework_peak_bytes
    assert peaks.framework_peak_bytes is not None
    assert peaks.framework_peak_bytes > 0
    assert peaks.cache_peak_bytes is not None
    assert peaks.cache_peak_bytes > 0


def test_trainable_parameters_are_exact() -> None:
    expected = {"full": count_parameters(LLAMA), "lora": 2 * 8 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 192))}
    for method, count in expected.items():
        session = Recorder(max_steps=1)
        cell = cell_of(method=method)
        door.Mlx().run(cell, batches_of(cell), session)
        assert session.loads[0].trainable_parameters == count


def test_the_implementation_is_told() -> None:
    session = Recorder(max_steps=1)
    cell = cell_of(QWEN3, method="qlora", quantization_bits=8)
    door.Mlx().run(cell, batches_of(cell), session)
    assert dict(session.loads[0].implementation) == {
        "attention": "mx.fast.scaled_dot_product_attention",
        "loss": "mlx_lm default_loss over full logits",
        "optimizer": "mlx.AdamW, bias-corrected",
        "quantization_format": "affine, groups of 64",
        "unquantised": "embed_tokens,input_layernorm,k_norm,norm,post_attention_layernorm,q_norm",
        "checkpointing": "mlx_lm grad_checkpoint of every TransformerBlock",
        "compile": "none (MLX_DISABLE_COMPILE)",
        "buffer_cache": "emptied after every micro-batch",
    }


def test_the_implementation_of_a_plain_cell_is_told() -> None:
    session = Recorder(max_steps=1)
    cell = cell_of(method="full", optimizer="sgd", gradient_checkpointing=False, how=Implementation(compile=False))
    door.Mlx().run(cell, batches_of(cell), session)
    told = session.loads[0].implementation
    assert told["optimizer"] == "mlx.SGD, keeping an unused momentum"
    assert told["quantization_format"] == told["checkpointing"] == told["compile"] == "none"


REFUSALS = [
    ({"method": "serve"}, Implementation(attention="eager"), "always attends through"),
    ({"method": "serve", "quantization_bits": 4}, Implementation(quantization_format="nf4"), "not in nf4"),
    ({"optimizer": "adamw_8bit"}, None, "no 8-bit AdamW"),
    ({"method": "full", "master_dtype": "float32"}, None, "no autocast"),
    ({"method": "full", "optimizer_dtype": "float32"}, None, "bfloat16, not in float32"),
    ({"optimizer_dtype": "bfloat16"}, None, "float32, not in bfloat16"),
    ({}, Implementation(attention="eager"), "always attends through"),
    ({}, Implementation(attention="flash"), "never by flash"),
    ({}, Implementation(attention="flash-attn"), "never by flash-attn"),
    ({}, Implementation(kernels="liger"), "Triton's, which MLX has not"),
    ({}, Implementation(checkpointing="torch"), "not in torch's"),
    ({}, Implementation(optimizer_kernel="fused"), "no fused optimizer kernel"),
    ({"method": "qlora"}, Implementation(quantization_format="nf4"), "not in nf4"),
    ({"method": "qlora"}, Implementation(quantization_format="nf4-double"), "not in nf4-double"),
    ({"dropout": 0.1, "gradient_checkpointing": True}, None, "another dropout mask"),
    ({"adapter_layers": 3}, None, "3 blocks are to be adapted, the model has 2"),
]


@pytest.mark.parametrize(("declared", "how", "reason"), REFUSALS)
def test_what_cannot_be_done_exactly_is_refused_with_its_reason(declared: dict, how: Implementation | None, reason: str) -> None:
    refusal = door.Mlx().refuses(cell_of(how=how, **declared))
    assert refusal is not None
    assert reason in refusal


@pytest.mark.parametrize(
    ("declared", "how"),
    [
        ({"dropout": 0.1, "gradient_checkpointing": False}, None),
        ({"method": "lora"}, Implementation(quantization_format="nf4")),
        ({"method": "qlora", "quantization_bits": 8}, Implementation(quantization_format="affine", attention="sdpa")),
        ({"method": "full", "optimizer": "sgd"}, Implementation(compile=True)),
        ({"adapter_layers": 2, "modules": "attention"}, None),
        ({"method": "serve"}, Implementation(compile=True)),
        ({"method": "serve", "quantization_bits": 8, "weights_dtype": "float16"}, None),
    ],
)
def test_what_can_be_done_is_not_refused(declared: dict, how: Implementation | None) -> None:
    assert door.Mlx().refuses(cell_of(how=how, **declared)) is None


@pytest.mark.parametrize(
    ("width", "reason"),
    [
        ({"hidden_size": 80, "head_dim": 16}, "hidden_size 80"),
        ({"intermediate_size": 100}, "intermediate_size 100"),
        ({"head_dim": 24}, "attention width 96"),
    ],
)
def test_widths_that_groups_do_not_divide_are_refused_for_qlora_only(width: dict, reason: str) -> None:
    config = {**LLAMA, **width}
    refusal = door.Mlx().refuses(cell_of(config, method="qlora"))
    assert refusal is not None
    assert refusal.endswith(f"do not divide {reason}")
    assert door.Mlx().refuses(cell_of(config, method="lora")) is None


def test_an_unknown_architecture_is_refused() -> None:
    cell = cell_of()
    unknown = Model("unknown", json.dumps({**LLAMA, "model_type": "perceptron"}))
    cell = with_fields(cell, workload=with_fields(cell.workload, model=unknown))
    assert door.Mlx().refuses(cell) == "mlx-lm has no model type 'perceptron'"
    with pytest.raises(UnsupportedError, match="perceptron not supported"):
        door.Mlx().run(cell, batches_of(cell), Recorder())


def test_an_architecture_that_mlx_lm_computes_otherwise_is_refused_and_a_window_by_the_sequences_length() -> None:
    assert door.Mlx().refuses(cell_of({**LLAMA, "attention_dropout": 0.5})) == (
        "mlx-lm has no dropout in attention (attention_dropout 0.5)"
    )
    mistral = {**LLAMA, "model_type": "mistral", "sliding_window": 12}
    assert door.Mlx().refuses(cell_of(mistral)) is None
    assert "sliding window of 12" in (door.Mlx().refuses(cell_of(mistral, sequence_length=13)) or "")


def test_cuda_needs_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert door.Mlx().refuses(cell_of(device="cuda")) is None
    assert door.Mlx().refuses(cell_of(device="mps")) == "mlx does not run on mps"
    assert door.Mlx().missing("cuda") == ["mlx-cuda"]
    monkeypatch.setattr(door, "CUDA_DISTRIBUTIONS", ("mlx-cuda-13", "mlx"))
    assert door.Mlx().missing("cuda") == []


def test_the_door_imports_no_framework() -> None:
    cell = json.dumps(cell_of(method="qlora").to_json())
    code = (
        "import json, sys; from bench.backends.interface import load_backend; from bench.spec import Cell;"
        "refusal = load_backend('mlx').refuses(Cell.from_json(json.loads(sys.argv[1])));"
        "print(refusal, [name for name in ('mlx', 'mlx.core', 'mlx_lm', 'torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, cell], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None []"


OUT_OF_MEMORY = (
    "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
)
BUFFER = (
    "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer size of 3 bytes."
)
INTERACTIVITY = "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)"
IGNORED = "Ignored (for causing prior/excessive GPU errors) (00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)"
FAILED = "[METAL] Command buffer execution failed: "


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RuntimeError(OUT_OF_MEMORY), "oom_device"),
        (RuntimeError(BUFFER), "oom_device"),
        (RuntimeError("[malloc_async] Unable to allocate 1024 bytes."), "oom_device"),
        (RuntimeError("cudaMallocManaged(&new_data, buf.size) failed: out of memory"), "oom_device"),
        (RuntimeError("cudaGraphInstantiate(&graph_exec_, graph) failed: out of memory"), "oom_device"),
        (RuntimeError("[malloc] Unable to allocate 1024 bytes."), "oom_host"),
        (RuntimeError("[malloc_or_wait] Unable to allocate 9663676416 bytes."), "oom_host"),
        (RuntimeError("[metal::malloc] Resource limit (499000) exceeded."), "crashed"),
        (RuntimeError(f"{FAILED}Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)"), "crashed"),
        (RuntimeError(f"{FAILED}Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)"), "crashed"),
        (RuntimeError(FAILED + INTERACTIVITY), "crashed"),
        (RuntimeError(FAILED + IGNORED), "device_lost"),
        (ValueError("shapes (2,3) and (4,5) cannot be broadcast"), None),
        (RuntimeError("the log says: out of memory lane"), None),
    ],
)
def test_faults_are_read(error: BaseException, outcome: str | None) -> None:
    assert door.Mlx().fault(error) == outcome
    assert outcome is None or outcome in OUTCOMES


@pytest.mark.parametrize("device", ["metal", "cuda"])
def test_a_device_that_mlx_does_not_see_is_unsupported(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    monkeypatch.setattr(getattr(mx, device), "is_available", lambda: False)
    cell = cell_of(device=device)
    with pytest.raises(UnsupportedError, match=f"MLX sees no {device} device here"):
        door.Mlx().run(cell, batches_of(cell), Recorder())


def test_the_same_words_speak_of_the_devices_memory_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_choose_device", lambda device: None)
    backend = door.Mlx()
    cell = cell_of(device="metal")
    backend.run(cell, batches_of(cell), Recorder(max_steps=1))
    assert backend.fault(RuntimeError("[malloc] Unable to allocate 1024 bytes.")) == "oom_device"


def test_its_limit_is_kept_by_accounting_of_active_memory() -> None:
    import mlx.core as mx

    held = door.Mlx().limit_memory("cpu", 10**9)
    assert held.means == "accounting"
    assert held.peak_bytes is not None
    mx.reset_peak_memory()
    before_bytes = held.peak_bytes()
    mx.eval(mx.zeros((1_000_000,), dtype=mx.float32))
    assert held.peak_bytes() >= before_bytes + 4_000_000
