"""A folder of safetensors, checked without a framework: every way in which files can be wrong, and a digest that tells."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from bench.reading.strict import BadFile
from bench.weights import INDEX, WHOLE, checkpoint_of, matched, read_checkpoint

TENSORS = {
    "model.embed_tokens.weight": np.arange(64, dtype=np.float32).reshape(16, 4),
    "model.norm.weight": np.ones(4, np.float16),
    "lm_head.weight": np.arange(20_000, dtype=np.float32).reshape(5000, 4),
}
SHAPES = {name: value.shape for name, value in TENSORS.items()}


def whole(folder: Path, tensors: dict[str, Any] = TENSORS, name: str = WHOLE) -> Path:
    save_file(tensors, folder / name)
    return folder


def sharded(folder: Path, index: dict[str, str] | None = None) -> Path:
    """Two files and their index; `index` changes what it says."""
    files = {"a.safetensors": ["model.embed_tokens.weight"], "b.safetensors": ["model.norm.weight", "lm_head.weight"]}
    for file, names in files.items():
        save_file({name: TENSORS[name] for name in names}, folder / file)
    places = {name: file for file, names in files.items() for name in names} | (index or {})
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def faults(folder: Path) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read_checkpoint(folder).digest()
    lines = str(caught.value).split("\n")
    assert all(line.startswith(str(folder)) for line in lines)
    return [line.removeprefix(str(folder)).removeprefix("/") for line in lines]


def test_every_tensor_is_found_with_its_place(tmp_path: Path) -> None:
    found = read_checkpoint(whole(tmp_path)).tensors
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in found.items()} == {
        "model.embed_tokens.weight": ("F32", (16, 4)),
        "model.norm.weight": ("F16", (4,)),
        "lm_head.weight": ("F32", (5000, 4)),
    }
    for name, tensor in found.items():
        with tensor.file.open("rb") as stream:
            stream.seek(tensor.start)
            assert stream.read(tensor.stop - tensor.start) == TENSORS[name].tobytes()


def test_the_same_tensors_have_the_same_digest_in_one_file_or_in_two(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    digest = read_checkpoint(whole(one)).digest()
    assert digest == read_checkpoint(sharded(two)).digest()
    assert len(digest) == 16


@pytest.mark.parametrize(
    "changed",
    [
        {"model.norm.weight": np.full(4, 2, np.float16)},
        {"model.norm.weight": np.ones(4, np.int16)},
        {"model.embed_tokens.weight": TENSORS["model.embed_tokens.weight"].reshape(4, 16)},
        {"lm_head.weight": TENSORS["lm_head.weight"] * 1.001},
    ],
    ids=["values", "dtype", "shape", "training"],
)
def test_other_tensors_have_another_digest(tmp_path: Path, changed: dict[str, Any]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert read_checkpoint(whole(one)).digest() != read_checkpoint(whole(two, TENSORS | changed)).digest()


def test_the_one_file_counts_before_the_index_and_a_file_of_any_name_where_it_is_alone(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("{}")
    assert len(read_checkpoint(whole(tmp_path)).tensors) == 3
    alone = tmp_path / "alone"
    alone.mkdir()
    assert len(read_checkpoint(whole(alone, name="weights.safetensors")).tensors) == 3


def test_pickled_weights_are_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    assert faults(tmp_path) == [
        ": holds pickled weights only (pytorch_model.bin), and a pickle can run any code when it is read; "
        "take the safetensors files of the same model, or save it anew with save_pretrained of transformers"
    ]


def test_a_folder_without_weights_is_answered_with_what_to_put_there(tmp_path: Path) -> None:
    assert faults(tmp_path) == [
        ": holds no weights; put model.safetensors beside the config.json, or the files that model.safetensors.index.json names"
    ]
    assert faults(tmp_path / "none") == [": cannot be read: No such file or directory"]
    for name in ("a.safetensors", "b.safetensors"):
        whole(tmp_path, name=name)
    assert faults(tmp_path) == [
        ": holds 2 safetensors files (a.safetensors, b.safetensors) and no model.safetensors.index.json that says which; add it"
    ]


def test_all_faults_of_all_shards_are_told_at_once(tmp_path: Path) -> None:
    sharded(tmp_path, {"model.extra.weight": "c.safetensors"})
    (tmp_path / "a.safetensors").write_bytes(b"")
    assert faults(tmp_path) == [
        "a.safetensors: is no safetensors file (Git LFS leaves a short text in its place); fetch it again",
        "c.safetensors: is missing; fetch it again",
    ]


def test_the_index_and_the_files_must_name_the_same_tensors(tmp_path: Path) -> None:
    sharded(tmp_path, {"model.extra.weight": "b.safetensors"})
    assert faults(tmp_path) == [f"{INDEX}: names 1 tensors that its files lack: model.extra.weight; fetch the files again"]
    places = json.loads((tmp_path / INDEX).read_text())["weight_map"]
    del places["model.extra.weight"], places["lm_head.weight"]
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": places}))
    assert faults(tmp_path) == [f"{INDEX}: leaves out 1 tensors of its files: lm_head.weight; fetch the files again"]


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": "../a.safetensors"}}', "{"])
def test_a_faulty_index_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_text(index)
    assert len(said := faults(tmp_path)) == 1
    assert said[0].startswith(INDEX)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name,
        lambda name: name.removeprefix("model."),
        lambda name: f"language_model.{name}",
        lambda name: name.replace("model.", "model.language_model.") if name.startswith("model.") else name,
    ],
    ids=["plain", "base model", "older model that sees", "newer model that sees"],
)
def test_names_are_matched_however_they_begin(tmp_path: Path, rename: Callable[[str], str]) -> None:
    seen = {"vision_tower.patch.weight": np.ones(3, np.float32), "model.layers.0.rotary_emb.inv_freq": np.ones(3, np.float32)}
    checkpoint = read_checkpoint(whole(tmp_path, {rename(name): value for name, value in TENSORS.items()} | seen))
    assert {name: tensor.shape for name, tensor in matched(checkpoint, SHAPES, tied=False).items()} == SHAPES


def test_a_head_of_a_tied_model_is_passed_over(tmp_path: Path) -> None:
    wanted = {name: shape for name, shape in SHAPES.items() if name != "lm_head.weight"}
    checkpoint = read_checkpoint(whole(tmp_path))
    assert set(matched(checkpoint, wanted, tied=True)) == set(wanted)
    with pytest.raises(BadFile, match=r"holds 1 tensors that this architecture has no place for: lm_head\.weight"):
        matched(checkpoint, wanted, tied=False)


def test_whatever_does_not_match_is_named_at_once(tmp_path: Path) -> None:
    wanted = {"model.embed_tokens.weight": (4, 16), "model.layers.0.mlp.up_proj.weight": (8, 4), "lm_head.weight": (5000, 4)}
    packed = {"lm_head.weight": np.ones((5000, 4), np.uint8), "embed_tokens.weight": TENSORS["model.embed_tokens.weight"]}
    with pytest.raises(BadFile) as caught:
        matched(read_checkpoint(whole(tmp_path, TENSORS | packed)), wanted, tied=False)
    assert [line.removeprefix(f"{tmp_path}: ") for line in str(caught.value).split("\n")] == [
        "lacks 1 of this architecture's weights: model.layers.0.mlp.up_proj.weight",
        "holds 1 tensors that this architecture has no place for: model.norm.weight",
        "holds 1 weights under two names: model.embed_tokens.weight",
        "holds 1 weights of another shape than the config.json makes: model.embed_tokens.weight has 16×4, wanted 4×16",
        "holds 1 weights that are quantised already; take those in 16 bits: lm_head.weight (U8)",
    ]


def test_files_that_changed_since_their_digest_was_taken_are_refused(tmp_path: Path) -> None:
    revision = read_checkpoint(whole(tmp_path)).digest()
    assert checkpoint_of(tmp_path, revision).digest() == checkpoint_of(tmp_path, None).digest() == revision
    whole(tmp_path, {name: value + 1 for name, value in TENSORS.items()})
    with pytest.raises(BadFile, match="have changed since the suite was read"):
        checkpoint_of(tmp_path, revision)


def test_what_is_no_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / WHOLE)
    assert faults(tmp_path) == [f"{WHOLE}: is no regular file"]
