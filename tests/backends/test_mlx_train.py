"""mlx-lm's own trainer seen through its hooks: equal work, honest steps, and nothing left behind."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from operator import gt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_models import LLAMA

from bench.backends import mlx_train
from bench.backends.interface import SeenRequest, SeenStep
from bench.backends.mlx_build import attach_adapters, build
from bench.backends.mlx_train import CacheGauge, make_optimizer, train
from bench.data import Batches
from bench.events import Loaded, Parts
from bench.model import model_from_config
from bench.spec import Cell, Implementation, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"


@dataclass
class Recorder:
    """A session that keeps its steps and has seen enough after `enough` of them."""

    max_steps: int = 3
    enough: int = 1000
    steps: list[SeenStep] = field(default_factory=list)

    def progress(self, what: str) -> None: ...

    def loaded(self, loaded: Loaded) -> None: ...

    def step(self, seen: SeenStep) -> bool:
        self.steps.append(seen)
        return len(self.steps) < self.enough


@dataclass
class Curious(Recorder):
    """A session that asks for the parts of memory, too."""

    told: list[Parts] = field(default_factory=list)

    def request(self, seen: SeenRequest) -> bool:
        raise AssertionError("nothing is served")

    def parts(self, parts: Parts) -> None:
        self.told.append(parts)


def cell_of(how: Implementation | None = None, layers: int = 2, **declared: Any) -> Cell:
    shape = {"method": "lora", "batch_size": 2, "sequence_length": 10, "rank": 4, "weights_dtype": "float32"}
    work = workload(model=model_from_config("tiny", {**LLAMA, "num_hidden_layers": layers}), **{**shape, **declared})
    return Cell(work, "mlx", "cpu", how or Implementation())


def model_of(cell: Cell) -> Any:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    model = build(cell, Recorder())
    attach_adapters(model, cell.workload)
    return model


def batches_of(cell: Cell) -> Batches:
    return Batches(512, cell.workload.batch_size, cell.workload.sequence_length, cell.workload.seed)


def trained(session: Recorder, how: Implementation | None = None, **declared: Any) -> Any:
    cell = cell_of(how, **declared)
    model = model_of(cell)
    train(model, cell, batches_of(cell), session)
    return model


@pytest.mark.parametrize("accumulation", [1, 2])
def test_steps_follow_each_other_and_count_their_work(accumulation: int) -> None:
    session = Recorder(max_steps=3)
    cell = cell_of(gradient_accumulation=accumulation)
    trained(session, gradient_accumulation=accumulation)
    batches, ends = batches_of(cell), 0.0
    assert len(session.steps) == 3
    for number, seen in enumerate(session.steps, 1):
        assert seen.step == number
        assert seen.start_s == pytest.approx(ends, abs=1e-9)
        assert seen.duration_s > 0
        assert seen.tokens == cell.workload.tokens_per_step == 20 * accumulation
        assert seen.loss_tokens == cell.workload.loss_tokens_per_step == 18 * accumulation
        assert seen.tokens_digest == batches.digest((number - 1) * accumulation, accumulation)
        assert seen.framework_peak_bytes
        ends = seen.start_s + seen.duration_s


@pytest.mark.parametrize("method", ["full", "lora"])
def test_accumulating_two_batches_equals_one_of_both(method: str) -> None:
    """One optimizer step on two micro-batches of two moves the weights as one on the four sequences together."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    class Joined(Batches):
        def ids(self, index: int) -> Any:
            halves = Batches(512, 2, 10, 0)
            return np.concatenate([halves.ids(2 * index), halves.ids(2 * index + 1)])

    # SGD, since Adam's first step is the gradient's sign, whatever its size.
    declared = {"method": method, "optimizer": "sgd", "learning_rate": 0.5}
    apart, together = Recorder(max_steps=2), Recorder(max_steps=2)
    split_model = trained(apart, gradient_accumulation=2, **declared)
    cell = cell_of(batch_size=4, **declared)
    joined_model = model_of(cell)
    train(joined_model, cell, Joined(512, 4, 10, 0), together)
    assert [seen.loss for seen in apart.steps] == pytest.approx([seen.loss for seen in together.steps], rel=1e-5)
    joined = dict(tree_flatten(joined_model.trainable_parameters()))
    for name, value in tree_flatten(split_model.trainable_parameters()):
        assert mx.allclose(value, joined[name], rtol=1e-4, atol=1e-6), name


def test_checkpointing_changes_memory_and_nothing_else() -> None:
    """Measured here with MLX 0.32.4: 20.7 MB without, 8.9 MB with."""
    plain, checkpointed = Recorder(), Recorder()
    declared = {"layers": 6, "sequence_length": 256, "batch_size": 1}
    trained(plain, gradient_checkpointing=False, **declared)
    trained(checkpointed, gradient_checkpointing=True, **declared)
    assert [seen.loss for seen in plain.steps] == pytest.approx([seen.loss for seen in checkpointed.steps], rel=1e-5)
    assert (checkpointed.steps[-1].framework_peak_bytes or 0) < 0.75 * (plain.steps[-1].framework_peak_bytes or 0)


def test_checkpointing_is_really_asked_for_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_lm.models.llama import TransformerBlock
    from mlx_lm.tuner import trainer

    original = TransformerBlock.__call__
    patched = []
    real = trainer.grad_checkpoint

    def noted(layer: Any) -> None:
        real(layer)
        patched.append(type(layer).__call__ is not original)

    monkeypatch.setattr(trainer, "grad_checkpoint", noted)
    trained(Recorder(), gradient_checkpointing=False)
    assert patched == []
    trained(Recorder(), gradient_checkpointing=True)
    assert patched == [True]
    assert TransformerBlock.__call__ is original


