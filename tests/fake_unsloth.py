"""unsloth as far as the backend touches it, in place of the real one, which no ordinary environment can hold.

Its loaders end where the real ones do: in transformers' `AutoModelForCausalLM.from_pretrained`, or in mlx-lm's `load_model`. What
they were asked is kept in `asked`. Nothing is patched and nothing fused: the real one is run by `nox -s slow-unsloth`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass
class FakeUnsloth:
    """What it was asked, by the names of its functions, and what it does wrong: `spoil` is handed every loaded model."""

    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    spoil: Callable[[Any], None] = lambda model: None
    ignored_modules: tuple[str, ...] = ()

    def targets(self, target_modules: list[str]) -> list[str]:
        return [name for name in target_modules if name not in self.ignored_modules]


def install_torch(monkeypatch: pytest.MonkeyPatch) -> FakeUnsloth:
    """`unsloth.FastLanguageModel` on torch."""
    fake = FakeUnsloth()

    def from_pretrained(folder: str, **asked: Any) -> tuple[Any, None]:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        fake.asked["from_pretrained"] = asked | {"config": AutoConfig.from_pretrained(folder)}
        assert len(AutoTokenizer.from_pretrained(folder)) == 3
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", device_map="auto")
        fake.spoil(model)
        return model, None

    def get_peft_model(model: Any, **asked: Any) -> Any:
        from peft import LoraConfig
        from peft import get_peft_model as plain

        fake.asked["get_peft_model"] = asked
        names = ("r", "lora_alpha", "lora_dropout", "layers_to_transform")
        wanted = {name: asked[name] for name in names}
        return plain(model, LoraConfig(target_modules=fake.targets(asked["target_modules"]), **wanted))

    _install(monkeypatch, from_pretrained, get_peft_model)
    return fake


def install_mlx(monkeypatch: pytest.MonkeyPatch) -> FakeUnsloth:
    """`unsloth.FastLanguageModel` on MLX, and the parts of `unsloth_zoo.mlx` that training goes through."""
    fake = FakeUnsloth()

    def from_pretrained(folder: str, **asked: Any) -> tuple[Any, str]:
        import mlx_lm.utils

        model, config = mlx_lm.utils.load_model(folder, lazy=True, model_config={})
        fake.asked["from_pretrained"] = asked | {"config": config}
        fake.spoil(model)
        return model, "tokenizer"

    def get_peft_model(model: Any, **asked: Any) -> None:
        from mlx_lm.tuner.utils import linear_to_lora_layers

        fake.asked["get_peft_model"] = asked
        model.freeze()
        attention = ("q_proj", "k_proj", "v_proj", "o_proj")
        keys = [f"{'self_attn' if name in attention else 'mlp'}.{name}" for name in fake.targets(asked["target_modules"])]
        settings = {"rank": asked["r"], "scale": asked["lora_alpha"] / asked["r"], "dropout": asked["lora_dropout"], "keys": keys}
        linear_to_lora_layers(model, asked["finetune_last_n_layers"] or len(model.layers), settings)

    _install(monkeypatch, from_pretrained, get_peft_model)
    utils, trainer = ModuleType("unsloth_zoo.mlx.utils"), ModuleType("unsloth_zoo.mlx.trainer")
    utils.make_cce_loss_fn = lambda model: SimpleNamespace(_unsloth_cce_backend="pretended")
    utils.FiniteTextBatchPlan = Plan
    trainer.MLXTrainer, trainer.MLXTrainingConfig = Trainer, SimpleNamespace
    for name, module in (("unsloth_zoo", ModuleType("unsloth_zoo")), ("unsloth_zoo.mlx", ModuleType("unsloth_zoo.mlx"))):
        monkeypatch.setitem(sys.modules, name, module)
    loader = ModuleType("unsloth_zoo.mlx.loader")
    loader._keep_norm_parameters_float32 = keep_norms_float32
    sys.modules["unsloth_zoo.mlx"].loader = loader
    monkeypatch.setitem(sys.modules, loader.__name__, loader)
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    monkeypatch.setitem(sys.modules, trainer.__name__, trainer)
    return fake


def _install(monkeypatch: pytest.MonkeyPatch, from_pretrained: Any, get_peft_model: Any) -> None:
    module = ModuleType("unsloth")
    module.FastLanguageModel = SimpleNamespace(from_pretrained=from_pretrained, get_peft_model=get_peft_model)
    monkeypatch.setitem(sys.modules, "unsloth", module)


def keep_norms_float32(model: Any) -> None:
    """What unsloth does to a model before it trains it."""
    import mlx.core as mx

    for path, module in model.named_modules():
        if path.endswith("norm"):
            module.set_dtype(mx.float32)


class Plan:
    """unsloth's batch plan: the last station of a batch before the step function."""

    def __init__(self, rows: list[dict[str, list[int]]], batch_size: int) -> None:
        self.rows, self.batch_size = rows, batch_size

    def batches(self) -> Iterator[Any]:
        import mlx.core as mx

        for index in range(len(self.rows) // self.batch_size):
            rows = self.rows[index * self.batch_size : (index + 1) * self.batch_size]
            ids, labels = (mx.array([row[name] for row in rows]) for name in ("input_ids", "labels"))
            yield self.prepare_cce_batch(index, (ids, mx.zeros((len(rows), 2)), labels))

    def prepare_cce_batch(self, index: int, batch: Any) -> Any:
        return batch


class Trainer:
    """unsloth's loop without its arithmetic: the loss is the number of the step."""

    last: Trainer

    def __init__(self, *, model: Any, tokenizer: Any, train_dataset: Any, args: Any, callbacks: list[Any]) -> None:
        self.model, self.rows, self.args, self.callbacks = model, train_dataset, args, callbacks
        self.saved = False
        Trainer.last = self

    def _call(self, event: str, **given: Any) -> None:
        for callback in self.callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                method(self.args, self.state, None, model="model", **given)

    def train(self) -> None:
        from unsloth_zoo.mlx.loader import _keep_norm_parameters_float32

        _keep_norm_parameters_float32(self.model)
        self.state = SimpleNamespace(global_step=0)
        self._call("on_train_begin")
        trained, taken = 0, 0
        for _, _, labels in Plan(self.rows, self.args.per_device_train_batch_size).batches():
            trained += int((labels[:, 1:] != -100).sum().item())
            taken += 1
            if taken % self.args.gradient_accumulation_steps:
                continue
            self.state.global_step += 1
            self._call("on_step_end")
            self._call("on_log", logs={"loss": float(self.state.global_step), "trained_tokens": trained})
        self._call("on_log", logs={"train_runtime": 1.0})
        self.saved = True
