"""Both real stacks do the same work: the same start, the same losses, the same change of the weights.

Each side trains through its own trainer (trl's `SFTTrainer`, mlx-lm's `train`) in float32, from the same weights and the
same adapters, on a batch that it learns by heart. `differences` compares the two. Five mutants, each a mistake that a looser
test has let pass, are made in the real code of one side and must show up in that same function.

4-bit formats differ, so QLoRA on one stack is held against LoRA on the other over the weights that its 4 bits stand for.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import tiny_models
from numpy.typing import NDArray

from bench.backends import hf_build, hf_train, mlx_build, mlx_train
from bench.backends.hf import HuggingFace
from bench.backends.interface import SeenStep
from bench.data import Batches
from bench.events import Loaded
from bench.model import model_from_config
from bench.spec import Cell, Workload, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold

Arrays = dict[str, NDArray[np.float64]]

STEPS = 8
FALL = 0.2
"""The least share of its first loss that each side must lose: with nothing learnt there is nothing to compare."""
LOSS_TOLERANCE = 0.005
"""Measured: losses agree to 7e-6 (float32 rounding), and every mutant is 4% off or more by its second step."""
CHANGE_TOLERANCE = 0.02
"""Of |left - right| / |left|, weight by weight, so cosines are over 0.9998. Measured: 2e-5 as a rule, 4e-3 at worst, where
rounding decides which way Adam takes a gradient near zero; every mutant is 0.67 off or more somewhere."""

FAMILIES = {name: {**config, "initializer_range": 0.1} for name, config in tiny_models.FAMILIES.items()}
ALL = {**FAMILIES, "gemma3": {**tiny_models.GEMMA3, "initializer_range": 0.1}}
"""The mutants are mistakes of the trainers, which two families show well enough."""


@dataclass
class Recorder:
    """A session that keeps the losses."""

    max_steps: int = STEPS
    losses: list[float] = field(default_factory=list)

    def progress(self, what: str) -> None: ...
    def loaded(self, loaded: Loaded) -> None: ...

    def step(self, seen: SeenStep) -> bool:
        assert seen.loss is not None
        self.losses.append(seen.loss)
        return True


@dataclass(frozen=True)
class Trained:
    """One side's training: its losses, the weights that it trained, and by how much they changed."""

    losses: list[float]
    change: Arrays


def differences(left: Trained, right: Trained) -> dict[str, str]:
    """What sets two trainings apart, by aspect and in words; empty if they did the same work."""
    found = {}
    fell = min(1 - side.losses[-1] / side.losses[0] for side in (left, right))
    if fell < FALL:
        found["fall"] = f"a side lost {fell:.1%} of its first loss, {FALL:.0%} were asked for"
    apart = max(abs(one / other - 1) for one, other in zip(left.losses, right.losses, strict=True))
    if not apart <= LOSS_TOLERANCE:
        found["losses"] = f"losses are up to {apart:.2%} apart: {left.losses}, {right.losses}"
    shapes = [{name: value.shape for name, value in side.change.items()} for side in (left, right)]
    if shapes[0] != shapes[1]:
        found["trainable"] = f"{len(shapes[0])} and {len(shapes[1])} weights were trained"
    else:
        found |= change_differences(left.change, right.change)
    return found


def change_differences(left: Arrays, right: Arrays) -> dict[str, str]:
    apart = {name: np.linalg.norm(left[name] - right[name]) / np.linalg.norm(left[name]) for name in left}
    worst = [f"{name} by {value:.2%}" for name, value in apart.items() if not value <= CHANGE_TOLERANCE]
    return {"change": f"changes are apart: {', '.join(worst)}"} if worst else {}


def declared(family: str, method: str, **fields: Any) -> Workload:
    shape = {
        "batch_size": 2,
        "sequence_length": 16,
        "gradient_checkpointing": False,
        "weights_dtype": "float32",
        "learning_rate": 1e-2 if method != "full" else 2e-3,
        "rank": 8,
        "alpha": 16.0,
    }
    return workload(model=model_from_config(family, ALL[family]), method=method, **{**shape, **fields})