def test_the_layer_class_is_restored_after_a_failure() -> None:
    from mlx_lm.models.llama import TransformerBlock

    class Broken(Batches):
        def ids(self, index: int) -> Any:
            raise RuntimeError("no tokens")

    original = TransformerBlock.__call__
    cell = cell_of(gradient_checkpointing=True)
    with pytest.raises(RuntimeError, match="no tokens"):
        train(model_of(cell), cell, Broken(512, 2, 10), Recorder())
    assert TransformerBlock.__call__ is original


def test_training_stops_when_the_session_says_so_and_saves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Recorder(max_steps=50, enough=2)
    trained(session)
    assert len(session.steps) == 2
    to_the_end = Recorder(max_steps=2)
    trained(to_the_end)
    assert len(to_the_end.steps) == 2
    assert list(tmp_path.iterdir()) == []


def test_peaks_cover_training_alone() -> None:
    import mlx.core as mx

    cell = cell_of()
    model = model_of(cell)
    hog = mx.ones((4_000_000,))
    mx.eval(hog)
    assert mx.get_peak_memory() > 16e6
    del hog
    mx.clear_cache()
    peaks = train(model, cell, batches_of(cell), Recorder())
    weights = mx.get_active_memory()
    assert peaks.framework_peak_bytes is not None
    assert weights < peaks.framework_peak_bytes < 16e6
    assert peaks.reserved_peak_bytes is None
    assert peaks.cache_peak_bytes is not None
    assert peaks.cache_peak_bytes > 0


@pytest.mark.parametrize(("method", "adapters"), [("full", False), ("lora", True)])
def test_parts_are_the_arrays_that_stay_and_the_rest_of_the_peak(method: str, adapters: bool) -> None:
    """Float32 throughout: four bytes a parameter, and two moments for each that is trained, beside the optimizer's scalars."""
    from mlx.utils import tree_flatten

    session = Curious()
    model = trained(session, method=method)
    (told,) = session.told
    trainable, everything = (
        sum(array.nbytes for _, array in tree_flatten(each)) for each in (model.trainable_parameters(), model.parameters())
    )
    assert told.parts["adapters"] == (trainable if adapters else 0)
    assert told.parts["weights"] == everything - told.parts["adapters"]
    assert 0 <= told.parts["optimizer"] - 2 * trainable < 1000
    assert told.parts["rest"] > 0
    assert sum(told.parts.values()) == session.steps[-1].framework_peak_bytes


def test_the_cache_gauge_is_the_default_threshold_with_a_memory() -> None:
    gauge = CacheGauge()
    assert gauge == 0
    assert [gt(cache_bytes, gauge) for cache_bytes in (5, 3, 0)] == [True, True, False]
    assert gauge.peak_bytes == 5


def test_the_optimizers_are_torchs() -> None:
    adamw = make_optimizer(cell_of(learning_rate=3e-4).workload)
    assert (adamw.betas, adamw.eps, adamw.weight_decay, adamw.bias_correction) == ([0.9, 0.999], 1e-8, 0.0, True)
    assert adamw.learning_rate.item() == pytest.approx(3e-4)
    sgd = make_optimizer(cell_of(optimizer="sgd").workload)
    assert (sgd.momentum, sgd.weight_decay, sgd.nesterov) == (0.0, 0.0, False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_optimizer_state_and_training_keep_the_declared_dtype(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx.utils import tree_flatten

    made = []

    def kept(work: Any) -> Any:
        made.append(make_optimizer(work))
        return made[-1]

    monkeypatch.setattr(mlx_train, "make_optimizer", kept)
    model = trained(Recorder(), method="full", weights_dtype=dtype)
    moments = [value for _, value in tree_flatten(made[0].state) if value.size > 1]
    assert {str(value.dtype) for value in moments} == {f"mlx.core.{dtype}"}
    assert {str(value.dtype) for _, value in tree_flatten(model.parameters())} == {f"mlx.core.{dtype}"}


@pytest.mark.parametrize(("wanted", "text"), [(None, "none (MLX_DISABLE_COMPILE)"), (False, "none"), (True, "mx.compile")])
def test_the_choice_of_compiling_is_told(wanted: bool | None, text: str) -> None:
    assert mlx_train.compile_choice(wanted) == text


def test_without_the_variable_mlx_lm_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLX_DISABLE_COMPILE")
    assert mlx_train.compile_choice(None) == "mx.compile"
    assert mlx_train.compile_s(None) is None


def test_no_time_is_told_for_compiling_which_mlx_does_not_account_for() -> None:
    assert mlx_train.compile_s(True) is None
    assert mlx_train.compile_s(False) == mlx_train.compile_s(None) == 0.0


def test_compiling_is_switched_off_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    switched = []
    monkeypatch.setattr(mlx_train, "_switch_compile", lambda *, on: switched.append(on))
    trained(Recorder(max_steps=1), how=Implementation(compile=False))
    assert switched == [False, False]  # off because asked, and off afterwards since the environment says so
    switched.clear()
    monkeypatch.delenv("MLX_DISABLE_COMPILE")
    trained(Recorder(max_steps=1), how=Implementation(compile=False))
    assert switched == [False, True]


@pytest.mark.slow
def test_compiled_training_loses_as_much() -> None:
    """Half a minute of g++ when cold."""
    plain, compiled = Recorder(), Recorder()
    trained(plain, learning_rate=1e-2)
    trained(compiled, how=Implementation(compile=True), learning_rate=1e-2)
    assert [seen.loss for seen in plain.steps] == pytest.approx([seen.loss for seen in compiled.steps], rel=1e-4)
