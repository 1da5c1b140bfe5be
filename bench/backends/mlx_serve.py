"""Serving by mlx-lm's own loops: `generate_step` for one sequence, `BatchGenerator` for several; greedy, none stopped early.

In: a built model, a cell, prompts and a session. Out: one `SeenRequest` for each batch of requests, told to the session, and the
framework's peaks.

Both loops hand a token to the host while the next one is being computed already, as for every user. So the first token is known
when the loop first gives it out, and the moment of the last is that of the last token asked for; by then mlx-lm has begun one
token more than that, which is waited for before the next batch begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from bench.backends import mlx_train
from bench.backends.interface import Session
from bench.backends.serving import Answer, seen_request
from bench.data import Batches, Ids
from bench.events import Counters
from bench.spec import Cell

Alive = Callable[[str], None]


def serve(model: Any, cell: Cell, batches: Batches, session: Session) -> Counters:
    """Answer batch after batch of prompts until the session has enough. Raises what mlx-lm raises.

    `cache_peak_bytes` is the largest cache of MLX's allocator that stood at the end of a batch: mlx-lm empties it after each part
    of a prefill and after every 256 tokens.
    """
    import mlx.core as mx
    from mlx_lm.generate import wired_limit

    wanted, cache_bytes = int(cell.workload.generated_tokens or 0), 0
    stream = mx.new_stream(mx.default_device())
    with mlx_train.compiling(cell.implementation.compile), wired_limit(model, [stream]):
        mx.synchronize()
        mx.clear_cache()
        mx.reset_peak_memory()
        origin_s = time.perf_counter()
        for number in range(1, session.max_steps + 1):
            answered = answer(model, batches.ids(number - 1), wanted, stream, session.progress)
            cache_bytes = max(cache_bytes, mx.get_cache_memory())
            if not session.request(seen_request(answered, number, origin_s=origin_s, peak_bytes=mx.get_peak_memory())):
                break
        mx.synchronize(stream)
    return Counters(
        framework_peak_bytes=mx.get_peak_memory(),
        cache_peak_bytes=cache_bytes,
        compile_s=mlx_train.compile_s(cell.implementation.compile),
    )


def implementation(model: Any, cell: Cell) -> dict[str, str]:
    """How the cell is served, for the record, beside what it shares with training."""
    from mlx_lm.models.cache import make_prompt_cache

    caches, several = make_prompt_cache(model), cell.workload.batch_size > 1
    kinds = sorted({type(cache.merge([cache, cache]) if several else cache).__name__ for cache in caches})
    loop = "BatchGenerator, all sequences prefilled together" if several else "generate_step"
    return {
        "loop": f"mlx_lm {loop}, greedy, never stopped early",
        "cache": f"{', '.join(kinds)} in {cell.workload.weights_dtype}",
        "buffer_cache": "emptied after each part of a prefill and every 256 (one sequence) or 512 tokens",
    }


def answer(model: Any, ids: Ids, wanted: int, stream: Any, alive: Alive) -> Answer:
    """One batch of prompts (int64, batch × length, on the host), each answered by exactly `wanted` tokens."""
    import mlx.core as mx

    mx.synchronize(stream)
    return (_one if len(ids) == 1 else _several)(model, ids, wanted, stream, alive)


def _one(model: Any, ids: Ids, wanted: int, stream: Any, alive: Alive) -> Answer:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    began_s = time.perf_counter()
    prompt = mx.array(ids[0].astype(np.int32))
    tokens, moments_s = [], []
    for token, _ in generate_step(prompt, model, stream, max_tokens=wanted):
        moments_s.append(time.perf_counter())
        tokens.append(token)
        alive(f"token {len(tokens)}")
    held = np.concatenate([np.array(prompt), tokens]).astype(np.int64)[None]
    return Answer(held, ids.shape[1], began_s, moments_s[0], moments_s[-1])


def _several(model: Any, ids: Ids, wanted: int, stream: Any, alive: Alive) -> Answer:
    """mlx-lm's own limits, 8 sequences prefilled and 32 decoded at a time, are raised to the batch: it is one batch."""
    from mlx_lm.generate import BatchGenerator

    began_s, rows = time.perf_counter(), len(ids)
    held: dict[int, list[int]] = {}
    moments_s: list[float] = []
    generator = BatchGenerator(model, max_tokens=wanted, prefill_batch_size=rows, completion_batch_size=rows, stream=stream)
    with closing(generator):
        numbers = generator.insert(ids.tolist())
        while len(held) < rows:
            responses = generator.next_generated()
            moments_s.append(time.perf_counter())
            held |= {each.uid: each.all_tokens for each in responses if each.finish_reason is not None}
            alive(f"token {len(moments_s)}")
    return Answer(np.array([held[number] for number in numbers]), ids.shape[1], began_s, moments_s[0], moments_s[-1])