def batches_of(work: Workload) -> Batches:
    """The micro-batches of one step, again and again."""
    return Batches(512, work.batch_size, work.sequence_length, work.seed, repeat_every=work.gradient_accumulation)


def first_adapter(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The same matrix for the same name on both sides, in peft's orientation: A is (rank, in), B is (out, rank).

    B is not zero as it would be by default: A then has a gradient, and alpha a say, from the first step.
    """
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith(".A"):
        return draw.uniform(-1, 1, shape).astype(np.float32) / np.float32(shape[1] ** 0.5)
    return draw.normal(0, 0.02, shape).astype(np.float32)


class Torch:
    """The hf side."""

    def base(self, work: Workload) -> Any:
        return hf_build.build(Cell(work, "hf", "cpu"), Recorder())

    def weights(self, model: Any) -> Arrays:
        """The base weights, 4-bit ones as what they stand for."""
        from bitsandbytes.functional import dequantize_4bit

        plain = {}
        for name, value in model.named_parameters():
            state = getattr(value, "quant_state", None)
            plain[name] = (value if state is None else dequantize_4bit(value.data, state)).detach().double().numpy().copy()
        return plain

    def train(self, work: Workload, weights: Arrays | None) -> Trained:
        import torch

        model = self.base(work)
        if weights is not None:
            model.load_state_dict({name: torch.tensor(value) for name, value in weights.items()}, strict=False)
        model = hf_build.attach_adapters(model, work)
        with torch.no_grad():
            for name, value in self._trainable(model).items():
                if name.endswith((".A", ".B")):
                    value.copy_(torch.tensor(first_adapter(name, tuple(value.shape))))
        before = self._arrays(model)
        hf_train.train(model, Cell(work, "hf", "cpu"), batches_of(work), session := Recorder())
        return Trained(session.losses, {name: value - before[name] for name, value in self._arrays(model).items()})

    def _trainable(self, model: Any) -> dict[str, Any]:
        plain = {name.removeprefix("base_model.model."): value for name, value in model.named_parameters() if value.requires_grad}
        return {
            name.replace(".lora_A.default.weight", ".A").replace(".lora_B.default.weight", ".B"): plain[name] for name in plain
        }

    def _arrays(self, model: Any) -> Arrays:
        return {name: value.detach().double().numpy().copy() for name, value in self._trainable(model).items()}


class Apple:
    """The mlx side."""

    def base(self, work: Workload) -> Any:
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        return mlx_build.build(Cell(work, "mlx", "cpu"), Recorder())

    def weights(self, model: Any) -> Arrays:
        import mlx.core as mx
        from mlx.utils import tree_flatten

        plain = {}
        for path, part in model.named_modules():
            if hasattr(part, "bits"):
                plain[f"{path}.weight"] = mx.dequantize(part.weight, part.scales, part.biases, part.group_size, part.bits)
            elif not part.children():
                plain |= {f"{path}.{name}": value for name, value in tree_flatten(part.parameters())}
        return {name: np.array(value, np.float64) for name, value in plain.items()}

    def train(self, work: Workload, weights: Arrays | None) -> Trained:
        import mlx.core as mx

        model = self.base(work)
        if weights is not None:
            model.load_weights([(name, mx.array(value.astype(np.float32))) for name, value in weights.items()])
        mlx_build.attach_adapters(model, work)
        for path, adapter in mlx_build.adapters(model):
            for matrix, letter in (("lora_a", "A"), ("lora_b", "B")):
                adapter[matrix] = mx.array(first_adapter(f"{path}.{letter}", adapter[matrix].shape[::-1]).T)
        before = self._arrays(model)
        mlx_train.train(model, Cell(work, "mlx", "cpu"), batches_of(work), session := Recorder())
        return Trained(session.losses, {name: value - before[name] for name, value in self._arrays(model).items()})

    def _arrays(self, model: Any) -> Arrays:
        from mlx.utils import tree_flatten

        plain = {}
        for name, value in tree_flatten(model.trainable_parameters()):
            array = np.array(value, np.float64)
            adapter = name.endswith((".lora_a", ".lora_b"))
            plain[name.replace(".lora_a", ".A").replace(".lora_b", ".B")] = array.T if adapter else array
        return plain


TORCH, APPLE = Torch(), Apple()


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    HuggingFace().prepare()


@cache
def torch_lora(family: str) -> tuple[Arrays, Trained]:
    """The start and the hf side that the parity test and all its mutants share."""
    work = declared(family, "lora")
    weights = TORCH.weights(TORCH.base(work))
    return weights, TORCH.train(work, weights)


@pytest.mark.parametrize("family", ALL)
def test_lora_does_the_same_work_on_both_stacks(family: str) -> None:
    weights, torch_side = torch_lora(family)
    assert differences(torch_side, APPLE.train(declared(family, "lora"), weights)) == {}


@pytest.mark.parametrize(
    ("family", "method", "fields"),
    [
        ("llama", "full", {}),
        ("qwen3", "full", {}),
        ("gemma3", "full", {}),
        ("llama", "lora", {"gradient_accumulation": 2, "batch_size": 1}),
        ("llama", "lora", {"gradient_checkpointing": True}),
        ("llama", "lora", {"modules": "attention", "adapter_layers": 1, "learning_rate": 2e-2}),
        ("llama", "lora", {"optimizer": "sgd", "learning_rate": 0.5}),
    ],
)
def test_what_else_is_declared_means_the_same_on_both_stacks(family: str, method: str, fields: dict[str, Any]) -> None:
    work = declared(family, method, **fields)
    weights = TORCH.weights(TORCH.base(work))
    assert differences(TORCH.train(work, weights), APPLE.train(work, weights)) == {}


@pytest.mark.parametrize("family", ALL)
def test_qlora_is_lora_over_the_weights_its_4_bits_stand_for(family: str) -> None:
    """And both stacks' QLoRA, each over its own 4 bits, train the same weights and learn."""
    qlora, lora = declared(family, "qlora"), declared(family, "lora")
    nf4, affine = TORCH.base(qlora), APPLE.base(qlora)
    torch_side, apple_side = TORCH.train(qlora, None), APPLE.train(qlora, None)
    assert differences(torch_side, APPLE.train(lora, TORCH.weights(nf4))) == {}
    assert differences(apple_side, TORCH.train(lora, APPLE.weights(affine))) == {}
    assert set(differences(torch_side, apple_side)) <= {"losses", "change"}


MUTANTS = {
    "alpha doubled": ({"alpha": 32.0}, {}, {"losses", "change"}),
    "no bias correction": ({}, {"bias_correction": False}, {"losses", "change"}),
    "q and v only": ({"modules": "q_proj,v_proj"}, {}, {"losses", "trainable"}),
    "ten times the rate": ({"learning_rate": 0.1}, {}, {"losses", "change"}),
    "no training": ({}, {"learning_rate": 0.0}, {"losses", "change", "fall"}),
}
"""What the mlx side is told otherwise, what its own optimizer is spoilt with, and what must be noticed."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_noticed(mutant: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, spoilt, noticed = MUTANTS[mutant]
    make = mlx_train.make_optimizer

    def make_spoilt(work: Workload) -> Any:
        optimizer = make(work)
        for name, value in spoilt.items():
            assert hasattr(optimizer, name)
            setattr(optimizer, name, value)
        return optimizer

    monkeypatch.setattr(mlx_train, "make_optimizer", make_spoilt)
    weights, torch_side = torch_lora(family)
    mutated = APPLE.train(declared(family, "lora", **fields), weights)
    assert noticed <= set(differences(torch_side, mutated))
