"""Serving by transformers' own `generate`: greedy, with a KV cache, all sequences of a batch together, none stopped early.

In: a built model, a cell, prompts and a session. Out: the session is told when the model stands ready and after each batch of
requests; the framework's peaks are returned.

The one thing added to transformers' loop is a stopping criterion that never stops: after the first token it waits until that is
known on the host. After the others it asks nothing of the device, so decoding keeps the pace that users see.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.backends import hf_device
from bench.backends.hf_build import count_parameters
from bench.backends.hf_readback import allocator, quantization
from bench.backends.hf_train import compile_s
from bench.backends.interface import Session, UnsupportedError
from bench.backends.serving import Answer, seen_request
from bench.data import Batches, Ids
from bench.events import Counters, Loaded
from bench.spec import Cell, Device

Alive = Callable[[str], None]


def serve(model: Any, cell: Cell, batches: Batches, session: Session, *, started_s: float, build_s: float) -> Counters:
    """Answer batch after batch of prompts until the session has enough.

    `batches` holds the prompts; `started_s` is the `time.perf_counter()` from which loading counts, `build_s` what of it building
    took. Raises whatever the framework raises, and UnsupportedError where transformers passed over a compilation asked for.
    """
    compiling = bool(cell.implementation.compile)
    model.eval()
    model.generation_config = settings(cell)
    hf_device.synchronize(cell.device)
    session.loaded(
        Loaded(
            load_s=time.perf_counter() - started_s,
            parameters=count_parameters(model),
            trainable_parameters=0,
            implementation=implementation(model, cell),
            build_s=build_s,
        )
    )
    hf_device.start_counting(cell.device)
    origin_s = time.perf_counter()
    for number in range(1, session.max_steps + 1):
        answered = answer(model, batches.ids(number - 1), cell.device, session.progress)
        if compiling and not compile_s(compiling=True):
            raise UnsupportedError("transformers' generate did not compile this model here, though compile was asked for")
        peak_bytes = hf_device.counters(cell.device).framework_peak_bytes
        if not session.request(seen_request(answered, number, origin_s=origin_s, peak_bytes=peak_bytes)):
            break
    return replace(hf_device.counters(cell.device), compile_s=compile_s(compiling=compiling))


def settings(cell: Cell) -> Any:
    """The `transformers.GenerationConfig` of the cell: greedy, exactly `generated_tokens` a sequence, no token that ends one.

    transformers compiles decoding by itself where the cache is static, and never where it grows.
    """
    from transformers import GenerationConfig

    compiling = bool(cell.implementation.compile)
    return GenerationConfig(
        do_sample=False,
        max_new_tokens=cell.workload.generated_tokens,
        use_cache=True,
        cache_implementation="static" if compiling else "dynamic",
        disable_compile=not compiling,
    )


def implementation(model: Any, cell: Cell) -> dict[str, str]:
    """How the cell is served, for the record: read off the model, and the cache by what `settings` asks for."""
    import torch

    compiling = bool(cell.implementation.compile)
    kind = "StaticCache" if compiling else "DynamicCache"
    return {
        "attention": str(model.config._attn_implementation),
        "loop": "transformers generate, greedy, never stopped early",
        "cache": f"{kind} in {cell.workload.weights_dtype}",
        **quantization(model),
        "compile": "transformers generate's own" if compiling else "none",
        "float32_matmul": torch.get_float32_matmul_precision(),
        "allocator": allocator(),
    }


def answer(model: Any, ids: Ids, device: Device, alive: Alive) -> Answer:
    """One batch of prompts (int64, batch × length, on the host) answered as the model's `generation_config` says."""
    import torch
    from transformers import StoppingCriteriaList

    hf_device.synchronize(device)
    began_s = time.perf_counter()
    prompts = torch.from_numpy(ids).to(device)
    first = FirstToken(alive)
    found = model.generate(prompts, attention_mask=torch.ones_like(prompts), stopping_criteria=StoppingCriteriaList([first]))
    held = found.cpu().numpy()
    return Answer(held, ids.shape[1], began_s, first.known_s, time.perf_counter())


class FirstToken:
    """A stopping criterion of transformers that never stops, and notes in `known_s` when the first tokens were on the host."""

    def __init__(self, alive: Alive) -> None:
        self._alive = alive
        self._tokens = 0
        self._never: Any = None
        self.known_s = 0.0

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Called after each token with all ids so far (batch × length): for each sequence, whether it is done."""
        self._tokens += 1
        if self._never is None:
            input_ids[:, -1].tolist()  # copies to the host, and so waits for the device
            self.known_s = time.perf_counter()
            self._never = input_ids.new_zeros(input_ids.shape[0]).bool()
        self._alive(f"token {self._tokens}")
        return self._never
