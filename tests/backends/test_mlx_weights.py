"""Real weights in mlx-lm's models: as the files have them, and what transformers makes of the same files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_models import FAMILIES

from bench.backends.hf import HuggingFace
from bench.backends.hf_build import build as build_torch
from bench.backends.interface import UnsupportedError
from bench.backends.mlx_build import build
from bench.reading.architecture import model_of
from bench.reading.strict import BadFile
from bench.spec import Cell, workload
from bench.weights import read_checkpoint

os.environ["MLX_DISABLE_COMPILE"] = "1"


class Silence:
    """A session that listens to nothing."""

    max_steps = 1

    def progress(self, what: str) -> None: ...


def cell(family: str, folder: Path, method: str = "full", **declared: Any) -> Cell:
    model = replace(model_of("tiny", FAMILIES[family], "config.json"), origin=str(folder))
    return Cell(workload(model=model, method=method, weights="folder", **{"weights_dtype": "float32", **declared}), "mlx", "cpu")


def drawn(family: str) -> dict[str, Any]:
    """Tensors of the family's names and shapes, none like another."""
    from mlx.utils import tree_flatten

    empty = cell(family, Path("/nowhere"))
    shapes = tree_flatten(build(replace(empty, workload=replace(empty.workload, weights="random")), Silence()).parameters())
    draw = np.random.default_rng(7)
    return {name: draw.normal(0, 0.1, value.shape).astype(np.float32) for name, value in shapes}


def saved(folder: Path, tensors: dict[str, Any], files: int = 1) -> Path:
    names = sorted(tensors)
    places = {name: f"model-{number % files}.safetensors" for number, name in enumerate(names)}
    for file in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == file}, folder / file)
    if files > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def flat(model: Any) -> dict[str, Any]:
    from mlx.utils import tree_flatten

    return dict(tree_flatten(model.parameters()))


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("files", [1, 2])
def test_every_weight_is_the_files(tmp_path: Path, family: str, files: int) -> None:
    tensors = drawn(family)
    read = flat(build(cell(family, saved(tmp_path, tensors, files)), Silence()))
    assert read.keys() == tensors.keys()
    assert all(np.array_equal(np.array(read[name]), value) for name, value in tensors.items())


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_both_stacks_make_the_same_model_of_the_same_files(tmp_path: Path, family: str) -> None:
    import mlx.core as mx
    import torch

    HuggingFace().prepare()
    asked = cell(family, saved(tmp_path, drawn(family)))
    ids = np.arange(3, 35)[None]
    mx.set_default_device(mx.cpu)
    ours = np.array(build(asked, Silence())(mx.array(ids)))
    with torch.no_grad():
        theirs = build_torch(replace(asked, backend="hf"), Silence()).eval()(input_ids=torch.tensor(ids)).logits.numpy()
    assert np.abs(ours - theirs).max() < 1e-4 * np.abs(theirs).max()


def test_precision_and_bits_are_those_declared(tmp_path: Path) -> None:
    import mlx.core as mx

    tensors = drawn("llama")
    model = build(cell("llama", saved(tmp_path, tensors), "qlora", weights_dtype="bfloat16"), Silence())
    layer = model.model.layers[1].mlp.up_proj
    assert (layer.bits, str(layer.scales.dtype), str(model.lm_head.weight.dtype)) == (4, "mlx.core.bfloat16", "mlx.core.bfloat16")
    stood_for = mx.dequantize(layer.weight, layer.scales, layer.biases, layer.group_size, layer.bits).astype(mx.float32)
    own = tensors["model.layers.1.mlp.up_proj.weight"]
    assert np.abs(np.array(stood_for) - own).mean() < 0.1 * own.std()


def test_a_tied_head_in_the_file_is_passed_over(tmp_path: Path) -> None:
    tensors = drawn("qwen3")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    assert "lm_head.weight" not in flat(build(cell("qwen3", saved(tmp_path, tensors)), Silence()))


def test_files_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    tensors = drawn("llama")
    tensors["model.layers.7.mlp.up_proj.weight"] = tensors.pop("model.norm.weight")
    with pytest.raises(BadFile) as caught:
        build(cell("llama", saved(tmp_path, tensors)), Silence())
    assert str(caught.value).split("\n") == [
        f"{tmp_path}: lacks 1 of this architecture's weights: model.norm.weight",
        f"{tmp_path}: holds 1 tensors that this architecture has no place for: model.layers.7.mlp.up_proj.weight",
    ]


def test_a_model_whose_folder_is_not_known_is_unsupported() -> None:
    asked = cell("llama", Path("/nowhere"))
    work = replace(asked.workload, model=replace(asked.workload.model, origin=None))
    with pytest.raises(UnsupportedError, match="no folder with weights of tiny is known"):
        build(replace(asked, workload=work), Silence())


def test_tensors_of_a_width_that_mlx_lacks_are_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = saved(tmp_path, {name: value.astype(np.float64) for name, value in drawn("llama").items()})
    with pytest.raises(UnsupportedError, match=r"MLX reads no F64 tensors, such as .*: save the weights in 32 or 16 bits"):
        build(cell("llama", folder), Silence())


def test_files_that_changed_after_the_suite_was_read_are_not_taken_for_the_old_ones(tmp_path: Path) -> None:
    tensors = drawn("llama")
    asked = cell("llama", saved(tmp_path, tensors), revision=read_checkpoint(tmp_path).digest())
    build(asked, Silence())
    saved(tmp_path, {name: value + 1 for name, value in tensors.items()})
    with pytest.raises(BadFile, match="have changed since the suite was read"):
        build(asked, Silence())
    with pytest.raises(BadFile, match="have changed since the suite was read"):
        build_torch(replace(asked, backend="hf"), Silence())
