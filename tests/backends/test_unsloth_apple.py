"""unsloth on MLX: what it is asked for, what of its answer is accepted, and a whole run behind a stand-in for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_unsloth import FakeUnsloth, Trainer, install_mlx
from tiny_models import FAMILIES

from bench.backends import mlx_build, unsloth_apple
from bench.backends.interface import UnsupportedError
from bench.spec import Cell

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold
Make = Callable[..., Cell]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeUnsloth:
    return install_mlx(monkeypatch)


def made(make: Make, family: str = "llama", **fields: Any) -> Cell:
    return replace(make(family=family, config=FAMILIES[family], **fields), backend="unsloth")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_a_run_tells_the_model_and_its_steps(
    fake: FakeUnsloth, hf_cell: Make, hf_batches: Any, hf_recorder: Any, family: str, method: str
) -> None:
    cell = made(hf_cell, family, method=method, gradient_accumulation=2)
    session, batches = hf_recorder(3), hf_batches(cell)
    counters = unsloth_apple.run(cell, batches, session)
    assert session.load.parameters == cell.workload.model.parameters
    told = session.load.implementation
    assert told["loss"] == "unsloth MLX cross-entropy: pretended"
    assert told["quantization_format"] == ("affine, groups of 64" if method == "qlora" else "none")
    assert told["adapters"] == ("none" if method == "full" else "LoRALinear")
    assert told["checkpointing"] == "unsloth mx.checkpoint of every TransformerBlock"
    assert [(step.step, step.tokens, step.loss_tokens) for step in session.steps] == [(1, 64, 60), (2, 64, 60), (3, 64, 60)]
    assert [step.tokens_digest for step in session.steps] == [batches.digest(2 * step, 2) for step in range(3)]
    assert counters.framework_peak_bytes > 0
    assert counters.compile_s == 0.0
    assert not Trainer.last.saved


def test_unsloth_is_asked_for_the_declared_work(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    import mlx.core as mx

    cell = made(hf_cell, method="qlora", modules="q_proj,down_proj", adapter_layers=1, adapter_dtype="bfloat16", seed=7)
    model, _ = unsloth_apple.build(cell, hf_recorder())
    unsloth_apple.attach_adapters(model, cell.workload)
    loaded = fake.asked["from_pretrained"]
    config = loaded.pop("config")
    assert config["quantization"] == {"group_size": 64, "bits": 4, "mode": "affine"}
    assert (config["model_type"], config["architectures"]) == ("llama", ["LlamaForCausalLM"])
    assert loaded == {
        "max_seq_length": 17,
        "dtype": "bfloat16",
        "load_in_4bit": True,
        "full_finetuning": False,
        "float32_mixed_precision": False,
        "text_only": True,
        "random_state": 7,
    }
    assert fake.asked["get_peft_model"] == {
        "r": 4,
        "target_modules": ["q_proj", "down_proj"],
        "lora_alpha": 8.0,
        "lora_dropout": 0.0,
        "finetune_last_n_layers": 1,
        "use_gradient_checkpointing": False,
        "random_state": 7,
    }
    adapters = dict(mlx_build.adapters(model))
    assert set(adapters) == {"model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj"}
    assert {adapter[matrix].dtype for adapter in adapters.values() for matrix in ("lora_a", "lora_b")} == {mx.bfloat16}
    assert mlx_build.count_trainable(model) == 4 * (64 + 64 + 192 + 64)


def test_the_weights_are_those_of_the_other_backend(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    from mlx.utils import tree_flatten

    cell = made(hf_cell, method="qlora")
    model, _ = unsloth_apple.build(cell, hf_recorder())
    plain = mlx_build.build(cell, hf_recorder())
    theirs, ours = dict(tree_flatten(model.parameters())), dict(tree_flatten(plain.parameters()))
    assert set(theirs) == set(ours)
    assert all((theirs[name] == ours[name]).all().item() for name in ours)


def test_a_full_fine_tune_trains_everything(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    cell = made(hf_cell, method="full")
    model, _ = unsloth_apple.build(cell, hf_recorder())
    model.freeze()
    unsloth_apple.attach_adapters(model, cell.workload)
    assert "get_peft_model" not in fake.asked
    assert mlx_build.count_trainable(model) == mlx_build.count_parameters(model)


@pytest.mark.parametrize(("method", "dtype"), [("full", "bfloat16"), ("lora", "float32")])
def test_norms_that_train_keep_their_declared_dtype(
    fake: FakeUnsloth, hf_cell: Make, hf_batches: Any, hf_recorder: Any, method: str, dtype: str
) -> None:
    import mlx.core as mx

    cell, session = made(hf_cell, method=method), hf_recorder(1)
    unsloth_apple.run(cell, hf_batches(cell), session)
    assert Trainer.last.model.model.norm.weight.dtype == getattr(mx, dtype)
    assert session.load.implementation["norms"] == dtype


def test_a_dtype_that_unsloth_changed_is_no_measurement(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    import mlx.core as mx

    fake.spoil = lambda model: model.set_dtype(mx.float32)
    with pytest.raises(UnsupportedError, match=r"unsloth made mlx.core.float32 of weights declared bfloat16"):
        unsloth_apple.build(made(hf_cell, method="full"), hf_recorder())


def test_modules_that_unsloth_passes_over_are_no_measurement(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    fake.ignored_modules = ("down_proj",)
    cell = made(hf_cell)
    model, _ = unsloth_apple.build(cell, hf_recorder())
    with pytest.raises(UnsupportedError, match="adapts 14 modules, and unsloth 12"):
        unsloth_apple.attach_adapters(model, cell.workload)


def test_without_metal_it_is_unsupported(fake: FakeUnsloth, hf_cell: Make, hf_batches: Any, hf_recorder: Any) -> None:
    import mlx.core as mx

    assert not mx.metal.is_available()
    cell = made(hf_cell, device="metal")
    with pytest.raises(UnsupportedError, match="MLX sees no metal device here"):
        unsloth_apple.run(cell, hf_batches(cell), hf_recorder())
