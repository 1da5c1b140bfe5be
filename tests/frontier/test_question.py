"""Ladders of cells, and when one cell surely needs at least the memory of another."""

from dataclasses import replace
from typing import Any

import pytest
from tiny_models import LLAMA, QWEN3

from bench.frontier.question import Question, at, needs_no_less, questions
from bench.model import model_from_config
from bench.spec import Cell, Frontier, Implementation, Span, workload


def cell(method: str = "lora", layers: int = 2, family: dict[str, Any] = LLAMA, **fields: Any) -> Cell:
    model = model_from_config(f"tiny-{layers}", {**family, "num_hidden_layers": layers})
    return Cell(workload(model=model, method=method, **fields), "hf", "cpu")


def ids(asked: tuple[Question, ...]) -> list[str]:
    return [question.id for question in asked]


def test_each_cell_is_asked_along_the_fields_that_its_method_has() -> None:
    spans = (Span("sequence_length", 16, 64, 16), Span("prompt_tokens", 8, 16), Span("batch_size", 1, 3))
    asked = questions(Frontier(spans=spans), [cell(), cell("serve", generated_tokens=4)])
    assert ids(asked) == [
        "tiny-2/lora/hf@cpu: sequence_length",
        "tiny-2/lora/hf@cpu: batch_size",
        "tiny-2/serve/hf@cpu: prompt_tokens",
        "tiny-2/serve/hf@cpu: batch_size",
    ]
    lengths, batches, prompts, _ = asked
    assert list(lengths.values) == [16, 32, 48, 64]
    assert (lengths.held, batches.held) == ({"batch_size": 1}, {"sequence_length": 2048})
    assert prompts.held == {"batch_size": 1}
    probe = lengths.cell(1)
    assert (probe.id, probe.workload.sequence_length) == ("tiny-2/lora/hf@cpu/sequence_length=32", 32)
    assert probe.key == replace(cell(), workload=replace(cell().workload, sequence_length=32)).key
    served = prompts.cell(0).workload
    assert (served.prompt_tokens, served.generated_tokens, served.sequence_length) == (8, 4, 12)


def test_no_sequence_is_longer_than_the_model_has_positions() -> None:
    spans = (Span("sequence_length", 1024, 8192, 1024), Span("prompt_tokens", 1024, 8192, 512))
    lengths, prompts = questions(Frontier(spans=spans), [cell(), cell("serve", generated_tokens=128)])
    assert list(lengths.values) == [1024, 2048]
    assert list(prompts.values) == [1024, 1536]
    assert questions(Frontier(spans=(Span("sequence_length", 4096, 8192),)), [cell()]) == ()


def test_the_largest_model_is_asked_of_each_method_and_stack() -> None:
    cells = [cell(layers=4), cell("full", layers=4), cell(), cell(layers=3), cell("full", layers=2), cell(layers=2, rank=8)]
    lora, full = questions(Frontier(model=True), cells)
    assert (lora.id, list(lora.values)) == ("*/lora/hf@cpu: model", ["tiny-2", "tiny-3", "tiny-4"])
    assert (full.id, list(full.values)) == ("*/full/hf@cpu: model", ["tiny-2", "tiny-4"])
    assert lora.cell(1) == cell(layers=3)
    assert lora.held == {"batch_size": 1, "sequence_length": 2048}


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (cell(sequence_length=64), cell(sequence_length=64)),
        (cell(sequence_length=64), cell(sequence_length=32)),
        (cell(batch_size=2, sequence_length=64), cell(sequence_length=32)),
        (cell(layers=4), cell(layers=2)),
        (cell(layers=4, batch_size=8), cell(layers=2, seed=3)),
        (at(cell("serve"), "prompt_tokens", 1024), cell("serve")),
    ],
)
def test_larger_in_every_dimension_needs_no_less(more: Cell, less: Cell) -> None:
    assert needs_no_less(more, less)
    assert needs_no_less(less, more) == (more.workload.digest == less.workload.digest)


@pytest.mark.parametrize(
    "other",
    [
        cell(batch_size=2, sequence_length=32),  # larger in one, smaller in the other
        cell("full"),
        cell(rank=8),
        cell(gradient_checkpointing=False),
        cell(weights_dtype="float32"),
        cell(layers=4, family=QWEN3),
        replace(cell(), backend="mlx"),
        replace(cell(), device="cuda"),
        replace(cell(), implementation=Implementation(attention="eager")),
    ],
)
def test_what_differs_otherwise_teaches_nothing(other: Cell) -> None:
    mine = cell(sequence_length=64)
    assert not needs_no_less(other, mine)
    assert not needs_no_less(mine, other)


def test_a_dimension_that_one_model_does_not_state_leaves_it_open() -> None:
    without = {name: value for name, value in LLAMA.items() if name != "head_dim"}
    assert not needs_no_less(cell(layers=4, family=without), cell(layers=2))
    assert not needs_no_less(cell(layers=4), cell(layers=2, family=without))
