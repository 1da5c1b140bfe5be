"""Serving on mlx-lm: exact lengths for one sequence and several, honest moments, what is recorded is what is used."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tiny_models import FAMILIES, LLAMA

from bench.backends import mlx_serve
from bench.backends.interface import SeenRequest
from bench.backends.mlx import Mlx
from bench.data import Batches
from bench.events import Counters, Loaded
from bench.model import model_from_config
from bench.spec import Cell, Implementation, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold


@dataclass
class Recorder:
    """A session that keeps what it is told, and has enough after `enough` batches of requests."""

    max_steps: int = 2
    enough: int = 1000
    told: list[str] = field(default_factory=list)
    loads: list[Loaded] = field(default_factory=list)
    requests: list[SeenRequest] = field(default_factory=list)

    def progress(self, what: str) -> None:
        self.told.append(what)

    def loaded(self, loaded: Loaded) -> None:
        self.loads.append(loaded)

    def request(self, seen: SeenRequest) -> bool:
        self.requests.append(seen)
        return len(self.requests) < self.enough


def served(
    config: dict[str, Any] = LLAMA, session: Recorder | None = None, **declared: Any
) -> tuple[Recorder, Batches, Counters]:
    shape = {"batch_size": 1, "prompt_tokens": 5, "generated_tokens": 4, "weights_dtype": "float32"}
    work = workload(model=model_from_config("tiny", config), method="serve", **{**shape, **declared})
    cell, session = Cell(work, "mlx", "cpu", Implementation(compile=False)), session or Recorder()
    batches = Batches(512, work.batch_size, work.prompt_tokens or 0, work.seed)
    backend = Mlx()
    assert backend.refuses(cell) is None
    backend.prepare()
    return session, batches, backend.run(cell, batches, session)


@pytest.mark.parametrize(
    "fields",
    [
        {"batch_size": 1},
        {"batch_size": 10},  # more than mlx-lm prefills at a time by itself
        {"batch_size": 1, "prompt_tokens": 1},
        {"batch_size": 3, "quantization_bits": 4, "weights_dtype": "bfloat16"},
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_requests_are_told_as_they_were_served(family: str, fields: dict[str, Any]) -> None:
    session, batches, peaks = served(FAMILIES[family], **fields)
    rows, prompt, requests = fields["batch_size"], fields.get("prompt_tokens", 5), session.requests
    assert [seen.number for seen in requests] == [1, 2]
    assert [seen.tokens_digest for seen in requests] == [batches.digest(0, 1), batches.digest(1, 1)]
    assert {(seen.prompt_tokens, seen.generated_tokens) for seen in requests} == {(prompt * rows, 4 * rows)}
    assert all(seen.prefill_s > 0 and seen.decode_s > 0 for seen in requests)
    assert all(one.start_s + one.prefill_s + one.decode_s <= two.start_s for one, two in pairwise(requests))
    (loaded,) = session.loads
    assert (loaded.parameters, loaded.trainable_parameters) == (model_from_config("m", FAMILIES[family]).parameters, 0)
    assert peaks.compile_s == 0.0
    assert peaks.framework_peak_bytes is not None
    assert peaks.framework_peak_bytes >= (requests[-1].framework_peak_bytes or 0) > 0
    assert peaks.cache_peak_bytes is not None
    assert "token 4" in session.told


def test_it_stops_when_the_session_has_enough() -> None:
    session, _, _ = served(session=Recorder(max_steps=5, enough=1))
    assert len(session.requests) == 1


def test_the_peak_holds_the_cache_of_keys_and_values() -> None:
    """Two blocks of 2 heads of 16, keys and values of 8 sequences, 256 positions at a time, in four bytes: over 2 MB."""
    short, long = (served(batch_size=8, prompt_tokens=5, generated_tokens=count)[2].framework_peak_bytes for count in (2, 260))
    assert short is not None
    assert long is not None
    assert long - short > 2 * 2 * 2 * 16 * 8 * 256 * 4 * 0.9


@pytest.mark.parametrize(
    ("rows", "loop", "cache"),
    [
        (1, "mlx_lm generate_step, greedy, never stopped early", "KVCache in float32"),
        (2, "mlx_lm BatchGenerator, all sequences prefilled together, greedy, never stopped early", "BatchKVCache in float32"),
    ],
)
def test_the_record_tells_what_is_used(rows: int, loop: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_lm.models import cache as caches

    seen = set()
    kind = getattr(caches, cache.split(maxsplit=1)[0])
    fetch = kind.update_and_fetch

    def spied(self: Any, keys: Any, values: Any) -> Any:
        seen.add(f"{type(self).__name__} in {str(keys.dtype).removeprefix('mlx.core.')}")
        return fetch(self, keys, values)

    monkeypatch.setattr(kind, "update_and_fetch", spied)
    session, _, _ = served(batch_size=rows)
    told = session.loads[0].implementation
    assert (told["loop"], told["cache"], told["compile"]) == (loop, cache, "none")
    assert (told["attention"], told["quantization_format"]) == ("mx.fast.scaled_dot_product_attention", "none")
    assert seen == {cache}
    assert not {"optimizer", "loss", "checkpointing"} & told.keys()


def test_prefill_ends_with_the_first_token_and_decode_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    def slow(prompt: Any, model: Any, stream: Any, *, max_tokens: int) -> Any:
        for number in range(max_tokens):
            time.sleep(0.01 if number else 0.05)
            yield 7, None
        time.sleep(0.05)  # the token too many

    monkeypatch.setattr(import_module("mlx_lm.generate"), "generate_step", slow)
    alive: list[str] = []
    began_s = time.perf_counter()
    found = mlx_serve.answer(None, np.array([[4, 5]]), 3, mx.new_stream(mx.cpu), alive.append)
    whole_s = time.perf_counter() - began_s
    assert found.first_s - found.began_s >= 0.05
    assert 0.02 <= found.last_s - found.first_s <= whole_s - 0.1
    assert found.ids.tolist() == [[4, 5, 7, 7, 7]]
    assert alive == ["token 1", "token 2", "token 3"]
