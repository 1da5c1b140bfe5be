"""Names in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.predict.spelling import Printed, is_apple, machine_parts, model_key


@pytest.mark.parametrize(
    ("printed", "key"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama3 8b"),
        ("LLaMA3 8B", "llama3 8b"),
        ("Llama-3.1-8B", "llama3.1 8b"),
        ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", "qwen2.5 7b"),
        ("Qwen/Qwen1.5-7B-Chat-GPTQ-Int4", "qwen1.5 7b"),
        ("Llama-3.3-70B Q4_K_M", "llama3.3 70b"),
        ("Mistral-7B-Instruct-v0.2-4-bit", "mistralv0.2 7b"),
        ("gemma-2b", "gemma 2b"),
        ("gemma-2-2b-it", "gemma2 2b"),
        ("phi-1_5", "phi15"),
        ("", ""),
    ],
)
def test_a_models_key_keeps_its_words_and_its_size(printed: str, key: str) -> None:
    assert model_key(printed) == key


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("2x NVIDIA GeForce RTX 4090 24GB", Printed(chip="4090", memory_gb=24.0, count=2)),
        ("4× A100 80GB", Printed(chip="a100", memory_gb=80.0, count=4)),
        ("A100 80GB x8", Printed(chip="a100", memory_gb=80.0, count=8)),
        ("2x 3090", Printed(chip="3090", count=2)),
        ("RTX4090", Printed(chip="4090")),
        ("RTX 6000 Ada", Printed(chip="6000ada")),
        ("M2 Ultra (24-core CPU, 76-core GPU, 192GB)", Printed(chip="m2ultra", memory_gb=192.0, cores=76)),
        ("NVIDIA 24 GB class GPU", Printed(chip="", memory_gb=24.0)),
        ("", Printed(chip="")),
    ],
)
def test_a_machines_parts(printed: str, found: Printed) -> None:
    assert machine_parts(printed) == found


def test_apple_is_known_without_the_chip() -> None:
    assert [is_apple(name) for name in ("M5 Max 128GB", "Apple Silicon", "MacBook", "RTX 4090", "A100")] == [True] * 3 + [
        False
    ] * 2


@given(st.text(max_size=60))
def test_no_name_is_too_odd(printed: str) -> None:
    assert machine_parts(printed).count >= 0
    assert model_key(model_key(printed)) is not None
