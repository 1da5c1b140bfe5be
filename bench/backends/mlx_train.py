"""Training through mlx-lm's own `train`, watched through its two hooks.

In: a built model, a cell, its token batches and a session. Out: one `SeenStep` a step, told to the session, and the
framework's peaks. mlx-lm takes its batches from `iterate_batches` and reports through `training_callback`; nothing of its
loop, loss or optimizer is replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bench.backends.interface import PartsSession, SeenStep, Session
from bench.backends.mlx_feed import Feed
from bench.data import Batches
from bench.events import Counters, Parts
from bench.spec import Cell, Workload


def train(model: Any, cell: Cell, batches: Batches, session: Session) -> Counters:
    """Train until the session has seen enough; the model keeps its trained weights.

    The layer class that mlx-lm patches for gradient checkpointing, and the switch for compilation, are put back at the end.
    Raises what mlx-lm raises.
    """
    import mlx.core as mx
    from mlx_lm.tuner.trainer import TrainingArgs
    from mlx_lm.tuner.trainer import train as mlx_lm_train

    workload = cell.workload
    micro_batches = workload.gradient_accumulation
    iterations = session.max_steps * micro_batches
    gauge = CacheGauge()
    args = TrainingArgs(
        batch_size=workload.batch_size,
        iters=iterations,
        steps_per_report=micro_batches,
        steps_per_save=iterations + 1,
        max_seq_length=workload.sequence_length + 1,
        grad_checkpoint=workload.gradient_checkpointing,
        grad_accumulation_steps=micro_batches,
        clear_cache_threshold=gauge,
    )
    feed = Feed()
    optimizer = make_optimizer(workload)
    with compiling(cell.implementation.compile), _layer_class_kept(model):
        mx.synchronize()
        mx.reset_peak_memory()
        watch = Watch(session, feed, began_s=time.perf_counter())
        with suppress(_EarlyExitError):
            mlx_lm_train(model, optimizer, batches, args=args, iterate_batches=feed, training_callback=watch)
    peak_bytes = mx.get_peak_memory()
    if isinstance(session, PartsSession):
        session.parts(parts(model, optimizer, peak_bytes, adapted=workload.has_adapters))
    return Counters(
        framework_peak_bytes=peak_bytes,
        cache_peak_bytes=gauge.peak_bytes,
        compile_s=compile_s(cell.implementation.compile),
    )


PARTS_HOW = "sizes of the arrays that stay; the rest of MLX's peak is what steps add to them"


def parts(model: Any, optimizer: Any, peak_bytes: int, *, adapted: bool) -> Parts:
    """What of MLX's peak the arrays have that live throughout, and the rest: gradients, activations and logits together.

    No tracker can follow a lazy graph: which of its arrays live at the peak is the scheduler's secret.
    """
    from mlx.utils import tree_flatten

    def sizes(tree: Any) -> int:
        return sum(array.nbytes for _, array in tree_flatten(tree) if hasattr(array, "nbytes"))

    trained_bytes = sizes(model.trainable_parameters())
    adapters_bytes = trained_bytes if adapted else 0
    kept = {
        "weights": sizes(model.parameters()) - adapters_bytes,
        "adapters": adapters_bytes,
        "optimizer": sizes(optimizer.state),
    }
    return Parts(parts={**kept, "rest": max(0, peak_bytes - sum(kept.values()))}, how=PARTS_HOW)


def make_optimizer(workload: Workload) -> Any:
    """The declared optimizer with torch's conventions: bias correction, betas 0.9 and 0.999, eps 1e-8, no weight decay."""
    import mlx.optimizers as optim

    if workload.optimizer == "sgd":
        return optim.SGD(workload.learning_rate)
    return optim.AdamW(workload.learning_rate, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.0, bias_correction=True)


def compile_choice(wanted: bool | None) -> str:
    """What `train` will do about `mx.compile`, in words for the record."""
    if wanted is None and _compile_is_off():
        return "none (MLX_DISABLE_COMPILE)"
    return "none" if wanted is False else "mx.compile"


def compile_s(wanted: bool | None) -> float | None:
    """Zero where nothing is compiled; else None, for MLX compiles within the first steps and keeps no account of it."""
    return None if compile_choice(wanted) == "mx.compile" else 0.0


@dataclass
class Watch:
    """mlx-lm's `training_callback`: each report ends one optimizer step, after mlx-lm has evaluated everything."""

    session: Session
    feed: Feed
    began_s: float
    _step: int = 0
    _end_s: float = field(init=False)
    _loss_tokens: int = 0

    def __post_init__(self) -> None:
        self._end_s = self.began_s

    def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
        """Tell the session; leave mlx-lm's loop once it has seen enough, before the final save writes the weights to disk."""
        import mlx.core as mx

        mx.synchronize()
        start_s, self._end_s = self._end_s, time.perf_counter()
        loss_tokens, self._loss_tokens = train_info["trained_tokens"] - self._loss_tokens, train_info["trained_tokens"]
        self._step += 1
        tokens, digest = self.feed.handed_over()
        seen = SeenStep(
            step=self._step,
            start_s=start_s - self.began_s,
            duration_s=self._end_s - start_s,
            tokens=tokens,
            loss_tokens=int(loss_tokens),
            loss=float(train_info["train_loss"]),
            framework_peak_bytes=mx.get_peak_memory(),
            tokens_digest=digest,
        )
        if not self.session.step(seen) or self._step == self.session.max_steps:
            raise _EarlyExitError


class CacheGauge(int):
    """mlx-lm's `clear_cache_threshold`, at its default of 0, noting the cache that it is compared with.

    After each micro-batch mlx-lm asks `mx.get_cache_memory() > threshold` and empties the cache. So the cache is only to be
    seen in that comparison; a step later it reads zero, though the machine had to hold it.
    """

    peak_bytes: int = 0

    def __lt__(self, cache_bytes: int) -> bool:
        self.peak_bytes = max(self.peak_bytes, cache_bytes)
        return int(self) < cache_bytes


class _EarlyExitError(Exception):
    """The session has seen enough: the way out of mlx-lm's loop."""


@contextmanager
def _layer_class_kept(model: Any) -> Iterator[None]:
    """Undo at the end what mlx-lm's `grad_checkpoint` does to the class of the blocks, which it patches for good."""
    block_class = type(model.layers[0])
    call = block_class.__call__
    try:
        yield
    finally:
        block_class.__call__ = call


@contextmanager
def compiling(wanted: bool | None) -> Iterator[None]:
    """Compile as wanted (None: as mlx-lm does, unless the environment says otherwise); as the environment says, afterwards."""
    if wanted is not None:
        _switch_compile(on=wanted)
    try:
        yield
    finally:
        _switch_compile(on=not _compile_is_off())


def _switch_compile(*, on: bool) -> None:
    import mlx.core as mx

    if on:
        mx.enable_compile()
    else:
        mx.disable_compile()


def _compile_is_off() -> bool:
    """MLX looks only at whether the variable is there, whatever its value."""
    return "MLX_DISABLE_COMPILE" in os.environ
