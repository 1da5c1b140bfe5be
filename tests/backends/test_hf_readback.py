"""What a run says of its implementation is read from what was built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from bench.backends import hf_readback
from bench.backends.hf import HuggingFace
from bench.backends.hf_readback import refuse_fallback
from bench.backends.interface import UnsupportedError
from bench.spec import Cell, Implementation

NORMS = "input_layernorm,norm,post_attention_layernorm"

EXPECTED = [
    (
        {"method": "full"},
        {"attention": "sdpa", "quantization_format": "none", "unquantised": "all", "autocast": "none", "compile": "none"},
    ),
    ({"method": "full", "master_dtype": "float32"}, {"autocast": "bf16"}),
    ({"method": "lora", "attention": "eager"}, {"attention": "eager", "checkpointing": "use_reentrant=false"}),
    (
        {"method": "qlora"},
        {"quantization_format": "nf4-double", "unquantised": f"embed_tokens,input_layernorm,lm_head,{NORMS[16:]}"},
    ),
    (
        {"method": "qlora", "quantization_format": "nf4", "gradient_checkpointing": False},
        {"quantization_format": "nf4", "checkpointing": "none"},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), EXPECTED, ids=[str(fields) for fields, _ in EXPECTED])
def test_tells_what_was_built(
    hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], fields: dict[str, Any], expected: dict[str, str]
) -> None:
    implementation = hf_run(hf_cell(**fields), max_steps=1).loaded.implementation
    assert {name: implementation[name] for name in expected} == expected
    assert implementation["loss"].endswith("nll from a tiled head (torch)")
    assert all(isinstance(value, str) and value for value in implementation.values())


def test_tells_a_tied_head_by_its_embeddings(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]) -> None:
    unquantised = hf_run(hf_cell("qwen3", "qlora"), max_steps=1).loaded.implementation["unquantised"]
    assert unquantised == "embed_tokens,input_layernorm,k_norm,norm,post_attention_layernorm,q_norm"


@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_tells_how_the_allocator_is_set(
    hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    assert hf_run(hf_cell(), max_steps=1).loaded.implementation["allocator"] == "default"
    monkeypatch.setenv(variable, "expandable_segments:True")
    assert hf_run(hf_cell(), max_steps=1).loaded.implementation["allocator"] == "expandable_segments:True"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["full", "qlora"])
def test_compiles_where_asked(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], method: str) -> None:
    """Half a minute and more: inductor calls the C++ compiler for each graph."""
    compiled = hf_run(hf_cell(method=method, compile=True, weights_dtype="float32"), repeat_every=1)
    plain = hf_run(hf_cell(method=method, weights_dtype="float32"), repeat_every=1)
    assert compiled.loaded.implementation["compile"] == "inductor"
    assert compiled.session.losses == pytest.approx(plain.session.losses, rel=1e-3)
    assert 0 < compiled.peaks.compile_s < sum(step.duration_s for step in compiled.session.steps)
    assert compiled.session.steps[0].duration_s > 5 * compiled.session.steps[2].duration_s


def liger_of_the_stage(model: Any, **_: Any) -> None:
    """As liger-kernel 0.8.5 does it: a method bound to each module, found in its `__dict__`. Torch stands in for Triton."""

    def forward(self: Any, hidden: Any) -> Any:
        scale = hidden.float().pow(2).mean(-1, keepdim=True).add(self.variance_epsilon).rsqrt()
        return self.weight * (hidden.float() * scale).to(hidden.dtype)

    forward.__module__, forward.__qualname__ = "liger_kernel.transformers.rms_norm", "LigerRMSNorm.forward"
    for layer in model.model.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.__dict__["forward"] = forward.__get__(norm, type(norm))


@pytest.fixture
def liger(monkeypatch: pytest.MonkeyPatch, hf: HuggingFace) -> ModuleType:
    """A liger-kernel that transformers takes for real."""
    package, part = ModuleType("liger_kernel"), ModuleType("liger_kernel.transformers")
    part._apply_liger_kernel_to_instance = liger_of_the_stage  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", part)
    monkeypatch.setattr("transformers.trainer.is_liger_kernel_available", lambda: True, raising=False)
    monkeypatch.setattr("transformers.integrations.liger.is_liger_kernel_available", lambda: True)
    real = hf_readback.version
    monkeypatch.setattr(hf_readback, "version", lambda name: "0.8.5" if name == "liger-kernel" else real(name))
    return part


def run_liger(hf: HuggingFace, cell: Cell, batches: Any, session: Any) -> None:
    """Past the door, which sends Liger to CUDA."""
    assert hf.refuses(cell) is not None
    hf.run(cell, batches, session)


def test_ligers_kernels_are_told_by_what_they_bound(
    liger: ModuleType,
    hf: HuggingFace,
    hf_cell: Callable[..., Cell],
    hf_batches: Callable[..., Any],
    hf_recorder: Any,
    hf_run: Callable[..., Any],
) -> None:
    cell, session = hf_cell(kernels="liger", weights_dtype="float32"), hf_recorder()
    run_liger(hf, cell, hf_batches(cell), session)
    assert session.load.implementation["kernels"] == "liger 0.8.5: LigerRMSNorm"
    plain = hf_run(hf_cell(weights_dtype="float32"))
    assert "kernels" not in plain.loaded.implementation
    assert session.losses == pytest.approx(plain.session.losses, rel=1e-5)


def test_liger_that_patches_nothing_does_not_pass(
    liger: ModuleType,
    hf: HuggingFace,
    hf_cell: Callable[..., Cell],
    hf_batches: Callable[..., Any],
    hf_recorder: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it ends for a family that liger-kernel does not know: it says so in its log and goes on."""
    monkeypatch.setattr(liger, "_apply_liger_kernel_to_instance", lambda model, **_: None)
    cell, session = hf_cell(kernels="liger"), hf_recorder()
    with pytest.raises(UnsupportedError, match="kernels liger was asked for, and the stack made it none"):
        run_liger(hf, cell, hf_batches(cell), session)
    assert session.load is None


FOUND = {"attention": "sdpa", "compile": "inductor", "kernels": "liger 0.8.5: LigerRMSNorm"}


@pytest.mark.parametrize(
    ("asked", "found", "reason"),
    [
        ({"attention": "flash"}, {}, "attention flash was asked for, and the stack made it sdpa"),
        ({"attention": "eager"}, {}, "attention eager was asked for, and the stack made it sdpa"),
        ({"attention": "flash-attn"}, {"attention": "kernels-community/flash-attn2"}, "made it kernels-community/flash-attn2"),
        ({"compile": True}, {"compile": "none"}, "compile true was asked for, and the stack made it none"),
    ],
)
def test_a_rung_that_fell_back_is_unsupported(asked: dict[str, Any], found: dict[str, str], reason: str) -> None:
    with pytest.raises(UnsupportedError) as told:
        refuse_fallback(Implementation(**asked), FOUND | found)
    assert reason in str(told.value)


@pytest.mark.parametrize("asked", [{}, {"attention": "sdpa", "compile": True, "kernels": "liger"}, {"compile": False}])
def test_a_rung_that_is_what_it_was_asked_to_be_passes(asked: dict[str, Any]) -> None:
    refuse_fallback(Implementation(**asked), FOUND)
