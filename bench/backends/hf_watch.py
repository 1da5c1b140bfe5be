"""What is seen while trl trains: the batches that it really collates, and the time of each step.

In: trl's own data collator and callbacks. Out: per optimizer step a `SeenStep`, told to the session. Nothing here touches
the device between two ends of steps, so watching adds no synchronisation.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.backends import hf_device
from bench.backends.hf_parts import Further
from bench.backends.interface import SeenStep, Session
from bench.data import TokenDigest
from bench.spec import Device

IGNORED_LABEL = -100
"""The label of a position that stays out of the loss, in torch, transformers and trl alike."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The tokens of one optimizer step, as they were collated."""

    tokens: int
    loss_tokens: int
    digest: str


class Feed:
    """A data collator that lets trl's own do the work and keeps account of what came out.

    It sees the micro-batches on the host, before they go to the device, in the order in which the trainer takes them; the
    loader may be ahead of the step that is being trained, so finished accounts wait in a queue.
    """

    def __init__(self, collate: Callable[[Any], Any], micro_batches: int) -> None:
        self._collate = collate
        self._micro_batches = micro_batches
        self._open: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
        self._finished: deque[Fed] = deque()

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> Any:
        batch = self._collate(examples)
        self._open.append((batch["input_ids"].numpy(), targets(batch["labels"].numpy())))
        if len(self._open) == self._micro_batches:
            self._finished.append(_account(self._open))
            self._open = []
        return batch

    def take(self) -> Fed:
        """The account of the oldest optimizer step that has not been taken. Raises IndexError if there is none."""
        return self._finished.popleft()


def targets(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a position's id is predicted from those before it: a labelled position that is not the first."""
    mask = np.not_equal(labels, IGNORED_LABEL)
    mask[:, 0] = False
    return mask


def _account(micro_batches: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> Fed:
    digest = TokenDigest()
    for ids, mask in micro_batches:
        digest.add(ids, mask)
    return Fed(
        tokens=sum(ids.size for ids, _ in micro_batches),
        loss_tokens=sum(int(mask.sum()) for _, mask in micro_batches),
        digest=digest.hexdigest(),
    )


class Watch:
    """The clock of a training: from the synchronised end of one step to that of the next.

    The trainer ends a step first (`step_ended`) and tells its loss after that (`loss_told`), which is when the step is
    handed to the session; the time this takes belongs to the step that follows.
    """

    def __init__(self, device: Device, feed: Feed, session: Session) -> None:
        self._device = device
        self._feed = feed
        self._session = session
        self._origin_s = self._before_s = self._ended_s = 0.0
        self._peak_bytes: int | None = None

    def training_begins(self) -> None:
        hf_device.synchronize(self._device)
        hf_device.start_counting(self._device)
        self._origin_s = self._ended_s = time.perf_counter()

    def step_ended(self) -> None:
        hf_device.synchronize(self._device)
        self._before_s, self._ended_s = self._ended_s, time.perf_counter()
        self._peak_bytes = hf_device.counters(self._device).framework_peak_bytes

    def loss_told(self, step: int, loss: float) -> bool:
        """Hand the step to the session. False: stop training."""
        fed = self._feed.take()
        return self._session.step(
            SeenStep(
                step=step,
                start_s=self._before_s - self._origin_s,
                duration_s=self._ended_s - self._before_s,
                tokens=fed.tokens,
                loss_tokens=fed.loss_tokens,
                loss=loss,
                framework_peak_bytes=self._peak_bytes,
                tokens_digest=fed.digest,
            )
        )


def as_callback(watch: Watch, begin: Callable[[], None], further: Further | None = None) -> Any:
    """A `transformers.TrainerCallback` that drives the watch; `begin` is called once all is in place, before the clock starts.

    `further` makes one more step of it once enough were measured, or the last but one of the trainer's steps is over.
    """
    from transformers import TrainerCallback

    def on_train_begin(args: Any, state: Any, control: Any, **_: Any) -> None:
        begin()
        watch.training_begins()

    def on_step_end(args: Any, state: Any, control: Any, **_: Any) -> None:
        if further is None or not further.under_way:
            watch.step_ended()
        else:
            further.end()
            control.should_training_stop = True

    def on_log(args: Any, state: Any, control: Any, logs: Mapping[str, float], **_: Any) -> None:
        # The summary at the end of training carries no "loss".
        if "loss" not in logs or (further is not None and further.over):
            return
        goes_on = watch.loss_told(state.global_step, logs["loss"])
        if further is not None and (not goes_on or state.global_step == state.max_steps - 1):
            goes_on = further.begin()
        if not goes_on:
            control.should_training_stop = True

    callback = TrainerCallback()
    callback.on_train_begin, callback.on_step_end, callback.on_log = on_train_begin, on_step_end, on_log
    return callback
