"""A limit kept by accounting: the run ends with what went over, and what went over is not told as done."""

from typing import Any

import pytest

from bench.accounting import Accounted
from bench.backends.interface import OverLimit, SeenRequest, SeenStep
from bench.events import Loaded

LOADED = Loaded(load_s=1.0, parameters=1, trainable_parameters=1, implementation={})


def step(number: int, peak_bytes: int | None) -> SeenStep:
    return SeenStep(
        step=number, start_s=0, duration_s=1, tokens=1, loss_tokens=1, loss=1.0,
        framework_peak_bytes=peak_bytes, tokens_digest="d",
    )  # fmt: skip


def request(number: int, peak_bytes: int | None) -> SeenRequest:
    return SeenRequest(
        number=number, start_s=0, prefill_s=1, decode_s=1, prompt_tokens=1, generated_tokens=1,
        framework_peak_bytes=peak_bytes, tokens_digest="d",
    )  # fmt: skip


class Heard:
    """A session that keeps what it is told."""

    max_steps = 7

    def __init__(self) -> None:
        self.told: list[Any] = []

    def progress(self, what: str) -> None:
        self.told.append(what)

    def loaded(self, loaded: Loaded) -> None:
        self.told.append(loaded)

    def step(self, seen: SeenStep) -> bool:
        self.told.append(seen)
        return seen.step < 2

    def request(self, seen: SeenRequest) -> bool:
        self.told.append(seen)
        return seen.number < 2


def test_below_the_limit_and_at_it_everything_is_passed_on() -> None:
    heard = Heard()
    session = Accounted(heard, 100, lambda: 100)
    session.progress("block 1")
    session.loaded(LOADED)
    assert [session.step(step(1, 100)), session.step(step(2, None)), session.request(request(1, 7))] == [True, False, True]
    assert session.max_steps == 7
    assert heard.told == ["block 1", LOADED, step(1, 100), step(2, None), request(1, 7)]


@pytest.mark.parametrize(
    ("tell", "when"),
    [
        (lambda session: session.progress("block 3"), "at block 3"),
        (lambda session: session.loaded(LOADED), "once the model stood"),
        (lambda session: session.step(step(3, None)), "in step 3"),
        (lambda session: session.request(request(2, None)), "in batch 2 of requests"),
    ],
)
def test_above_it_the_run_ends_with_the_figures(tell: Any, when: str) -> None:
    heard = Heard()
    with pytest.raises(OverLimit) as ended:
        tell(Accounted(heard, 1000, lambda: 1001))
    assert str(ended.value) == f"a peak of 1,001 bytes {when}, 1,000 allowed"
    assert heard.told == []


def test_a_backend_that_counts_only_in_its_steps_is_judged_by_them() -> None:
    heard = Heard()
    session = Accounted(heard, 1000)
    session.loaded(LOADED)
    session.step(step(1, None))
    with pytest.raises(OverLimit, match="1,001 bytes in step 2"):
        session.step(step(2, 1001))
    with pytest.raises(OverLimit, match="in batch 1"):
        session.request(request(1, 1001))
    assert heard.told == [LOADED, step(1, None)]
