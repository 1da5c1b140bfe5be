"""What mlx's cells need: against the real backend on the CPU, and what is said where the graph cannot be had."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest
from predict.mlx_cells import cell_of, measured_peak_bytes
from predict.mlx_held_out import ERRORS, HELD_OUT, HELD_OUT_LATER, HELD_OUT_THIRD

from bench.predict import mlx
from bench.predict.mlx_graph import NotExported
from bench.predict.mlx_simulation import Peak
from bench.predict.prediction import PARTS, Memory
from bench.spec import Cell, Implementation

CONSTANT_BYTES = 2
"""The number of micro-batches, by which gradients are divided, in bfloat16."""
SMALL = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}


@pytest.mark.parametrize("device", ["cpu", "metal"])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_a_prediction_adds_up(method: str, device: str) -> None:
    found = mlx.memory(cell_of(SMALL, device, method=method, batch_size=1, sequence_length=32, rank=4))
    assert found.how == "graph"
    assert tuple(found.parts) == PARTS
    assert sum(found.parts.values()) == found.peak_bytes
    assert found.peak_low_bytes <= found.peak_bytes <= found.peak_high_bytes
    assert found.held_low_bytes <= found.held_bytes <= found.held_high_bytes
    assert found.reserved_bytes is None
    assert found.held_bytes - found.peak_bytes == (300_000_000 if device == "cpu" else 0)
    assert (found.parts["adapters"] > 0) == (method != "full")
    assert any("buffer cache" in note for note in found.notes)


def test_weights_and_optimizer_are_exact() -> None:
    """bfloat16 weights; two float32 moments for each of the float32 adapters, and two scalars (step, learning rate)."""
    cell = cell_of(SMALL, method="lora", batch_size=1, sequence_length=32, rank=4)
    found = mlx.memory(cell)
    adapters = 2 * 4 * sum((64 + 64,) * 4 + (64 + 192,) * 3) * 4
    assert found.parts["weights"] == 2 * (cell.workload.model.parameters or 0)
    assert found.parts["adapters"] == adapters
    assert found.parts["optimizer"] == 2 * adapters + 8 + 4


def test_checkpointing_saves_activations_and_accumulation_costs_gradients() -> None:
    """Of six blocks' activations one block's are left, and what enters each of the others."""

    def step(**declared: Any) -> Peak:
        cell = cell_of({**SMALL, "num_hidden_layers": 6}, method="full", batch_size=1, sequence_length=128, **declared)
        return mlx.simulate(cell).at_once

    plain = step(gradient_checkpointing=False)
    assert step(gradient_checkpointing=True).parts["activations"] < 0.4 * plain.parts["activations"]
    accumulating = step(gradient_accumulation=2, gradient_checkpointing=False)
    parameters = cell_of({**SMALL, "num_hidden_layers": 6}, method="full").workload.model.parameters or 0
    assert accumulating.before_bytes == plain.before_bytes + 2 * parameters + CONSTANT_BYTES
    assert accumulating.nbytes > plain.nbytes + parameters


def test_a_step_that_is_not_compiled_is_not_fused_and_is_less_sure() -> None:
    declared = {"method": "lora", "batch_size": 1, "sequence_length": 64, "rank": 4}
    compiled, eager = (mlx.memory(cell_of(SMALL, how=Implementation(compile=on), **declared)) for on in (None, False))
    assert eager.peak_bytes != compiled.peak_bytes
    assert eager.peak_high_bytes / eager.peak_bytes > 1.07 > compiled.peak_high_bytes / compiled.peak_bytes
    assert any("not compiled" in note for note in eager.notes)


def rules_that_say(nbytes: int) -> Any:
    found = Memory(
        parts=dict.fromkeys(PARTS, 0),
        peak_bytes=nbytes,
        peak_low_bytes=nbytes,
        peak_high_bytes=nbytes,
        held_bytes=nbytes,
        held_low_bytes=nbytes,
        held_high_bytes=nbytes,
        how="rules",
    )
    return SimpleNamespace(memory=lambda cell: found)


def test_the_closed_form_stands_in_where_there_is_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(step: Any) -> Any:
        raise NotExported("no such primitive")

    monkeypatch.setattr(mlx, "export", refuse)
    monkeypatch.setattr(mlx, "rules", rules_that_say(1000))
    found = mlx.memory(cell_of(SMALL, method="lora", sequence_length=32))
    assert (found.how, found.peak_bytes, found.peak_low_bytes, found.peak_high_bytes) == ("rules", 1000, 800, 1200)
    assert "no such primitive" in found.notes[-1]


def test_serving_is_left_to_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx, "rules", rules_that_say(1000))
    found = mlx.memory(cell_of(SMALL, method="serve"))
    assert (found.peak_bytes, found.peak_low_bytes) == (1000, 1000)
    assert found.notes == ("serving is predicted by the closed form",)


def error_of(cell: Cell, *, synchronous: bool = False) -> float:
    found = mlx.simulate(cell)
    expected = found.at_once if synchronous else found.full
    return expected.nbytes / measured_peak_bytes(cell, synchronous=synchronous) - 1


LOOKED_AT: list[dict[str, Any]] = [
    {"method": method, "gradient_checkpointing": checkpointing, "batch_size": batch, "sequence_length": length, "rank": 8}
    for method, batch, length in (("lora", 2, 128), ("qlora", 1, 192), ("full", 2, 96))
    for checkpointing in (True, False)
]


@pytest.mark.slow
@pytest.mark.parametrize("declared", LOOKED_AT)
def test_the_backend_takes_what_was_predicted(declared: dict[str, Any]) -> None:
    """Seen while building, LoRA at 2 × 128: 0.0% apart with checkpointing, 0.8% without."""
    assert abs(error_of(cell_of(**declared))) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_step_that_is_not_compiled_lies_within_its_interval(checkpointing: bool) -> None:
    """Seen while building: 1.4% below the value with checkpointing, 7.5% above it without."""
    declared = {"method": "lora", "batch_size": 2, "sequence_length": 128, "rank": 8, "gradient_checkpointing": checkpointing}
    cell = cell_of(how=Implementation(compile=False), **declared)
    found = mlx.memory(cell)
    assert found.peak_low_bytes <= measured_peak_bytes(cell) <= found.peak_high_bytes


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [True, False])
def test_without_a_queue_the_low_end_is_what_it_takes(checkpointing: bool) -> None:
    """Seen while building: 0.0% and 0.4% apart; and again on a machine that was busy."""
    cell = cell_of(method="lora", batch_size=2, sequence_length=128, rank=8, gradient_checkpointing=checkpointing)
    assert abs(error_of(cell, synchronous=True)) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [HELD_OUT, HELD_OUT_LATER, HELD_OUT_THIRD])
def test_held_out_shapes_are_predicted(shapes: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]) -> None:
    """What the first runs gave stands in `mlx_held_out`."""
    errors = {name: error_of(cell_of(config, **work)) for name, config, work in shapes}
    assert mean(abs(error) for error in errors.values()) < 0.05, errors
    assert max(abs(error) for error in errors.values()) < 0.10, errors


def test_the_spread_is_what_the_held_out_shapes_showed() -> None:
    """The largest of 15 is the least order statistic that 90% of further shapes are expected to stay under (15 of 16: 94%)."""
    above = [1 / (1 + error) - 1 for error in ERRORS]
    assert len(above) == len([*HELD_OUT, *HELD_OUT_LATER, *HELD_OUT_THIRD]) == 15
    assert max(above) <= mlx.SPREAD < max(above) + 0.001
    assert mean(map(abs, ERRORS)) < 0.05
    assert max(map(abs, ERRORS)) < 0.10


LLAMA_8B = {
    "head_dim": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "low_gb", "high_gb"), [("lora", 16, 20), ("qlora", 6, 9.5)])
def test_published_peaks_of_eight_billion_parameters(method: str, low_gb: float, high_gb: float) -> None:
    """About 16-20 GB for LoRA and 6-9 GB for QLoRA with checkpointing (issue 5), far more without."""
    cell = cell_of(LLAMA_8B, "metal", method=method, batch_size=1, sequence_length=2048, rank=8)
    found = mlx.memory(cell)
    assert low_gb < found.peak_low_bytes / 1e9 < found.peak_bytes / 1e9 < high_gb
    plain = mlx.memory(replace(cell, workload=replace(cell.workload, gradient_checkpointing=False)))
    assert plain.peak_bytes > 2 * found.peak_bytes
