"""Training through unsloth's own `MLXTrainer`, watched through its callbacks and its batch plan.

In: a model and a tokenizer as unsloth gave them, a cell, token batches and a session. Out: one `SeenStep` a step, told to the
session, and the framework's peaks.

Equal work: unsloth's loss feeds all ids but the last. So a sequence of L ids is handed over with a dummy id behind it whose
label is ignored: L positions go forward and L - 1 are scored, as elsewhere. Off or at zero is what unsloth sets by itself and
others do not: clipping by leaf, weight decay, warm-up, a falling rate, shuffling and an end mark on every sequence.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.backends.hf_watch import IGNORED_LABEL
from bench.backends.interface import SeenStep, Session, UnsupportedError
from bench.backends.mlx_feed import DUMMY_ID
from bench.backends.mlx_train import compile_s, compiling
from bench.backends.unsloth_folder import replaced
from bench.data import Batches, Ids, TokenDigest
from bench.events import Counters
from bench.spec import Cell, Dtype

HandOver = Callable[..., Any]


def train(model: Any, tokenizer: Any, cell: Cell, batches: Batches, session: Session) -> Counters:
    """Train until the session has seen enough; the model keeps its trained weights. Raises what unsloth raises."""
    import mlx.core as mx
    from unsloth_zoo.mlx.trainer import MLXTrainer, MLXTrainingConfig

    watch = Watch(session, model, cell.workload.trainable_dtype)
    with (
        TemporaryDirectory(prefix="wingspan-unsloth-") as folder,
        compiling(cell.implementation.compile),
        watch.feed.watching(),
        _norms_as_declared(cell),
    ):
        trainer = MLXTrainer(
            model=model,
            tokenizer=tokenizer,
            train_dataset=rows(batches, session.max_steps * cell.workload.gradient_accumulation),
            args=MLXTrainingConfig(**settings(cell, session.max_steps, folder)),
            callbacks=[watch.callback()],
        )
        with suppress(_EarlyExitError):
            trainer.train()
    return Counters(
        framework_peak_bytes=mx.get_peak_memory(),
        cache_peak_bytes=watch.cache_peak_bytes,
        compile_s=compile_s(cell.implementation.compile),
    )


@contextmanager
def _norms_as_declared(cell: Cell) -> Iterator[None]:
    """Keep unsloth from training the norms of a 16-bit model in float32, which moves its loss by a tenth in twenty steps.

    Where they are frozen, beside adapters, it may hold them as it likes: nothing of what is declared depends on it.
    """
    from unsloth_zoo.mlx import loader

    if cell.workload.method != "full":
        yield
        return
    with replaced(loader, "_keep_norm_parameters_float32", lambda model: None):
        yield


def settings(cell: Cell, max_steps: int, folder: str) -> dict[str, Any]:
    """Keywords of unsloth's `MLXTrainingConfig` for the cell's work."""
    work = cell.workload
    return {
        "output_dir": folder,
        "max_steps": max_steps,
        "per_device_train_batch_size": work.batch_size,
        "gradient_accumulation_steps": work.gradient_accumulation,
        "max_seq_length": work.sequence_length + 1,
        "learning_rate": work.learning_rate,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "optim": work.optimizer,
        "weight_decay": 0.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "max_grad_norm": 0.0,
        "max_grad_leaf_norm": 0.0,  # explicit zero: without it unsloth clips every leaf to a norm of 1
        "gradient_checkpointing": work.gradient_checkpointing,
        "compile": cell.implementation.compile is not False,
        "compile_auto_tune": False,  # it may switch checkpointing on by itself
        "dataset_order": "sequential",
        "append_eos": False,
        "packing": False,
        "logging_steps": 1,
        "save_steps": 0,
        "seed": work.seed,
        "report_to": "none",
    }


def rows(batches: Batches, micro_batches: int) -> list[dict[str, list[int]]]:
    """The sequences of the first micro-batches, in order: L + 1 ids, and their labels, of which the dummy's is ignored."""
    sequences = (row.tolist() for index in range(micro_batches) for row in batches.ids(index))
    return [{"input_ids": [*row, DUMMY_ID], "labels": [*row, IGNORED_LABEL]} for row in sequences]


