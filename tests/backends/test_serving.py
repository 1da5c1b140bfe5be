"""A batch of requests as it is told: times from the origin, totals over the batch, the prompts' digest."""

import numpy as np
import pytest

from bench.backends.serving import Answer, seen_request
from bench.data import Batches

BATCHES = Batches(512, 2, 6, seed=3)


def answer(ids: np.ndarray) -> Answer:
    generated = np.zeros((len(ids), 4), np.int64)
    return Answer(np.concatenate([ids, generated], axis=1), ids.shape[1], began_s=10.0, first_s=10.5, last_s=12.5)


def test_times_count_from_the_origin_and_tokens_over_the_batch() -> None:
    seen = seen_request(answer(BATCHES.ids(0)), 1, origin_s=9.0, peak_bytes=7)
    assert (seen.number, seen.start_s, seen.prefill_s, seen.decode_s) == (1, 1.0, 0.5, 2.0)
    assert (seen.prompt_tokens, seen.generated_tokens, seen.framework_peak_bytes) == (12, 8, 7)


def test_the_digest_is_that_of_the_prompts_as_made() -> None:
    seen = seen_request(answer(BATCHES.ids(4)), 5, origin_s=0.0, peak_bytes=None)
    assert seen.tokens_digest == BATCHES.digest(4, 1)


@pytest.mark.parametrize("change", [(0, 0, 1), (1, 5, -1)])
def test_one_other_token_is_another_digest(change: tuple[int, int, int]) -> None:
    row, column, difference = change
    ids = BATCHES.ids(0)
    ids[row, column] += difference
    assert seen_request(answer(ids), 1, origin_s=0.0, peak_bytes=None).tokens_digest != BATCHES.digest(0, 1)
