"""trl's trainer, set to do exactly the work that is declared."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.backends import hf_train
from bench.backends.hf import HuggingFace
from bench.backends.hf_build import attach_adapters, build
from bench.backends.hf_train import compile_s, train
from bench.backends.interface import UnsupportedError
from bench.data import RESERVED_IDS, Batches
from bench.spec import Cell, Workload

Make = Callable[[Cell], Any]


@pytest.fixture(scope="session")
def made(hf: HuggingFace, hf_recorder: Any) -> Make:
    """A model ready to train: the same each time for the same cell."""
    return lambda cell: attach_adapters(build(cell, hf_recorder()), cell.workload)


def by_hand(model: Any, work: Workload, batches: Batches, steps: int) -> list[float]:
    """The textbook loop: mean cross-entropy over all targets of a step, one plain update, nothing else."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if work.optimizer == "sgd":
        optimizer: Any = torch.optim.SGD(weights, work.learning_rate)
    else:
        optimizer = torch.optim.AdamW(weights, work.learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for step in range(steps):
        loss = torch.zeros(())
        for index in range(work.gradient_accumulation):
            ids = torch.tensor(batches.ids(step * work.gradient_accumulation + index))
            logits = model(input_ids=ids).logits[:, :-1].flatten(0, 1)
            loss = loss + torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten(), reduction="sum")
        loss = loss / work.loss_tokens_per_step
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_trains_as_the_textbook_does(
    hf_cell: Callable[..., Cell],
    hf_recorder: Any,
    hf_batches: Callable[..., Batches],
    made: Make,
    method: str,
    optimizer: str,
) -> None:
    cell = hf_cell("qwen3", method, weights_dtype="float32", gradient_accumulation=2, optimizer=optimizer, learning_rate=0.02)
    session, batches = hf_recorder(), hf_batches(cell)
    model, reference = made(cell), made(cell)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    train(model, cell, batches, session)
    assert session.losses == pytest.approx(by_hand(reference, cell.workload, batches, 3), rel=1e-5)
    expected = dict(reference.named_parameters())
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) != weight.requires_grad
        if weight.requires_grad:
            apart, moved = (weight - expected[name]).norm(), (expected[name] - before[name]).norm()
            assert apart < 1e-3 * moved
    assert [seen.tokens_digest for seen in session.steps] == [batches.digest(2 * step, 2) for step in range(3)]
    assert {(seen.tokens, seen.loss_tokens) for seen in session.steps} == {(64, 60)}


def test_the_model_receives_the_data_in_its_order(
    hf_cell: Callable[..., Cell], hf_recorder: Any, hf_batches: Callable[..., Batches], made: Make
) -> None:
    cell = hf_cell(gradient_accumulation=2)
    model, batches = made(cell), hf_batches(cell)
    received: list[dict[str, Any]] = []
    model.register_forward_pre_hook(lambda module, given, named: received.append(dict(named)), with_kwargs=True)
    train(model, cell, batches, hf_recorder(max_steps=2))
    assert len(received) == 4
    for index, named in enumerate(received):
        assert np.array_equal(named["input_ids"], batches.ids(index))
        assert np.array_equal(named["labels"], batches.ids(index))
        assert named["attention_mask"].all()


@pytest.mark.parametrize(("checkpointing", "forwards"), [(True, 2), (False, 1)])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_checkpointing_is_as_declared(
    hf_cell: Callable[..., Cell],
    hf_recorder: Any,
    hf_batches: Callable[..., Batches],
    made: Make,
    method: str,
    checkpointing: bool,
    forwards: int,
) -> None:
    cell = hf_cell(method=method, weights_dtype="float32", gradient_checkpointing=checkpointing)
    model, session = made(cell), hf_recorder(max_steps=1)
    calls: list[int] = []
    model.get_submodule(f"{'' if method == 'full' else 'base_model.model.'}model.layers.1.mlp").register_forward_pre_hook(
        lambda module, given: calls.append(1)
    )
    train(model, cell, hf_batches(cell), session)
    assert len(calls) == forwards
    assert session.load.implementation["checkpointing"] == ("use_reentrant=false" if checkpointing else "none")


