"""Every probe of techniques.toml is true of the versions installed here; run by `nox -s slow` and `nox -s slow-unsloth`."""

from __future__ import annotations

from functools import cache

import pytest

from bench.support import Answer, probe_all
from bench.techniques import Stack

pytestmark = pytest.mark.slow
MLX_LACKS = {
    "adapters-16bit",
    "varlen-packing",
    "optimizer-8bit",
    "optimizer-paged",
    "nf4",
    "double-quantization",
    "fused-cross-entropy",
    "activation-offload",
    "rslora",
    "pissa",
    "loftq",
    "galore",
    "apollo",
    "lora-plus",
    "neftune",
    "dpo",
    "grpo",
}
MLX_NEEDS_METAL = {"flash-attention", "fp8-training", "unified-memory"}
APPLE_LACKS = {"adapters-16bit", "activation-offload", "galore", "apollo"}
APPLE_SAYS = {"varlen-packing", "optimizer-paged", "nf4", "double-quantization", "pissa", "loftq"}


@cache
def answers() -> tuple[Answer, ...]:
    return probe_all().answers


def probed(stack: Stack, home: str) -> dict[str, str]:
    return {each.technique: each.has for each in answers() if (each.stack, each.home) == (stack, home) and each.probed}


def test_hugging_face_has_every_technique_but_one_memory() -> None:
    found = probed("hf", "cuda")
    assert set(found.values()) == {"yes"}, {each.technique: each.reason for each in answers() if each.stack == "hf"}
    assert {each.technique for each in answers() if each.stack == "hf"} - set(found) == {"unified-memory"}


def test_what_mlx_has_and_lacks() -> None:
    found = probed("mlx", "metal")
    assert {name for name, has in found.items() if has == "no"} - MLX_NEEDS_METAL == MLX_LACKS
    assert {name for name, has in found.items() if has == "unknown"} == set()
    assert {each.technique for each in answers() if each.stack == "mlx" and not each.probed} <= MLX_NEEDS_METAL


@pytest.mark.unsloth
def test_what_unsloth_has_and_lacks() -> None:
    card, apple = probed("unsloth", "cuda"), probed("unsloth", "metal")
    assert {name for name, has in card.items() if has != "yes"} == {"adapters-16bit"}
    assert {each.technique for each in answers()} - set(card) == {"unified-memory"}
    assert {name for name, has in apple.items() if has != "yes"} - MLX_NEEDS_METAL == APPLE_LACKS
    missing = {each.technique for each in answers() if each.home == "metal" and each.stack == "unsloth"} - set(apple)
    assert APPLE_SAYS <= missing <= APPLE_SAYS | MLX_NEEDS_METAL
