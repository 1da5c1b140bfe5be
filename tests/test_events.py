"""Events survive the pipe, and what is none is refused."""

import json

import pytest

from bench.events import Counters, Event, Failed, Finished, Loaded, Progress, Started, event_from_line, event_to_json
from bench.record import Step

STEP = Step(
    step=1, phase="warmup", start_s=0.0, duration_s=0.5, tokens=16, loss_tokens=14, loss=6.2, tokens_digest="ab",
    framework_peak_bytes=None,
)  # fmt: skip
EVENTS: list[Event] = [
    Started(import_s=1.5, versions={"torch": "2.13.0"}),
    Progress(what="block 3 of 80"),
    Loaded(load_s=2.0, parameters=10, trainable_parameters=0, implementation={"attention": "sdpa"}),
    STEP,
    Finished(counters=Counters(framework_peak_bytes=0), host_peak_bytes=None),
    Failed(outcome="oom_host", reason="no room"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_survive_the_pipe(event: Event) -> None:
    assert event_from_line(json.dumps(event_to_json(event))) == event


NONSENSE = {
    "an empty object": "{}",
    "no object": "3",
    "not JSON": "hello",
    "an unknown kind": '{"event": "Nonsense"}',
    "a missing field": '{"event": "Progress"}',
    "a field too many": '{"event": "Progress", "what": "x", "y": 1}',
    "a number as text": json.dumps({**event_to_json(STEP), "duration_s": "0.5"}),
    "an unknown outcome": '{"event": "Failed", "outcome": "banana", "reason": "x"}',
    "an unknown phase": json.dumps({**event_to_json(STEP), "phase": "rest"}),
    "a fraction of a byte": '{"event": "Finished", "peaks": {"framework_peak_bytes": 1.5}, "host_peak_bytes": null}',
    "a deep hole": "[" * 100_000,
}


@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE.keys())
def test_what_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        event_from_line(line)


def test_a_loss_that_is_no_number_still_arrives() -> None:
    event = event_from_line(json.dumps({**event_to_json(STEP), "loss": float("nan")}))
    assert isinstance(event, Step)
    assert event.loss != event.loss


def test_zero_and_none_stay_apart_on_the_pipe() -> None:
    finished = event_from_line(json.dumps(event_to_json(EVENTS[4])))
    assert isinstance(finished, Finished)
    assert finished.counters.framework_peak_bytes == 0
    assert finished.counters.cache_peak_bytes is None
