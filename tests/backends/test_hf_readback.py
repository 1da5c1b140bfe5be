"""What a run says of its implementation is read from what was built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.spec import Cell

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
