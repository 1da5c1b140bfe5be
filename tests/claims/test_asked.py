"""Which work a claim is about."""

from __future__ import annotations

import numpy as np
import pytest
from claim_rows import CONDITIONS, PC, claim

from bench.claims import asked
from bench.claims.claim import Side

DECLARED = {**CONDITIONS, "modules": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"}


def test_the_works_of_a_claim_are_its_models_by_its_methods():
    both = claim("fit", fits="yes", models=("llama-3.2-1b", "llama-3.1-8b"), methods=("full", "qlora"))
    assert [(work.model.name, work.method) for work in asked.works(both)] == [
        ("llama-3.2-1b", "full"),
        ("llama-3.2-1b", "qlora"),
        ("llama-3.1-8b", "full"),
        ("llama-3.1-8b", "qlora"),
    ]


@pytest.mark.parametrize(
    ("model", "method", "changed", "apart"),
    [
        ("llama-3.1-8b", "lora", {}, []),
        ("llama-3.1-8b", "lora", {"rank": 8, "sequence_length": 512}, ["rank 8", "sequence_length 512"]),
        ("llama-3.1-8b", "lora", {"adapter_layers": 16}, ["adapter_layers 16"]),
        ("llama-3.1-8b", "lora", {"adapter_layers": np.int64(16)}, ["adapter_layers 16"]),
        ("llama-3.1-8b", "lora", {"adapter_layers": 32}, []),
        ("llama-3.1-8b", "lora", {"adapter_layers": float("nan")}, []),
        ("llama-3.1-8b", "lora", {"adapter_layers": None}, []),
        ("llama-3.1-8b", "qlora", {}, None),
        ("qwen3-8b", "lora", {}, None),
    ],
)
def test_conditions_that_differ_are_named(model, method, changed, apart):
    assert asked.differing(claim("fit", fits="yes"), model, method, {**DECLARED, **changed}) == apart


def test_conditions_that_a_method_lacks_are_left_out():
    full = claim("fit", fits="yes", methods=("full",))
    assert asked.differing(full, "llama-3.1-8b", "full", {**DECLARED, "rank": None, "modules": None}) == []


def test_a_machine_trains_by_its_owners_stacks():
    (work,) = asked.works(claim("fit", fits="yes"))
    (profile,) = asked.profiles(PC)
    assert [cell.backend for cell in asked.cells(PC, profile, work)] == ["hf", "unsloth"]
    named = Side(machines=("pc-rtx-4090",), backends=("mlx",))
    assert [cell.backend for cell in asked.cells(named, profile, work)] == ["mlx"]
