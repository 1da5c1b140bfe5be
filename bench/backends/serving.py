"""One batch of requests, as every stack that serves tells of it.

In: the ids that a framework holds at the end of a batch of requests, prompts and what it generated behind them, and the moments
at which the batch began, its first tokens and its last ones were known on the host. Out: a `SeenRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.backends.interface import SeenRequest
from bench.data import Ids, TokenDigest, loss_mask


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one batch of prompts; moments are `time.perf_counter()`.

    `ids` has a row for each sequence: its prompt, `prompt_tokens` long, as the framework held it, then what was generated.
    """

    ids: Ids
    prompt_tokens: int
    began_s: float
    first_s: float
    last_s: float

    @property
    def prompts(self) -> Ids:
        return self.ids[:, : self.prompt_tokens]

    @property
    def generated(self) -> Ids:
        return self.ids[:, self.prompt_tokens :]


def seen_request(answer: Answer, number: int, *, origin_s: float, peak_bytes: int | None) -> SeenRequest:
    """The batch of requests `number` (from 1), its times counted from `origin_s`.

    Prompts are digested like a batch of training: nothing is padded, so the mask is that of an unpadded batch.
    """
    digest = TokenDigest()
    digest.add(answer.prompts, loss_mask(answer.prompts))
    return SeenRequest(
        number=number,
        start_s=answer.began_s - origin_s,
        prefill_s=answer.first_s - answer.began_s,
        decode_s=answer.last_s - answer.first_s,
        prompt_tokens=answer.prompts.size,
        generated_tokens=answer.generated.size,
        framework_peak_bytes=peak_bytes,
        tokens_digest=digest.hexdigest(),
    )
