"""Training through unsloth's MLX trainer: its settings, the tokens handed over, the clock, and when it is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fake_unsloth import Plan, Trainer, install_mlx

from bench.backends import unsloth_apple_train
from bench.backends.interface import UnsupportedError
from bench.backends.unsloth_apple_train import as_given, rows, settings, train
from bench.data import Batches, loss_mask
from bench.spec import Cell

Make = Callable[..., Cell]


def made(make: Make, **fields: Any) -> Cell:
    return replace(make(**fields), backend="unsloth")


def test_the_settings_are_those_of_equal_work(hf_cell: Make) -> None:
    cell = made(hf_cell, gradient_accumulation=3, optimizer="sgd", learning_rate=0.5, seed=9, gradient_checkpointing=False)
    given = settings(cell, 5, "folder")
    assert (given["max_steps"], given["per_device_train_batch_size"], given["gradient_accumulation_steps"]) == (5, 2, 3)
    assert (given["optim"], given["learning_rate"], given["lr_scheduler_type"], given["seed"]) == ("sgd", 0.5, "constant", 9)
    assert given["max_seq_length"] == 17
    assert given["warmup_steps"] == given["weight_decay"] == given["max_grad_norm"] == 0
    assert given["max_grad_leaf_norm"] == 0.0  # None would mean 1.0
    assert given["dataset_order"] == "sequential"
    assert not any(given[name] for name in ("gradient_checkpointing", "packing", "append_eos", "compile_auto_tune"))
    assert given["compile"] is True
    assert settings(made(hf_cell, compile=False), 5, "folder")["compile"] is False


def test_a_row_is_a_sequence_with_a_dummy_that_is_not_scored() -> None:
    batches = Batches(vocabulary=100, batch_size=2, sequence_length=4)
    made_rows = rows(batches, 3)
    assert len(made_rows) == 6
    assert [row["input_ids"][:-1] for row in made_rows] == [ids.tolist() for index in range(3) for ids in batches.ids(index)]
    assert all(row["input_ids"][:-1] == row["labels"][:-1] and row["labels"][-1] == -100 for row in made_rows)


def test_what_was_given_has_the_mask_of_the_data() -> None:
    ids = np.arange(10, 20).reshape(2, 5)
    labels = ids.copy()
    labels[:, -1] = -100
    forward, scored = as_given(ids, labels)
    assert (forward == ids[:, :-1]).all()
    assert (scored == loss_mask(ids[:, :-1])).all()


def test_a_scored_dummy_or_a_shifted_label_is_an_error() -> None:
    ids = np.arange(10, 20).reshape(2, 5)
    with pytest.raises(ValueError, match="dummy id"):
        as_given(ids, ids)
    with pytest.raises(ValueError, match="another id"):
        as_given(ids, np.where(np.arange(5) < 4, ids + 1, -100))


@pytest.fixture
def trained(hf_cell: Make, hf_batches: Any, hf_recorder: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    install_mlx(monkeypatch)

    def run(enough: int = 1_000_000, **fields: Any) -> Any:
        from mlx import nn

        cell = made(hf_cell, **fields)
        session = hf_recorder(4, enough)
        train(nn.Linear(2, 2), "tokenizer", cell, hf_batches(cell), session)
        return session

    return run


def test_steps_follow_one_another_without_a_gap(trained: Callable[..., Any]) -> None:
    steps = trained().steps
    assert [step.loss for step in steps] == [1.0, 2.0, 3.0, 4.0]
    assert steps[0].start_s == 0
    assert all(one.start_s + one.duration_s == pytest.approx(following.start_s) for one, following in pairwise(steps))
    assert len(Trainer.last.rows) == 8


def test_another_dtype_than_declared_is_no_measurement(trained: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match="unsloth trains float32 where bfloat16 is declared"):
        trained(adapter_dtype="bfloat16")


@pytest.mark.parametrize("enough", [2, 1_000_000])
def test_training_is_left_before_the_weights_are_written(trained: Callable[..., Any], enough: int) -> None:
    assert len(trained(enough).steps) == min(enough, 4)
    assert not Trainer.last.saved


def test_the_plan_is_as_it_was_afterwards(trained: Callable[..., Any]) -> None:
    station = Plan.prepare_cce_batch
    trained()
    assert Plan.prepare_cce_batch is station


def test_tokens_changed_on_the_way_change_the_digest(trained: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [step.tokens_digest for step in trained().steps]
    monkeypatch.setattr(unsloth_apple_train, "rows", lambda batches, count: list(reversed(rows(batches, count))))
    assert not set(whole) & {step.tokens_digest for step in trained().steps}
