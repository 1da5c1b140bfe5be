"""The same token batches for every backend.

In: a workload's seed, vocabulary and shape. Out: integer arrays of token ids, made here and nowhere else, and a digest of
any ids and mask, so that what a framework was really given can be compared with what was made.

Ids are uniform over the vocabulary less the first `RESERVED_IDS` (padding, end, unknown). Every position is real: no
padding. The mask is 1 where the position's id is predicted from those before it, so the first position of a sequence is 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESERVED_IDS = 3

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batches:
    """An endless, seeded series of micro-batches of shape (batch_size, sequence_length).

    `repeat_every` n makes the series start again after n micro-batches (None: never): with 1, one batch is learnt by heart,
    which is how the parity test makes a loss fall.
    """

    vocabulary: int
    batch_size: int
    sequence_length: int
    seed: int = 0
    repeat_every: int | None = None

    def ids(self, index: int) -> Ids:
        """Token ids of micro-batch `index` (from 0): int64, (batch_size, sequence_length), the same on every machine.

        Each micro-batch has a generator of its own (PCG64 seeded by [seed, index]), so that any one can be made without
        those before it. Raises ValueError where the vocabulary holds nothing beside the reserved ids.
        """
        if self.vocabulary <= RESERVED_IDS:
            raise ValueError(f"a vocabulary of {self.vocabulary} leaves no ids beside the {RESERVED_IDS} reserved ones")
        position = index if self.repeat_every is None else index % self.repeat_every
        generator = np.random.Generator(np.random.PCG64([self.seed, position]))
        shape = (self.batch_size, self.sequence_length)
        return generator.integers(RESERVED_IDS, self.vocabulary, shape, dtype=np.int64)

    def __iter__(self) -> Iterator[Ids]:
        index = 0
        while True:
            yield self.ids(index)
            index += 1

    def digest(self, first: int, count: int) -> str:
        """The digest that micro-batches `first` … `first + count - 1` must have when a framework receives them."""
        seen = TokenDigest()
        for index in range(first, first + count):
            ids = self.ids(index)
            seen.add(ids, loss_mask(ids))
        return seen.hexdigest()


def loss_mask(ids: Ids) -> NDArray[np.uint8]:
    """The mask of an unpadded batch: 1 where the id is a target of the loss, shape of `ids`."""
    mask = np.ones(ids.shape, np.uint8)
    mask[:, 0] = 0
    return mask


class TokenDigest:
    """A running digest over (ids, mask) pairs, as frameworks receive them."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, ids: ArrayLike, mask: ArrayLike) -> None:
        """Take in one micro-batch: integer ids and a 0/1 mask, both (batch_size, sequence_length)."""
        canonical = np.ascontiguousarray(ids, dtype="<i8")
        self._hash.update(repr(canonical.shape).encode())
        self._hash.update(canonical.tobytes())
        self._hash.update(np.ascontiguousarray(mask, dtype="u1").tobytes())

    def hexdigest(self) -> str:
        """16 hex digits."""
        return self._hash.hexdigest()
