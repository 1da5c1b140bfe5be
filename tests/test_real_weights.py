"""A real model on both stacks: English costs them the same loss, a short LoRA run lowers it, and a whole sweep measures it.

The model is SmolLM2-135M-Instruct, from a package (`smollm2`). The harness trains on random ids; here both trainers are given
English through the same door, as an object with the two methods of `Batches` that they call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from smollm2 import TEXT, smollm2

from bench import store
from bench.backends import hf_build, hf_train, mlx_build, mlx_train
from bench.backends.hf import HuggingFace
from bench.backends.interface import SeenStep
from bench.declaration import declared
from bench.spec import Cell, workload
from bench.weights import read_checkpoint

pytestmark = pytest.mark.slow

os.environ["MLX_DISABLE_COMPILE"] = "1"

TOKENS, STEPS = 32, 4
FALL = 0.1
"""The least share of its first loss that each stack must lose. A run that learns nothing loses none."""


@dataclass(frozen=True)
class English:
    """One batch of English, again and again: what the trainers call of `bench.data.Batches`."""

    text: str = TEXT

    def ids(self, index: int) -> NDArray[np.int64]:
        from tokenizers import Tokenizer

        ids = Tokenizer.from_file(str(smollm2() / "tokenizer.json")).encode(self.text).ids[:TOKENS]
        assert len(ids) == TOKENS
        return np.array([ids], np.int64)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        while True:
            yield self.ids(0)


@dataclass
class Recorder:
    """A session that keeps the losses."""

    max_steps: int
    losses: list[float] = field(default_factory=list)

    def progress(self, what: str) -> None: ...
    def loaded(self, loaded: Any) -> None: ...

    def step(self, seen: SeenStep) -> bool:
        assert seen.loss is not None
        self.losses.append(seen.loss)
        return True


def cell(backend: Any, dtype: str, weights: str = "folder") -> Cell:
    content = {"question": "?", "sweep": {"model": [f"{smollm2()}/"], "method": ["lora"], "backend": ["hf"]}}
    said, problems = declared(content, "", Path("/"))
    assert not problems
    work = {"sequence_length": TOKENS, "gradient_checkpointing": False, "learning_rate": 1e-3, "weights_dtype": dtype}
    return Cell(workload(model=said.sweep["model"][0], method="lora", weights=weights, **work), backend, "cpu")


@cache
def losses(backend: str, dtype: str, steps: int, weights: str = "folder") -> list[float]:
    """The losses of a LoRA run on English, the first being that of the untouched model."""
    asked, session = cell(backend, dtype, weights), Recorder(steps)
    batches: Any = English()
    if backend == "hf":
        HuggingFace().prepare()
        hf_train.train(hf_build.attach_adapters(hf_build.build(asked, session), asked.workload), asked, batches, session)
    else:
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        model = mlx_build.build(asked, session)
        mlx_build.attach_adapters(model, asked.workload)
        mlx_train.train(model, asked, batches, session)
    return session.losses


def test_english_costs_both_stacks_the_same() -> None:
    torch, mlx = (losses(backend, "float32", STEPS)[0] for backend in ("hf", "mlx"))
    assert mlx == pytest.approx(torch, rel=0.01)
    assert torch < 4, "a model that knows English"


def test_random_weights_know_no_english() -> None:
    assert losses("hf", "float32", 1, "random")[0] == pytest.approx(np.log(49_152), rel=0.1)


def test_16_bits_cost_both_stacks_the_same() -> None:
    whole = losses("hf", "float32", STEPS)[0]
    for backend in ("hf", "mlx"):
        assert losses(backend, "bfloat16", 1)[0] == pytest.approx(whole, rel=0.01), backend


def test_a_short_lora_run_lowers_the_loss_on_both() -> None:
    for backend in ("hf", "mlx"):
        first, *_, last = losses(backend, "float32", STEPS)
        assert last < (1 - FALL) * first, backend


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """A whole sweep on the model's folder, as a user would run it."""
    folder = tmp_path_factory.mktemp("real")
    sweep = f'[sweep]\nmodel = ["{smollm2()}"]\nmethod = ["lora"]\nbackend = ["hf", "mlx"]\n'
    fixed = (
        f'[fixed]\nweights = "folder"\nsequence_length = {TOKENS}\ngradient_checkpointing = false\nweights_dtype = "float32"\n'
    )
    measure = "[measure]\nwarmup_steps = 1\nwarmup_max_steps = 1\nsteps = 1\n"
    (folder / "real.toml").write_text(f'question = "Does a folder of real weights work?"\nrepeats = 1\n{sweep}{fixed}{measure}')
    command = [sys.executable, "-m", "bench", "run", "real.toml", "--json"]
    environment = {**os.environ, "WINGSPAN_LOCK": str(folder / "lock")}
    ran = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=1200, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["runs"]) == 2
    return {row["backend"]: row for row in store.read(folder / "results", "runs").rows.to_pylist()}


def test_a_whole_sweep_measures_the_folder_on_both_stacks(rows: dict[str, dict[str, Any]]) -> None:
    digest = read_checkpoint(smollm2()).digest()
    for row in rows.values():
        assert (row["outcome"], row["weights"], row["revision"]) == ("ok", "folder", digest)
    assert rows["hf"]["workload_digest"] == rows["mlx"]["workload_digest"]
    assert rows["mlx"]["loss_first"] == pytest.approx(rows["hf"]["loss_first"], rel=0.01)
    assert rows["hf"]["parameters"] == rows["mlx"]["parameters"] == 134_515_008
