"""Suites with real weights: what is checked when they are read, and what the cells then say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_models import LLAMA

from bench import real
from bench.catalog import catalogue
from bench.expand import cells_of
from bench.spec import Cell, Suite
from bench.suite import SuiteError, read_suite
from bench.weights import read_checkpoint

COMMIT = "0123456789" * 4


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "own"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(LLAMA))
    save_file({"model.norm.weight": np.ones(64, np.float32)}, folder / "model.safetensors")
    return folder


@pytest.fixture
def suite(tmp_path: Path) -> Callable[..., Path]:
    """A suite file; keywords are [fixed] fields, lists are swept."""

    def write(models: list[str], **fields: Any) -> Path:
        swept = {name: value for name, value in fields.items() if isinstance(value, list)}
        lists = {"model": models, "method": ["lora"], "backend": ["hf"], **swept}
        fixed = {name: value for name, value in fields.items() if name not in swept}
        lines = ["[sweep]", *(f"{name} = {json.dumps(value)}" for name, value in lists.items())]
        lines += ["[fixed]", *(f"{name} = {json.dumps(value)}" for name, value in fixed.items())]
        path = tmp_path / "probe.toml"
        path.write_text('question = "Q?"\n' + "\n".join(lines) + "\n")
        return path

    return write


def cells(declared: Suite) -> tuple[Cell, ...]:
    return cells_of(declared, lambda _: "cpu")


def faults(path: Path) -> str:
    with pytest.raises(SuiteError) as caught:
        read_suite(path)
    return str(caught.value).replace(f"{path}: ", "")


def test_a_folders_digest_is_the_revision_and_part_of_the_work(model: Path, suite: Callable[..., Path]) -> None:
    (cell,) = cells(read_suite(suite(["models/own"], weights="folder")))
    assert cell.workload.revision == read_checkpoint(model).digest()
    assert cell.workload.model.origin == str(model)
    (random,) = cells(read_suite(suite(["models/own"])))
    assert random.workload.revision is None
    assert cell.key != random.key
    save_file({"model.norm.weight": np.full(64, 2, np.float32)}, model / "model.safetensors")
    (other,) = cells(read_suite(suite(["models/own"], weights="folder")))
    assert other.workload.digest != cell.workload.digest
    assert Cell.from_json(json.loads(json.dumps(other.to_json()))) == other


def test_a_config_file_stands_for_its_folder(model: Path, suite: Callable[..., Path]) -> None:
    (cell,) = cells(read_suite(suite(["models/own/config.json"], weights="folder")))
    assert cell.workload.model.origin == str(model)


def test_random_and_real_weights_stand_in_one_sweep(model: Path, suite: Callable[..., Path]) -> None:
    found = cells(read_suite(suite(["models/own"], weights=["random", "folder"])))
    assert [(cell.workload.weights, cell.workload.revision) for cell in found] == [
        ("random", None),
        ("folder", read_checkpoint(model).digest()),
    ]
    assert [cell.id for cell in found] == [f"own/lora/hf@cpu/weights={kind}" for kind in ("random", "folder")]


def test_faults_of_the_files_are_the_suites(model: Path, suite: Callable[..., Path]) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    path = suite(["models/own"], weights="folder")
    assert faults(path).startswith(f"fixed.weights: {file}: is truncated: ")
    swept = suite(["models/own"], weights=["random", "folder"])
    assert faults(swept).startswith(f"sweep.weights[1]: {file}: is truncated: ")


def test_a_pinned_folder_must_be_that_one(model: Path, suite: Callable[..., Path]) -> None:
    digest = read_checkpoint(model).digest()
    (cell,) = cells(read_suite(suite(["models/own"], weights="folder", revision=digest)))
    assert cell.workload.revision == digest
    said = faults(suite(["models/own"], weights="folder", revision="0" * 16))
    assert said == f"fixed.weights: the weights in {model} are {digest}, not {'0' * 16}; correct or remove the revision"


def test_a_catalogue_name_has_no_folder_and_a_folder_no_hub_id(model: Path, suite: Callable[..., Path]) -> None:
    assert faults(suite(["1b"], weights="folder")) == (
        "fixed.weights: llama-3.2-1b is a name of the catalogue, which holds no weights; "
        "give the path of a folder with its config.json and safetensors files as the model"
    )
    said = "fixed.weights: no hub id is known of own; give a model of the catalogue, or weights of a folder"
    assert faults(suite(["models/own"], weights="hub")) == said


def test_the_hubs_revision_is_the_given_one_else_the_catalogues_else_left_to_the_hub(
    suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(**fields: Any) -> tuple[str | None, str | None]:
        (cell,) = cells(read_suite(suite(["1b"], weights="hub", **fields)))
        return cell.workload.model.origin, cell.workload.revision

    class Known:
        models, hubs = catalogue().models, catalogue().hubs
        revisions: Any = MappingProxyType({})

    monkeypatch.setattr(real, "catalogue", Known)
    assert found() == ("meta-llama/Llama-3.2-1B", None)
    assert found(revision=COMMIT) == ("meta-llama/Llama-3.2-1B", COMMIT)
    Known.revisions = {"llama-3.2-1b": "f" * 40}
    assert found() == ("meta-llama/Llama-3.2-1B", "f" * 40)
    assert found(revision=COMMIT)[1] == COMMIT


def test_a_revision_is_a_commit_or_a_digest(suite: Callable[..., Path]) -> None:
    wanted = "fixed.revision: expected a commit of the hub, 40 hex digits, or the digest of a folder, 16; got "
    assert faults(suite(["1b"], weights="hub", revision="main")) == f'{wanted}"main"'
    assert faults(suite(["1b"], weights="hub", revision="0" * 16)) == (
        f'fixed.weights: "{"0" * 16}" is no commit of the hub: '
        "its 40 hex digits stand in the list of commits of meta-llama/Llama-3.2-1B"
    )


def test_random_weights_have_no_revision(suite: Callable[..., Path]) -> None:
    said = 'fixed.revision: the weights are random and have none; fix weights as "hub" or "folder", or remove it'
    assert faults(suite(["1b"], revision=COMMIT)) == said


def test_an_excluded_cells_weights_are_not_looked_for(model: Path, suite: Callable[..., Path]) -> None:
    path = suite(["models/own", "1b"], weights="folder")
    path.write_text(path.read_text() + '[[exclude]]\nmodel = "1b"\nreason = "not here"\n')
    assert read_suite(path).revisions == (("own", read_checkpoint(model).digest()),)