@pytest.mark.parametrize(
    ("method", "dtypes"),
    [
        ("full", {"weights_dtype": "float32"}),
        ("full", {"weights_dtype": "bfloat16"}),
        ("full", {"weights_dtype": "bfloat16", "master_dtype": "float32"}),
        ("lora", {"weights_dtype": "bfloat16"}),
        ("lora", {"weights_dtype": "float16", "adapter_dtype": "bfloat16"}),
        ("qlora", {"weights_dtype": "bfloat16"}),
        ("qlora", {"weights_dtype": "float32", "adapter_dtype": "bfloat16"}),
        ("qlora", {"weights_dtype": "float16"}),
    ],
    ids=str,
)
def test_dtypes_are_as_declared_to_the_end(
    hf_cell: Callable[..., Cell],
    hf_batches: Callable[..., Batches],
    made: Make,
    tmp_path: Path,
    method: str,
    dtypes: dict[str, str],
) -> None:
    """Weights, adapters, optimizer state and what a layer computes in; adapters keep their very values until trained."""
    cell = hf_cell(method=method, **dtypes)
    work, model = cell.workload, made(cell)
    drawn = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer = hf_train._trainer(model, cell, hf_batches(cell), 1, str(tmp_path))
    assert all(torch.equal(weight, drawn[name]) for name, weight in model.named_parameters())
    computed: set[torch.dtype] = set()
    head = model.get_submodule(f"{'' if method == 'full' else 'base_model.model.'}model.layers.2.mlp.down_proj")
    head.register_forward_hook(lambda module, given, out: computed.add(out.dtype))
    trainer.train()
    trained = {str(weight.dtype) for weight in model.parameters() if weight.requires_grad}
    frozen = {str(weight.dtype) for weight in model.parameters() if not weight.requires_grad} - {"torch.uint8"}
    states = [value for state in trainer.optimizer.state.values() for value in state.values() if value.numel() > 1]
    assert trained == {f"torch.{work.trainable_dtype}"}
    assert frozen == (set() if method == "full" else {f"torch.{work.weights_dtype}"})
    assert {str(state.dtype) for state in states} == {f"torch.{work.optimizer_dtype}"}
    assert {str(dtype) for dtype in computed} == {f"torch.{work.weights_dtype}"}


def test_stops_when_the_session_has_enough(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]) -> None:
    assert len(hf_run(hf_cell(), max_steps=6, enough=2).session.steps) == 2


@pytest.mark.parametrize(
    ("fields", "optimizer", "kernel"),
    [
        ({"optimizer": "adamw"}, "torch.AdamW", "for-loop"),
        ({"optimizer": "adamw", "optimizer_kernel": "foreach"}, "torch.AdamW", "foreach"),
        ({"optimizer": "adamw", "optimizer_kernel": "fused"}, "torch.AdamW", "fused"),
        ({"optimizer": "sgd", "optimizer_kernel": "fused"}, "torch.SGD", "fused"),
        ({"optimizer": "adamw_8bit", "rank": 64}, "bitsandbytes.AdamW", "8-bit blockwise"),
    ],
    ids=str,
)
def test_uses_the_optimizer_that_is_asked_for(
    hf_cell: Callable[..., Cell],
    hf_batches: Callable[..., Batches],
    made: Make,
    hf_recorder: Any,
    tmp_path: Path,
    fields: dict[str, Any],
    optimizer: str,
    kernel: str,
) -> None:
    cell = hf_cell(**fields)
    session = hf_recorder(max_steps=2)
    train(made(cell), cell, hf_batches(cell, repeat_every=1), session)
    assert (session.load.implementation["optimizer"], session.load.implementation["optimizer_kernel"]) == (optimizer, kernel)
    assert session.losses[1] < session.losses[0]
    trainer = hf_train._trainer(made(cell), cell, hf_batches(cell), 1, str(tmp_path))
    trainer.train()
    sizes = {value.element_size() for state in trainer.optimizer.state.values() for value in state.values() if is_moment(value)}
    assert sizes == {"adamw": {4}, "sgd": set(), "adamw_8bit": {1, 4}}[fields["optimizer"]]


def is_moment(value: Any) -> bool:
    """Not a counter, and not one of bitsandbytes' 256-entry tables and scales."""
    return isinstance(value, torch.Tensor) and value.ndim == 2


def test_cuda_takes_foreach_unless_told_otherwise(hf_cell: Callable[..., Cell]) -> None:
    assert hf_train._kernel(hf_cell(device="cuda")) == {"foreach": True, "fused": False}
    assert hf_train._kernel(hf_cell(device="cuda", optimizer_kernel="fused")) == {"foreach": False, "fused": True}


def test_a_small_tokenizer_is_enough_for_any_vocabulary(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]
) -> None:
    assert len(hf_train.bare_tokenizer()) == RESERVED_IDS
    run = hf_run(hf_cell(config={"vocab_size": 20_000, "hidden_size": 32, "num_hidden_layers": 1}), max_steps=1)
    assert run.session.steps[0].tokens_digest == run.batches.digest(0, 1)


def test_the_compilers_time_is_torchs_own_account(hf: HuggingFace) -> None:
    """Traced here with the backend that compiles nothing further; inductor is tried in test_hf_readback."""
    before_s = compile_s(compiling=True)
    weight = torch.ones(3, requires_grad=True)
    began_s = time.perf_counter()
    torch.compile(lambda values: (values * weight).sum(), backend="aot_eager")(torch.ones(3)).backward()
    took_s = time.perf_counter() - began_s
    assert 0 < compile_s(compiling=True) - before_s < took_s
    assert compile_s(compiling=False) == 0.0


def test_a_compile_that_compiled_nothing_is_unsupported(hf_cell: Callable[..., Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_train, "compile_s", lambda *, compiling: 0.0)
    with pytest.raises(UnsupportedError, match="compiled nothing"):
        hf_train._compiled_s(hf_cell(compile=True))
    assert hf_train._compiled_s(hf_cell()) == 0.0
