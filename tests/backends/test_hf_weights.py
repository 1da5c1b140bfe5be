"""Real weights in a transformers model: as the files have them, in the final precision, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bench.backends.hf_build import build
from bench.backends.interface import UnsupportedError
from bench.reading.strict import BadFile
from bench.spec import Cell

Save = Callable[..., tuple[Any, Path]]


@pytest.fixture
def saved(hf: Any, hf_cell: Callable[..., Cell], hf_recorder: Any, tmp_path: Path) -> Save:
    """A random model in float32, and the folder in which transformers saved it."""

    def save(family: str = "llama", **shards: Any) -> tuple[Any, Path]:
        model = build(hf_cell(family, "full", weights_dtype="float32", seed=5), hf_recorder())
        model.save_pretrained(tmp_path, **shards)
        return model, tmp_path

    return save


def reading(cell: Cell, folder: Path) -> Cell:
    """The cell with the weights of a folder."""
    work = replace(cell.workload, weights="folder", model=replace(cell.workload.model, origin=str(folder)))
    return replace(cell, workload=work)


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen2"])
@pytest.mark.parametrize("shards", [{}, {"max_shard_size": "100KB"}], ids=["one file", "shards"])
def test_every_weight_is_the_files(
    hf_cell: Callable[..., Cell], hf_recorder: Any, saved: Save, family: str, shards: dict[str, Any]
) -> None:
    model, folder = saved(family, **shards)
    assert (len(list(folder.glob("*.safetensors"))) > 1) is bool(shards)
    read = build(reading(hf_cell(family, "full", weights_dtype="float32"), folder), hf_recorder())
    ours, theirs = dict(read.named_parameters()), dict(model.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (read.lm_head.weight is read.model.embed_tokens.weight) is (family != "llama")
    assert not any(tensor.is_meta for tensor in (*read.parameters(), *read.buffers()))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_are_brought_to_the_declared_precision(
    hf_cell: Callable[..., Cell], hf_recorder: Any, saved: Save, dtype: str
) -> None:
    model, folder = saved()
    read = build(reading(hf_cell(method="lora", weights_dtype=dtype), folder), hf_recorder())
    for name, weight in read.named_parameters():
        assert torch.equal(weight, model.get_parameter(name).to(getattr(torch, dtype)))
        assert not weight.requires_grad


def test_four_bits_are_those_of_the_files_weights(hf_cell: Callable[..., Cell], hf_recorder: Any, saved: Save) -> None:
    from bitsandbytes.functional import dequantize_4bit

    model, folder = saved()
    read = build(reading(hf_cell(method="qlora", weights_dtype="float32"), folder), hf_recorder())
    layer, own = read.model.layers[1].mlp.up_proj.weight, model.model.layers[1].mlp.up_proj.weight
    stood_for = dequantize_4bit(layer, layer.quant_state)
    assert float((stood_for - own.detach()).abs().mean()) < 0.1 * float(own.detach().std())
    assert torch.equal(read.lm_head.weight, model.lm_head.weight)


def test_what_is_read_does_not_hang_on_the_file(hf_cell: Callable[..., Cell], hf_recorder: Any, saved: Save) -> None:
    model, folder = saved()
    read = build(reading(hf_cell(method="full", weights_dtype="float32"), folder), hf_recorder())
    (folder / "model.safetensors").write_bytes(bytes((folder / "model.safetensors").stat().st_size))
    assert torch.equal(read.model.norm.weight, model.model.norm.weight)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: held.pop("model.norm.weight"), "lacks 1 of this architecture's weights: model.norm.weight"),
        (
            lambda held: held.update({"model.layers.9.mlp.up_proj.weight": torch.ones(2)}),
            "holds 1 tensors that this architecture has no place for: model.layers.9.mlp.up_proj.weight",
        ),
        (
            lambda held: held.update({"model.norm.weight": torch.ones(65)}),
            "holds 1 weights of another shape than the config.json makes: model.norm.weight has 65, wanted 64",
        ),
    ],
    ids=["missing", "surplus", "shape"],
)
def test_files_of_another_model_are_refused_by_name(
    hf_cell: Callable[..., Cell], hf_recorder: Any, saved: Save, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    _, folder = saved()
    held = load_file(folder / "model.safetensors")
    change(held)
    save_file(held, folder / "model.safetensors")
    with pytest.raises(BadFile) as caught:
        build(reading(hf_cell(method="full"), folder), hf_recorder())
    assert str(caught.value) == f"{folder}: {said}"


def test_a_model_whose_folder_is_not_known_is_unsupported(hf: Any, hf_cell: Callable[..., Cell], hf_recorder: Any) -> None:
    cell = hf_cell()
    with pytest.raises(UnsupportedError, match="no folder with weights of tiny-llama is known"):
        build(replace(cell, workload=replace(cell.workload, weights="folder")), hf_recorder())
