"""Weights of the hub: fetched once, found again offline, refused with the remedy. The hub is a server of this test's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_hub import BROKEN, GATED, Hub, Repository, serving
from safetensors.numpy import save
from tiny_models import LLAMA

from bench.backends.hub import at_hand
from bench.backends.interface import UnsupportedError
from bench.events import Failed, Finished, Loaded, Started
from bench.reading.architecture import model_of
from bench.spec import Cell, Measure, workload
from bench.worker import work

os.environ["MLX_DISABLE_COMPILE"] = "1"

COMMIT, NEWER = "a" * 40, "b" * 40
NAMES = {"embed_tokens.weight": (512, 64), "norm.weight": (64,)}
BLOCK = {
    "self_attn.q_proj.weight": (64, 64),
    "self_attn.k_proj.weight": (32, 64),
    "self_attn.v_proj.weight": (32, 64),
    "self_attn.o_proj.weight": (64, 64),
    "mlp.gate_proj.weight": (192, 64),
    "mlp.up_proj.weight": (192, 64),
    "mlp.down_proj.weight": (64, 192),
    "input_layernorm.weight": (64,),
    "post_attention_layernorm.weight": (64,),
}


def weights() -> bytes:
    """A tiny Llama's, drawn at random."""
    draw = np.random.default_rng(3)
    shapes = {f"model.{name}": shape for name, shape in NAMES.items()} | {"lm_head.weight": (512, 64)}
    shapes |= {f"model.layers.{block}.{name}": shape for block in range(2) for name, shape in BLOCK.items()}
    return save({name: draw.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()})


FILES = {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": weights()}
ELSE = {"pytorch_model.bin": b"pickle", "modeling_own.py": b"raise SystemExit", "original/model.safetensors": b"again"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    repositories = {
        "own/tiny": Repository({**FILES, **ELSE}, COMMIT),
        "own/gated": Repository(FILES, trouble=GATED),
        "own/broken": Repository(FILES, trouble=BROKEN),
        "own/pickled": Repository({"config.json": FILES["config.json"], "pytorch_model.bin": b"pickle"}),
        "own/large": Repository(FILES, claimed_bytes=10**18),
        "own/other": Repository({**FILES, "config.json": json.dumps({**LLAMA, "rope_theta": 1e4}).encode()}),
    }
    with serving(repositories) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE"):
            monkeypatch.delenv(name, raising=False)
        yield served


def cell(repo: str | None = "own/tiny", revision: str | None = None, **declared: Any) -> Cell:
    model = replace(model_of("tiny", LLAMA, "config.json"), origin=repo)
    work_ = {"method": "full", "sequence_length": 8, "weights": "hub", "revision": revision, **declared}
    return Cell(workload(model=model, **work_), "mlx", "cpu")


def slow(*values: Any) -> Any:
    """Every question to the hub starts a process that imports for seconds: the less telling ones are left to `nox -s slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


def refusal(asked: Cell) -> str:
    with pytest.raises(UnsupportedError) as caught:
        at_hand(asked, lambda _: None)
    return str(caught.value)


def test_weights_are_fetched_once_and_the_answered_commit_is_the_revision(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    found = at_hand(cell(), told.append)
    assert told[0] == "fetching own/tiny"
    assert found.workload.revision == COMMIT
    assert found.workload.model.origin is not None
    folder = Path(found.workload.model.origin)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == FILES
    assert not any("agent-harnesses" in each or each.endswith((".bin", ".py")) for each in hub.asked)

    hub.asked.clear()
    assert at_hand(cell(revision=COMMIT), told.append) == found
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert at_hand(cell(), told.append) == found
    assert hub.asked == []


@pytest.mark.slow
def test_without_a_revision_the_newest_is_taken(hub: Hub) -> None:
    at_hand(cell(), lambda _: None)
    hub.repositories["own/tiny"].commit = NEWER
    assert at_hand(cell(), lambda _: None).workload.revision == NEWER


def test_cells_with_other_weights_are_let_through() -> None:
    random, folder = (cell(weights=kind) for kind in ("random", "folder"))
    assert at_hand(random, lambda _: None) is random
    assert at_hand(folder, lambda _: None) is folder


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (cell("own/gated"), "own/gated is gated: accept its terms on its page, log in (hf auth login, or HF_TOKEN), then run"),
        slow(cell("own/none"), "the hub has no own/none, or shows it to its members only: log in"),
        slow(cell(revision=NEWER), f"own/tiny has no revision {NEWER}; take one from its list of commits"),
        slow(cell("own/pickled"), "own/pickled holds no safetensors files, and pickled weights are never read; take another"),
        (cell("own/large"), "the disk is too small for own/large: 1000000000.0 GB are to be fetched and "),
        (cell("own/other"), "tiny on the hub is another architecture than in the catalogue: rope_theta 10000.0, not 500000.0"),
        (cell(None), "no hub id is known of tiny; give weights of a folder"),
    ],
    ids=["gated", "missing", "revision", "pickled", "disk", "architecture", "no id"],
)
def test_a_refusal_says_what_to_do(asked: Cell, said: str) -> None:
    assert refusal(asked).startswith(said)


def test_offline_is_honoured(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "own/tiny is not in the hub's cache" in refusal(cell())
    assert "run hf download own/tiny where it is not set, then run again with --no-resume" in refusal(cell())
    assert hub.asked == []


@pytest.mark.slow
@pytest.mark.usefixtures("hub")
def test_a_hub_out_of_reach_is_told_from_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="fetching own/broken failed with exit code 1; the log says why"):
        at_hand(cell("own/broken"), lambda _: None)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "the hub cannot be reached (ConnectError): go online" in refusal(cell())


@pytest.mark.slow
def test_a_cache_that_is_not_whole_is_fetched_again(hub: Hub) -> None:
    folder = Path(at_hand(cell(), lambda _: None).workload.model.origin or "")
    (folder / "model.safetensors").resolve().unlink()
    (folder / "model.safetensors").unlink()
    at_hand(cell(revision=COMMIT), lambda _: None)
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


Worked = Callable[[Cell], list[Any]]


@pytest.fixture
def worked() -> Worked:
    def run(asked: Cell) -> list[Any]:
        events: list[Any] = []
        work(asked, Measure(warmup_steps=1, warmup_max_steps=1, steps=1), events.append)
        return events

    return run


@pytest.mark.usefixtures("hub")
def test_a_run_tells_which_revision_it_had(worked: Worked) -> None:
    events = worked(cell(batch_size=1))
    assert [each.revision for each in events if isinstance(each, Started)] == [COMMIT]
    assert any(isinstance(each, Loaded) for each in events)
    assert isinstance(events[-1], Finished)


@pytest.mark.usefixtures("hub")
def test_a_run_that_is_refused_is_unsupported(worked: Worked) -> None:
    last = worked(cell("own/gated"))[-1]
    assert isinstance(last, Failed)
    assert last.outcome == "unsupported"
    assert "own/gated is gated: accept its terms" in last.reason
