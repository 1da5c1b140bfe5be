"""unsloth on torch: what it is asked for, what of its answer is accepted, and a whole run behind a stand-in for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_unsloth import FakeUnsloth, install_torch

from bench.backends import unsloth_cuda
from bench.backends.hf import HuggingFace
from bench.backends.interface import UnsupportedError
from bench.spec import Cell

Make = Callable[..., Cell]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, hf: HuggingFace) -> FakeUnsloth:
    return install_torch(monkeypatch)


def made(make: Make, **fields: Any) -> Cell:
    return replace(make(**fields), backend="unsloth")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_a_run_tells_true_steps_and_learns(
    fake: FakeUnsloth, hf_cell: Make, hf_batches: Any, hf_recorder: Any, family: str, method: str
) -> None:
    cell = made(hf_cell, family=family, method=method)
    session, batches = hf_recorder(4), hf_batches(cell, 1)
    unsloth_cuda.run(cell, batches, session)
    assert [step.step for step in session.steps] == [1, 2, 3, 4]
    assert all((step.tokens, step.loss_tokens) == (32, 30) for step in session.steps)
    assert {step.tokens_digest for step in session.steps} == {batches.digest(0, 1)}
    assert session.losses[-1] < session.losses[0] - 0.02
    assert session.load.parameters == cell.workload.model.parameters
    assert session.load.implementation["attention"].endswith("Attention.forward, eager")  # what unsloth asked transformers for
    assert session.load.implementation["quantization_format"] == ("nf4-double" if method == "qlora" else "none")
    assert session.load.implementation["checkpointing"] == "torch"
    assert session.load.implementation["packing"] == "false"


def test_unsloth_is_asked_for_the_declared_work(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    import torch

    cell = made(hf_cell, method="qlora", modules="q_proj,down_proj", adapter_layers=2, dropout=0.1, seed=7)
    adapted = unsloth_cuda.attach_adapters(unsloth_cuda.build(cell, hf_recorder()), cell)
    loaded = fake.asked["from_pretrained"]
    config = loaded.pop("config")
    assert (config.model_type, config.architectures, config.hidden_size) == ("llama", ["LlamaForCausalLM"], 64)
    assert loaded == {
        "max_seq_length": 16,
        "dtype": torch.bfloat16,
        "load_in_4bit": True,
        "full_finetuning": False,
        "float32_mixed_precision": False,
        "use_gradient_checkpointing": "unsloth",
        "random_state": 7,
    }
    assert fake.asked["get_peft_model"] == {
        "r": 4,
        "target_modules": ["q_proj", "down_proj"],
        "lora_alpha": 8.0,
        "lora_dropout": 0.1,
        "layers_to_transform": [1, 2],
        "use_gradient_checkpointing": "unsloth",
        "random_state": 7,
    }
    trained = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    assert {parameter.dtype for parameter in trained} == {torch.float32}
    assert sum(parameter.numel() for parameter in trained) == 2 * 4 * (64 + 64 + 192 + 64)


def test_a_full_fine_tune_with_masters_is_asked_for_as_such(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    cell = made(hf_cell, method="full", weights_dtype="bfloat16", master_dtype="float32")
    model = unsloth_cuda.build(cell, hf_recorder())
    assert unsloth_cuda.attach_adapters(model, cell) is model
    assert "get_peft_model" not in fake.asked
    asked = fake.asked["from_pretrained"]
    assert (asked["full_finetuning"], asked["float32_mixed_precision"], asked["load_in_4bit"]) == (True, True, False)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, "unsloth"),
        ({"checkpointing": "unsloth"}, "unsloth"),
        ({"checkpointing": "torch"}, True),
        ({"gradient_checkpointing": False, "checkpointing": "unsloth"}, False),
    ],
)
def test_whose_checkpointing(hf_cell: Make, fields: dict[str, Any], wanted: str | bool) -> None:
    assert unsloth_cuda.checkpointing(made(hf_cell, **fields)) == wanted


def test_a_dtype_that_unsloth_changed_is_no_measurement(
    fake: FakeUnsloth, hf_cell: Make, hf_batches: Any, hf_recorder: Any
) -> None:
    import torch

    def upcast_norms(model: Any) -> None:
        model.model.norm.to(torch.float32)

    fake.spoil = upcast_norms
    cell, session = made(hf_cell, method="full"), hf_recorder()
    with pytest.raises(UnsupportedError, match="unsloth trains bfloat16, float32 where bfloat16 is declared"):
        unsloth_cuda.run(cell, hf_batches(cell), session)
    assert session.load is None


def test_modules_that_unsloth_passes_over_are_no_measurement(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    fake.ignored_modules = ("down_proj",)
    cell = made(hf_cell)
    with pytest.raises(UnsupportedError, match="adapts 21 modules, and unsloth 18"):
        unsloth_cuda.attach_adapters(unsloth_cuda.build(cell, hf_recorder()), cell)


def test_an_architecture_without_a_language_model_is_unsupported(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    with pytest.raises(UnsupportedError, match="no language model 'nobodys'"):
        unsloth_cuda.build(made(hf_cell, config={"model_type": "nobodys"}), hf_recorder())


def test_the_loader_of_transformers_comes_back(fake: FakeUnsloth, hf_cell: Make, hf_recorder: Any) -> None:
    from transformers import AutoModelForCausalLM

    before = AutoModelForCausalLM.from_pretrained.__qualname__
    unsloth_cuda.build(made(hf_cell), hf_recorder())
    assert AutoModelForCausalLM.from_pretrained.__qualname__ == before


@pytest.mark.parametrize(
    ("patched", "recorded", "asked", "found"),
    [
        (True, "unsloth", None, "unsloth"),
        (True, "unsloth", "unsloth", "unsloth"),
        (False, True, None, "torch"),
        (True, True, "torch", "torch"),
        (False, True, "unsloth", None),
        (True, "unsloth", "torch", None),
    ],
)
def test_checkpointing_is_read_back_and_never_another_than_asked(
    hf: HuggingFace,
    hf_cell: Make,
    monkeypatch: pytest.MonkeyPatch,
    patched: bool,
    recorded: str | bool,
    asked: str | None,
    found: str | None,
) -> None:
    import torch.utils.checkpoint

    def unsloth_checkpoint() -> None: ...

    if patched:
        unsloth_checkpoint.__module__ = "unsloth_zoo.gradient_checkpointing"
        monkeypatch.setattr(torch.utils.checkpoint, "checkpoint", unsloth_checkpoint)
    cell = made(hf_cell, **({"checkpointing": asked} if asked else {}))
    if found is None:
        with pytest.raises(UnsupportedError, match=f"checkpointing {asked} was asked for"):
            unsloth_cuda.checkpointing_used(SimpleNamespace(_unsloth_gradient_checkpointing=recorded), cell)
    else:
        model = SimpleNamespace(_unsloth_gradient_checkpointing=recorded)
        assert unsloth_cuda.checkpointing_used(model, cell) == found


def test_attention_of_unsloth_s_own_is_named_by_its_choice(hf: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Block(torch.nn.Module):
        def forward(self) -> None: ...

    model = torch.nn.ModuleDict({"self_attn": Block()})
    model.config = SimpleNamespace(_attn_implementation="sdpa")
    dispatch = ModuleType("unsloth.utils.attention_dispatch")
    dispatch.select_attention_backend = lambda: "xformers"
    monkeypatch.setitem(__import__("sys").modules, dispatch.__name__, dispatch)
    assert unsloth_cuda.attention(model).endswith("Block.forward, sdpa")
    Block.forward.__module__ = "unsloth.models.llama"
    assert unsloth_cuda.attention(model).startswith("unsloth.models.llama.")
    assert unsloth_cuda.attention(model).endswith(", xformers")


def test_blocks_that_unsloth_compiles_are_named(hf: HuggingFace) -> None:
    import torch

    class Block(torch.nn.Module):
        def forward(self) -> None: ...

    model = torch.nn.ModuleList([Block(), Block()])
    assert unsloth_cuda.compiled(model) == "kernels of unsloth's own choice"
    setattr(Block.forward, unsloth_cuda.BLOCK_COMPILED, True)
    assert unsloth_cuda.compiled(model) == "torch.compile by unsloth of each Block"


def test_adapter_kernels_are_those_bound_to_the_blocks(hf: HuggingFace) -> None:
    import torch

    def apply_lora_qkv() -> None: ...

    block = torch.nn.Identity()
    assert unsloth_cuda.adapter_kernels(block) == "none"
    block.apply_qkv = apply_lora_qkv
    assert unsloth_cuda.adapter_kernels(block) == "apply_lora_qkv"
