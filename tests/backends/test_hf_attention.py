"""Attention is done by the kernel asked for, or not at all: tried on torch's real flash kernel for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.backends import cuda

from bench.backends.hf import HuggingFace
from bench.backends.hf_attention import PINNED, held_to, used
from bench.backends.interface import UnsupportedError
from bench.spec import Attention, Cell


class Built:
    """As much of a model as tells its attention."""

    class config:  # noqa: N801  # an attribute's name
        _attn_implementation = "sdpa"


def switches() -> tuple[bool, ...]:
    return cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("attention", ["eager", "sdpa", "flash"])
def test_every_kernel_trains_alike_and_is_read_back(
    hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], family: str, attention: Attention
) -> None:
    plain = hf_run(hf_cell(family, weights_dtype="float32"), repeat_every=1)
    run = hf_run(hf_cell(family, weights_dtype="float32", attention=attention), repeat_every=1)
    assert run.loaded.implementation["attention"] == (PINNED if attention == "flash" else attention)
    assert run.session.losses == pytest.approx(plain.session.losses, rel=1e-5)
    assert run.session.losses[-1] < run.session.losses[0]


def test_flash_runs_the_flash_kernel_and_no_other(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        hf_run(hf_cell(weights_dtype="float32", attention="flash"), max_steps=1)
    calls = {event.key: event.count for event in seen.key_averages() if "scaled_dot_product" in event.key}
    assert calls["aten::_scaled_dot_product_flash_attention_for_cpu"] == calls["aten::scaled_dot_product_attention"] == 6
    assert calls["aten::_scaled_dot_product_flash_attention_for_cpu_backward"] == 3
    assert "aten::_scaled_dot_product_attention_math" not in calls


def test_what_the_flash_kernel_cannot_do_is_unsupported_and_never_done_otherwise(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_recorder: Any, hf_batches: Callable[..., Any]
) -> None:
    """Torch's flash kernel for the CPU has no dropout; left to itself, torch takes another kernel then."""
    config = {"attention_dropout": 0.5}
    session, before = hf_recorder(), switches()
    cell = hf_cell(weights_dtype="float32", attention="flash", config=config)
    with pytest.raises(UnsupportedError, match="nothing may stand in for it"):
        hf.run(cell, hf_batches(cell), session)
    assert session.steps == []
    assert switches() == before
    cell = hf_cell(weights_dtype="float32", attention="sdpa", config=config)
    hf.run(cell, hf_batches(cell), other := hf_recorder())
    assert len(other.steps) == 3


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), held_to("flash"):
        raise RuntimeError("CUDA out of memory")


@pytest.mark.parametrize("attention", [None, "eager", "sdpa", "flash-attn"])
def test_nothing_else_is_held(attention: Attention | None) -> None:
    before = switches()
    with held_to(attention):
        assert switches() == before


def test_held_is_read_back_only_while_it_is_held() -> None:
    assert used(Built()) == "sdpa"
    with held_to("flash"):
        assert used(Built()) == PINNED
    assert used(Built()) == "sdpa"


def test_flash_attn_without_its_package_is_unsupported(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_recorder: Any, hf_batches: Callable[..., Any]
) -> None:
    """transformers would take a kernel from the hub instead, where the package `kernels` is there."""
    cell = hf_cell(attention="flash-attn")
    with pytest.raises(UnsupportedError, match="doesn't seem to be installed"):
        hf.run(cell, hf_batches(cell), hf_recorder())