def as_given(ids: Ids, labels: Ids) -> tuple[Ids, NDArray[np.uint8]]:
    """What a batch in unsloth's form means: the ids that go forward, and the 0/1 mask of those that are scored.

    Raises ValueError where the dummy were scored, or an id scored against another one.
    """
    scored = labels != IGNORED_LABEL
    scored[:, 0] = False
    if scored[:, -1].any():
        raise ValueError("the dummy id behind a sequence would enter the loss")
    if (labels[scored] != ids[scored]).any():
        raise ValueError("unsloth was to score another id than the next one")
    return ids[:, :-1], scored[:, :-1].astype(np.uint8)


def require_trained(model: Any, declared: Dtype) -> None:
    """Everything that trains is in the declared dtype. Raises UnsupportedError."""
    from mlx.utils import tree_flatten

    found = {str(value.dtype).removeprefix("mlx.core.") for _, value in tree_flatten(model.trainable_parameters())}
    if found - {declared}:
        raise UnsupportedError(f"unsloth trains {', '.join(sorted(found))} where {declared} is declared")


class Feed:
    """An account of the micro-batches as unsloth's loop takes them from its plan."""

    def __init__(self) -> None:
        self._digest, self._tokens = TokenDigest(), 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look on at the last station of a batch before the step function, where it has its final shape."""
        from unsloth_zoo.mlx.utils import FiniteTextBatchPlan

        station: HandOver = FiniteTextBatchPlan.prepare_cce_batch

        def watched(plan: Any, index: int, batch: Any) -> Any:
            handed = station(plan, index, batch)
            self.add(np.array(handed[0]), np.array(handed[2]))
            return handed

        with replaced(FiniteTextBatchPlan, "prepare_cce_batch", watched):
            yield

    def add(self, ids: Ids, labels: Ids) -> None:
        forward, scored = as_given(ids, labels)
        self._digest.add(forward, scored)
        self._tokens += forward.size

    def handed_over(self) -> tuple[int, str]:
        """Tokens and digest since the last call."""
        seen = self._tokens, self._digest.hexdigest()
        self._digest, self._tokens = TokenDigest(), 0
        return seen


@dataclass
class Watch:
    """unsloth's callbacks: a step ends once everything of it is evaluated; its loss is told right after."""

    session: Session
    model: Any
    declared: Dtype
    feed: Feed = field(default_factory=Feed)
    cache_peak_bytes: int = 0
    _ends_s: deque[float] = field(default_factory=lambda: deque(maxlen=2))
    _began_s: float = 0.0
    _loss_tokens: int = 0

    def callback(self) -> Any:
        """What `MLXTrainer` calls by name, as it does transformers' callbacks; it passes over what is not there."""
        return SimpleNamespace(on_train_begin=self.train_begins, on_step_end=self.step_ended, on_log=self.loss_told)

    def train_begins(self, *_: Any, **__: Any) -> None:
        import mlx.core as mx

        require_trained(self.model, self.declared)
        mx.synchronize()
        mx.reset_peak_memory()
        self._began_s = time.perf_counter()
        self._ends_s.append(self._began_s)

    def step_ended(self, *_: Any, **__: Any) -> None:
        import mlx.core as mx

        mx.synchronize()
        self._ends_s.append(time.perf_counter())
        self.cache_peak_bytes = max(self.cache_peak_bytes, mx.get_cache_memory())

    def loss_told(self, _args: Any, state: Any, _control: Any, *, logs: Mapping[str, Any], **__: Any) -> None:
        """Hand the step over; leave unsloth's loop once the session has enough, before it writes the weights to disk."""
        import mlx.core as mx

        if "loss" not in logs:
            return
        before_s, end_s = self._ends_s
        tokens, digest = self.feed.handed_over()
        loss_tokens, self._loss_tokens = int(logs["trained_tokens"]) - self._loss_tokens, int(logs["trained_tokens"])
        seen = SeenStep(
            step=state.global_step,
            start_s=before_s - self._began_s,
            duration_s=end_s - before_s,
            tokens=tokens,
            loss_tokens=loss_tokens,
            loss=float(logs["loss"]),
            framework_peak_bytes=mx.get_peak_memory(),
            tokens_digest=digest,
        )
        if not self.session.step(seen) or state.global_step == self.session.max_steps:
            raise _EarlyExitError


class _EarlyExitError(Exception):
    """The session has seen enough: the way out of unsloth's loop."""
