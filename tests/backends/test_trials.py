"""The trials on what this environment has; what only Metal shows is tried on a simulated one."""

from __future__ import annotations

from typing import Any

import pytest

from bench.backends import trials
from bench.backends.trials import TRIALS

mx = pytest.importorskip("mlx.core")


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)


def test_mlx_lm_makes_adapters_in_float32_on_a_4_bit_layer() -> None:
    assert TRIALS["mlx-adapters"]() == (False, "LoRALinear on a 4-bit layer has float32 adapters")


@pytest.mark.parametrize("mode", ["mxfp4", "nvfp4"])
def test_mlx_has_the_formats(mode: str) -> None:
    assert TRIALS[f"mlx-{mode}"]() == (True, f"mx.quantize and mx.quantized_matmul take {mode}")


def test_a_format_that_mlx_refuses_is_told() -> None:
    outcome, reason = trials.mlx_format("nf4")
    assert outcome is False
    assert reason.startswith("mx.quantize refuses nf4: ")


@pytest.mark.parametrize("name", ["mlx-unified", "mlx-flash", "mlx-fp8"])
def test_without_metal_what_it_shows_cannot_be_tried(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    assert TRIALS[name]() == (None, "no Metal device here")


@pytest.mark.parametrize(("seen", "unified"), [(96 * 2**30, True), (24 * 2**30, False)])
@pytest.mark.usefixtures("metal")
def test_memory_is_one_where_the_gpu_sees_all_of_it(monkeypatch: pytest.MonkeyPatch, seen: int, unified: bool) -> None:
    pages = {"SC_PAGE_SIZE": 2**14, "SC_PHYS_PAGES": 96 * 2**16}
    monkeypatch.setattr(trials.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(mx, "device_info", lambda: {"memory_size": seen})
    assert trials.mlx_unified()[0] is unified


@pytest.mark.usefixtures("metal")
def test_attention_that_holds_its_scores_is_not_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX on the CPU has no fused kernel, so the scores are in the peak."""
    monkeypatch.setattr(trials, "LENGTH", 512)
    monkeypatch.setattr(trials, "HEADS", 2)
    outcome, reason = trials.mlx_flash()
    assert outcome is False
    assert reason.startswith("forward and backward of 512 tokens peak at ")


def test_attention_that_does_not_hold_its_scores_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LENGTH", 512)
    monkeypatch.setattr(trials, "HEADS", 2)
    monkeypatch.setattr(mx, "get_peak_memory", lambda: 100_000)
    assert trials.attention_peak()[0] is True


@pytest.mark.usefixtures("metal")
def test_a_product_that_is_not_implemented_does_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("[QQMatmul] NYI for the general case")

    monkeypatch.setattr(mx, "qqmm", refuse)
    outcome, reason = trials.mlx_fp8()
    assert outcome is False
    assert reason.endswith("does not train on Metal: [QQMatmul] NYI for the general case")
