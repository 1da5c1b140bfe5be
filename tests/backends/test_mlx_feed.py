"""Equal work: what mlx-lm is given goes forward and is scored as on every other stack."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from bench.backends import mlx_feed
from bench.backends.mlx_feed import Feed, as_given, padded
from bench.data import Batches, loss_mask

os.environ["MLX_DISABLE_COMPILE"] = "1"  # g++ compiles for half a minute when cold


def tiny_model() -> Any:
    import mlx.core as mx
    from mlx_lm.models.llama import Model, ModelArgs

    mx.set_default_device(mx.cpu)
    mx.random.seed(0)
    return Model(ModelArgs("llama", 64, 2, 192, 4, 1e-5, 512, tie_word_embeddings=False))


def by_hand(model: Any, ids: Any) -> float:
    """Mean negative log likelihood of ids 1 … L - 1, the model having seen exactly L positions."""
    import mlx.core as mx

    logits = np.array(model(mx.array(ids)).astype(mx.float32), dtype=np.float64)
    assert logits.shape[:2] == ids.shape
    shifted = logits[:, :-1] - logits[:, :-1].max(-1, keepdims=True)
    chosen = np.take_along_axis(shifted, ids[:, 1:, None], -1)[..., 0]
    return float((np.log(np.exp(shifted).sum(-1)) - chosen).mean())


def test_mlx_lms_loss_sees_the_same_positions_and_targets() -> None:
    import mlx.core as mx
    from mlx_lm.tuner.trainer import default_loss

    model = tiny_model()
    ids = Batches(512, 3, 11, 5).ids(0)
    seen: list[tuple[int, ...]] = []

    def watched(inputs: Any) -> Any:
        seen.append(inputs.shape)
        return model(inputs)

    loss, scored = default_loss(watched, *(mx.array(given) for given in padded(ids)))
    assert seen == [(3, 11)]
    assert scored.item() == 3 * 10
    assert loss.item() == pytest.approx(by_hand(model, ids), rel=1e-5)


def test_the_dummy_id_never_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx
    from mlx_lm.tuner.trainer import default_loss

    model = tiny_model()
    ids = Batches(512, 2, 10, 5).ids(0)
    losses = []
    for dummy in (0, 511):
        monkeypatch.setattr(mlx_feed, "DUMMY_ID", dummy)
        given, lengths = padded(ids)
        assert (given[:, -1] == dummy).all()
        losses.append(default_loss(model, mx.array(given), mx.array(lengths))[0].item())
    assert losses[0] == losses[1]


def test_the_mask_is_read_off_what_was_given() -> None:
    ids = Batches(512, 2, 10, 5).ids(0)
    given, lengths = padded(ids)
    forward, mask = as_given(given, lengths)
    assert np.array_equal(forward, ids)
    assert np.array_equal(mask, loss_mask(ids))
    one = np.array([[0, 1]])
    assert as_given(given, lengths - one)[1].sum() == mask.sum() - 2
    with pytest.raises(ValueError, match="dummy"):
        as_given(given, lengths + one)


def test_the_feed_tells_what_it_handed_over() -> None:
    batches = Batches(512, 2, 10, 5)
    feed = Feed()
    stream = feed(dataset=batches, batch_size=2, max_seq_length=11, loop=True, comm_group=None)
    for first in (0, 2):
        next(stream)
        next(stream)
        assert feed.handed_over() == (40, batches.digest(first, 2))
