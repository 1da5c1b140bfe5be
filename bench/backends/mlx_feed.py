"""The harness's token batches in mlx-lm's form, and an account of what was really handed over.

In: `Batches`. Out: the (ids, lengths) pairs that mlx-lm's trainer takes from `iterate_batches`, and their digest.

Equal work: mlx-lm feeds all ids but the last and scores all but the first. So a sequence of L ids is handed over with a dummy
id behind it, and `lengths` ends the loss one position early: L positions go forward and L - 1 are scored, as elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from bench.data import Batches, Ids, TokenDigest

DUMMY_ID = 0


class Feed:
    """mlx-lm's `iterate_batches`: yields micro-batch after micro-batch and keeps count of what it handed over."""

    def __init__(self) -> None:
        self._digest = TokenDigest()
        self._tokens = 0

    def __call__(self, dataset: Batches, **_: Any) -> Iterator[tuple[Any, Any]]:
        """Endless (ids, lengths): int32 of shapes (batch_size, sequence_length + 1) and (batch_size, 2)."""
        import mlx.core as mx

        for index in count():
            ids, lengths = (mx.array(given) for given in padded(dataset.ids(index)))
            forward, scored = as_given(np.array(ids), np.array(lengths))
            self._digest.add(forward, scored)
            self._tokens += forward.size
            yield ids, lengths

    def handed_over(self) -> tuple[int, str]:
        """Tokens and digest since the last call."""
        seen = self._tokens, self._digest.hexdigest()
        self._tokens, self._digest = 0, TokenDigest()
        return seen


def padded(ids: Ids) -> tuple[Ids, Ids]:
    """What mlx-lm has to be given so that it feeds exactly `ids` and scores each but the first: ids and lengths.

    `lengths` holds the first and the last position whose id is scored. mlx-lm's own batches end it at the number of ids,
    one further; here that would be the dummy.
    """
    rows, width = ids.shape
    dummy = np.full((rows, 1), DUMMY_ID)
    return (
        np.concatenate([ids, dummy], axis=1).astype(np.int32),
        np.tile(np.array([[1, width - 1]], np.int32), (rows, 1)),
    )


def as_given(ids: Ids, lengths: Ids) -> tuple[Ids, Any]:
    """What a batch in mlx-lm's form means: the ids that go forward and the 0/1 mask of those that are scored.

    Follows `mlx_lm.tuner.trainer.default_loss`. Raises ValueError if the last id, which never goes forward, were scored.
    """
    position = np.arange(ids.shape[1])
    scored = (position >= 1) & (position >= lengths[:, :1]) & (position <= lengths[:, 1:])
    if scored[:, -1].any():
        raise ValueError("the dummy id behind a sequence would enter the loss")
    return ids[:, :-1], scored[:, :-1].astype(np.uint8)
