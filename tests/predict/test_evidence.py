"""What a row proves, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.cited import Cited
from bench.predict.evidence import LENGTHS, Observation, observe, rate_usable

ROW = Cited(
    id="fms-001",
    source="s",
    date="2025-02-07",
    hardware="NVIDIA A100-80GB",
    framework="HF Trainer + fms-acceleration (none)",
    model="mistralai/Mistral-7B-v0.1",
    method="LoRA",
    lora_rank=16,
    lora_targets="q,k,v,o",
    quant_bits=16,
    optimizer="AdamW (HF default)",
    batch=4,
    grad_accum=1,
    seq_len=4096,
    grad_checkpointing="yes",
    dtype="bfloat16",
    peak_mem_bytes=26_703_959_163,
    meter="allocated",
    tokens_per_s=3324.155,
    outcome="ok",
    notes="packed",
)


def seen(**change: object) -> Observation:
    found = observe(replace(ROW, **change))  # type: ignore[arg-type]  # the fields have several types
    assert isinstance(found, Observation), found
    return found


def test_a_row_that_states_all_is_one_cell() -> None:
    found = seen()
    (cell,) = found.cells
    work = cell.workload
    assert (work.batch_size, work.sequence_length, work.rank, work.modules) == (4, 4096, 16, "q_proj,k_proj,v_proj,o_proj")
    assert (cell.backend, cell.device, found.stated, rate_usable(found)) == ("hf", "cuda", True, True)
    assert found.machine is not None
    assert found.capacity_bytes == found.machine.capacity_bytes


@pytest.mark.parametrize(
    ("change", "named", "cells"),
    [
        ({"grad_checkpointing": None}, "gradient checkpointing", 2),
        ({"lora_rank": None}, "rank", 2),
        ({"lora_targets": None}, "modules", 2),
        ({"batch": None}, "batch size", 2),
        ({"seq_len": None}, "sequence length", len(LENGTHS)),
        ({"notes": "Alpaca; seq_len is a cap"}, "sequence length", 2),
        ({"framework": "ms-swift"}, "attention kernel", 2),
        ({"lora_rank": None, "batch": None}, "rank", 4),
    ],
)
def test_what_is_unstated_is_named_and_all_of_it_taken(change: dict[str, object], named: str, cells: int) -> None:
    found = seen(**change)
    assert named in found.missing
    assert (len(found.cells), found.stated, found.conditions) == (cells, False, "open conditions")


def test_an_unstated_optimizer_matters_to_a_full_fine_tune_alone() -> None:
    assert seen(optimizer=None).stated
    assert seen(optimizer=None, method="full").missing == ("optimizer",)


def test_the_longest_sample_makes_the_peak_and_rates_of_unknown_lengths_are_none() -> None:
    found = seen(seq_len=None, notes="Alpaca variable length, longest sample 1304 tok")
    assert [cell.workload.sequence_length for cell in found.cells] == [1304]
    assert not rate_usable(seen(seq_len=None))


def test_an_unstated_meter_states_not_all() -> None:
    assert not seen(meter="unstated").stated
    assert seen(framework="torchtune").conditions == "another stack"


def test_mlx_adapts_the_last_sixteen_blocks_unless_told_otherwise() -> None:
    mac = {"framework": "mlx-lm", "hardware": "Apple M1 Max (32GB)", "meter": "mlx_peak"}
    assert seen(**mac).cells[0].workload.adapter_layers == 16
    assert seen(**mac, notes="4 LoRA layers, WikiSQL").cells[0].workload.adapter_layers == 4


def test_unsloths_own_checkpointing_only_where_it_is_said() -> None:
    assert seen(framework="Unsloth", grad_checkpointing="unsloth").cells[0].implementation.checkpointing == "unsloth"
    assert seen(framework="Unsloth", grad_checkpointing="yes").cells[0].implementation.checkpointing is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"outcome": "crash"}, "another reason than memory"),
        ({"meter": "vendor_claim"}, "vendor"),
        ({"method": "inference"}, "method inference"),
        ({"model": "Falcon-40B"}, "no architecture"),
        ({"quant_bits": 8}, "base in 8 bits"),
        ({"method": "full", "optimizer": "paged_adamw_8bit"}, "paged"),
        ({"dtype": "bf16-mixed"}, "float32 weights"),
        ({"notes": "CPU offload of weights"}, "main memory"),
        ({"hardware": "2x NVIDIA RTX 4090", "notes": "FSDP"}, "sharded"),
        ({"framework": "llama.cpp/Ollama"}, "no rules here"),
        ({"params_b": 70.0}, "billion parameters here, and 70 in the source"),
        ({"lora_targets": "all linear, lm_head"}, "embeddings or the head"),
        ({"method": "full", "optimizer": "adafactor"}, "optimizer"),
        ({"quant_bits": None, "dtype": None}, "unstated bits"),
    ],
)
def test_what_proves_nothing_is_left_out_with_the_reason(change: dict[str, object], reason: str) -> None:
    found = observe(replace(ROW, **change))  # type: ignore[arg-type]
    assert isinstance(found, str)
    assert reason in found


def test_stated_conditions_are_those_of_the_cell() -> None:
    (cell,) = seen(grad_accum=8, optimizer="adamw_torch_fused", lora_targets="q_proj, v_proj").cells
    assert (cell.workload.gradient_accumulation, cell.implementation.optimizer_kernel) == (8, "fused")
    assert cell.workload.modules == "q_proj,v_proj"


def test_adapters_on_a_quantised_base_are_a_qlora_in_its_bits() -> None:
    assert seen(quant_bits=4).cells[0].workload.method == "qlora"
    assert seen(quant_bits=None, method="QLoRA").cells[0].workload.quantization_bits == 4
    mac = {"framework": "mlx-lm", "hardware": "Apple M1 Max (32GB)", "meter": "mlx_peak"}
    assert seen(**mac, quant_bits=8).cells[0].workload.quantization_bits == 8


def test_a_row_out_of_memory_has_no_peak() -> None:
    found = seen(outcome="oom")
    assert (found.peak_bytes, found.outcome) == (None, "oom")


@pytest.mark.parametrize("peak_bytes", [8_000_000, 200 * 10**9])
def test_a_peak_that_cannot_be_is_left_out(peak_bytes: int) -> None:
    """7B weights take 14 GB, and the device has 80: a figure in another unit must teach nothing."""
    reason = observe(replace(ROW, peak_mem_bytes=peak_bytes))
    assert isinstance(reason, str)
    assert "another unit" in reason
