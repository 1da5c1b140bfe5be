import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.data import RESERVED_IDS, Batches, TokenDigest, loss_mask


def batches(**changes) -> Batches:
    return Batches(**{"vocabulary": 512, "batch_size": 2, "sequence_length": 8, **changes})


def test_the_first_batch_is_what_it_was():
    """The ids belong to the results: another generator would make old and new runs incomparable."""
    assert batches().ids(0)[0].tolist() == [435, 327, 263, 140, 159, 23, 41, 11]


@settings(deadline=None)
@given(st.integers(RESERVED_IDS + 1, 200_000), st.integers(0, 2**32 - 1), st.integers(0, 1000))
def test_ids_lie_within_the_vocabulary_and_leave_the_reserved_ones_out(vocabulary, seed, index):
    ids = batches(vocabulary=vocabulary, seed=seed).ids(index)
    assert (ids.shape, ids.dtype) == ((2, 8), np.int64)
    assert RESERVED_IDS <= ids.min() <= ids.max() < vocabulary


def test_any_batch_can_be_made_without_those_before_it():
    series = iter(batches())
    made = [next(series) for _ in range(4)]
    np.testing.assert_array_equal(made[3], batches().ids(3))
    assert not np.array_equal(made[0], made[1])
    assert not np.array_equal(batches(seed=1).ids(0), made[0])


def test_a_repeated_series_starts_again():
    series = batches(repeat_every=2)
    np.testing.assert_array_equal(series.ids(0), series.ids(2))
    assert not np.array_equal(series.ids(0), series.ids(1))


def test_a_vocabulary_of_reserved_ids_alone_is_refused():
    with pytest.raises(ValueError, match="a vocabulary of 3 leaves no ids"):
        batches(vocabulary=RESERVED_IDS).ids(0)


def test_the_mask_leaves_out_the_first_position():
    assert loss_mask(batches().ids(0)).tolist() == [[0] + [1] * 7] * 2


def test_the_digest_is_that_of_what_a_framework_received():
    series = batches()
    seen = TokenDigest()
    for index in (2, 3):
        ids = series.ids(index).astype(np.int32)  # as MLX has them
        seen.add(ids, np.ones((2, 8)) * loss_mask(ids))
    assert seen.hexdigest() == series.digest(first=2, count=2)


@pytest.mark.parametrize("change", ["id", "mask", "order", "shape"])
def test_the_digest_tells_any_difference(change):
    series = batches()
    seen = TokenDigest()
    first, second = series.ids(0), series.ids(1)
    masks = [loss_mask(first), loss_mask(second)]
    if change == "id":
        first = first + (np.arange(16).reshape(2, 8) == 5)
    if change == "mask":
        masks[0][0, 0] = 1
    if change == "order":
        first, second = second, first
    if change == "shape":
        first, masks[0] = first.reshape(4, 4), masks[0].reshape(4, 4)
    seen.add(first, masks[0])
    seen.add(second, masks[1])
    assert seen.hexdigest() != series.digest(0, 2)
