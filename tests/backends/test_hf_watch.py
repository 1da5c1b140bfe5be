"""Watching trl: batches accounted for as collated, steps timed from end to end, the word of the session obeyed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench.backends import hf_watch
from bench.backends.hf_watch import Feed, Watch, as_callback, targets
from bench.data import Batches, TokenDigest, loss_mask
from bench.events import Counters

BATCHES = Batches(512, 2, 8)


def collate(rows: Sequence[Any]) -> dict[str, Any]:
    ids = torch.tensor(np.stack(rows))
    return {"input_ids": ids, "labels": ids.clone()}


def test_accounts_for_each_optimizer_step_over_its_micro_batches() -> None:
    feed = Feed(collate, micro_batches=2)
    for index in range(5):  # the loader is ahead of the steps, and in the middle of the third
        feed(BATCHES.ids(index))
    first, second = feed.take(), feed.take()
    assert (first.tokens, first.loss_tokens) == (32, 28)
    assert (first.digest, second.digest) == (BATCHES.digest(0, 2), BATCHES.digest(2, 2))
    with pytest.raises(IndexError):
        feed.take()


def test_hands_on_exactly_what_was_collated() -> None:
    made: list[Any] = []

    def keep(rows: Any) -> Any:
        made.append(collate(rows))
        return made[0]

    assert Feed(keep, 1)(BATCHES.ids(0)) is made[0]
    assert torch.equal(made[0]["labels"], torch.tensor(BATCHES.ids(0)))


def test_sees_padding_other_ids_and_another_order() -> None:
    ids = BATCHES.ids(0)

    def padded(rows: Any) -> dict[str, Any]:
        batch = collate(rows)
        batch["labels"][:, -3:] = -100
        return batch

    feeds = [Feed(padded, 1), Feed(lambda rows: collate(rows[::-1]), 1), Feed(lambda rows: collate(rows + 1), 1)]
    seen = []
    for feed in feeds:
        feed(ids)
        seen.append(feed.take())
    assert seen[0].loss_tokens == 2 * 4
    assert len({BATCHES.digest(0, 1), *(fed.digest for fed in seen)}) == 4


def test_the_mask_is_canonical() -> None:
    ids = BATCHES.ids(3)
    assert np.array_equal(targets(ids), loss_mask(ids))
    mine, canonical = TokenDigest(), TokenDigest()
    mine.add(ids, targets(ids))
    canonical.add(ids, loss_mask(ids))
    assert mine.hexdigest() == canonical.hexdigest()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A clock that a wait for the device moves on by 3 s and a reading by 1 s; what was done, in order."""
    done: list[str] = []

    def read() -> float:
        done.append("clock")
        return sum({"wait": 3.0, "clock": 1.0}.get(each, 0.0) for each in done)

    monkeypatch.setattr(hf_watch, "time", SimpleNamespace(perf_counter=read))
    monkeypatch.setattr(hf_watch.hf_device, "synchronize", lambda device: done.append("wait"))
    monkeypatch.setattr(hf_watch.hf_device, "start_counting", lambda device: done.append("reset"))
    monkeypatch.setattr(hf_watch.hf_device, "counters", lambda device: Counters(framework_peak_bytes=9))
    return done


def test_a_step_lasts_from_one_synchronised_end_to_the_next(clock: list[str], hf_recorder: Any) -> None:
    session, feed = hf_recorder(enough=2), Feed(collate, 1)
    for index in range(3):
        feed(BATCHES.ids(index))
    watch = Watch("cuda", feed, session)
    callback = as_callback(watch, lambda: clock.append("loaded"))
    control = SimpleNamespace(should_training_stop=False)
    callback.on_train_begin(None, None, control)
    assert clock == ["loaded", "wait", "reset", "clock"]
    stops = []
    for number in (1, 2):
        state = SimpleNamespace(global_step=number)
        callback.on_step_end(None, state, control)
        callback.on_log(None, state, control, logs={"loss": 5.0 - number})
        stops.append(control.should_training_stop)
    callback.on_log(None, state, control, logs={"train_loss": 3.5})
    assert stops == [False, True]
    assert [(seen.step, seen.start_s, seen.duration_s, seen.loss) for seen in session.steps] == [(1, 0, 4, 4.0), (2, 4, 4, 3.0)]
    assert [seen.tokens_digest for seen in session.steps] == [BATCHES.digest(0, 1), BATCHES.digest(1, 1)]
    assert {seen.framework_peak_bytes for seen in session.steps} == {9}
