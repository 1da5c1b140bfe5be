"""Serving on the Hugging Face stack: exact lengths, honest moments, what is recorded is what is used."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.backends import hf_build, hf_serve
from bench.backends.hf import HuggingFace
from bench.backends.interface import UnsupportedError
from bench.spec import Cell

SERVE = {"method": "serve", "prompt_tokens": 5, "generated_tokens": 4}
CASES = [
    {"family": "llama", "batch_size": 1, "weights_dtype": "float32"},
    {"family": "llama", "batch_size": 3, "weights_dtype": "bfloat16", "quantization_bits": 4},
    {"family": "qwen3", "batch_size": 2, "weights_dtype": "bfloat16"},
]


@pytest.mark.parametrize("fields", CASES, ids=str)
def test_requests_are_told_as_they_were_served(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], fields: dict) -> None:
    cell = hf_cell(**SERVE, **fields)
    run = hf_run(cell, max_steps=3)
    rows, requests = cell.workload.batch_size, run.session.requests
    assert [seen.number for seen in requests] == [1, 2, 3]
    assert [seen.tokens_digest for seen in requests] == [run.batches.digest(index, 1) for index in range(3)]
    assert {(seen.prompt_tokens, seen.generated_tokens) for seen in requests} == {(5 * rows, 4 * rows)}
    assert all(seen.prefill_s > 0 and seen.decode_s > 0 for seen in requests)
    assert all(one.start_s + one.prefill_s + one.decode_s <= two.start_s for one, two in pairwise(requests))
    assert requests[0].start_s >= 0
    assert run.session.steps == []
    assert run.loaded.parameters == cell.workload.model.parameters
    assert run.loaded.trainable_parameters == 0
    assert 0 < run.loaded.build_s < run.loaded.load_s
    assert (run.peaks.compile_s, run.peaks.framework_peak_bytes) == (0.0, None)
    assert "token 4" in run.session.told


def test_it_stops_when_the_session_has_enough(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]) -> None:
    assert len(hf_run(hf_cell(**SERVE), max_steps=5, enough=2).session.requests) == 2


def test_no_token_ends_a_sequence(hf_cell: Callable[..., Cell], hf_run: Callable[..., Any]) -> None:
    """Here every token is one that ends a sequence."""
    run = hf_run(hf_cell(**SERVE, config={"eos_token_id": list(range(512)), "pad_token_id": 0}), max_steps=1)
    assert run.session.requests[0].generated_tokens == 8


@pytest.mark.parametrize(("dtype", "kept"), [("float32", "none"), ("bfloat16", "nf4-double")])
def test_the_record_tells_what_is_used(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_run: Callable[..., Any], dtype: str, kept: str
) -> None:
    cell = hf_cell(**SERVE, weights_dtype=dtype, quantization_bits=None if kept == "none" else 4)
    told = hf_run(cell, max_steps=1).loaded.implementation
    assert told["attention"] == "sdpa"
    assert told["loop"] == "transformers generate, greedy, never stopped early"
    assert (told["quantization_format"], told["compile"], told["allocator"]) == (kept, "none", "default")
    assert told["cache"] == f"DynamicCache in {dtype}"
    model = hf_build.build(cell, Deaf())
    model.generation_config = hf_serve.settings(cell)
    found = model.generate(_tensor(np.full((1, 3), 7)), return_dict_in_generate=True)
    cache = found.get("cache", found.get("past_key_values"))
    assert f"{type(cache).__name__} in {str(cache.layers[0].keys.dtype).removeprefix('torch.')}" == told["cache"]


def test_a_compilation_that_did_not_happen_is_not_called_one(
    hf: HuggingFace, hf_cell: Callable[..., Cell], hf_batches: Callable[..., Any], hf_recorder: Any
) -> None:
    cell, session = hf_cell(**SERVE, compile=True), hf_recorder()
    with pytest.raises(UnsupportedError, match="did not compile"):
        hf.run(cell, hf_batches(cell), session)
    assert session.requests == []
    assert session.load.implementation["cache"].startswith("StaticCache")


class Deaf:
    """A session that does not listen while a model is built."""

    def progress(self, what: str) -> None: ...


class Slow:
    """In place of a model: takes 50 ms for the first token and 10 ms for each of two more."""

    def generate(self, prompts: Any, attention_mask: Any, stopping_criteria: Any) -> Any:
        import torch

        assert attention_mask.all()
        assert attention_mask.shape == prompts.shape
        for wait_s in (0.05, 0.01, 0.01):
            time.sleep(wait_s)
            prompts = torch.cat([prompts, prompts[:, :1]], dim=1)
            assert not stopping_criteria(prompts, None).any()
        return prompts


def test_prefill_ends_with_the_first_token_and_decode_with_the_last(hf: HuggingFace) -> None:
    alive: list[str] = []
    began_s = time.perf_counter()
    found = hf_serve.answer(Slow(), np.array([[4, 5], [6, 7]]), "cpu", alive.append)
    whole_s = time.perf_counter() - began_s
    assert found.first_s - found.began_s >= 0.05
    assert 0.02 <= found.last_s - found.first_s <= whole_s - 0.05
    assert found.prompts.tolist() == [[4, 5], [6, 7]]
    assert found.generated.tolist() == [[4, 4, 4], [6, 6, 6]]
    assert alive == ["token 1", "token 2", "token 3"]


def test_only_the_first_token_is_waited_for(hf: HuggingFace) -> None:
    import torch

    class Ids:
        """Ids on a device, counting how often they are asked for on the host."""

        shape, asked = (2, 3), 0

        def __getitem__(self, _: Any) -> Any:
            return self

        def tolist(self) -> None:
            Ids.asked += 1

        def new_zeros(self, count: int) -> Any:
            return torch.zeros(count)

    first = hf_serve.FirstToken(lambda what: None)
    for _ in range(3):
        assert first(Ids(), None).tolist() == [False, False]
    assert Ids.asked == 1


def _tensor(ids: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(ids)
