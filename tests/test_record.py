"""Events survive the pipe; the lists of outcomes are closed."""

import json
from datetime import date

import pytest

from bench.record import (
    FAILED_OUTCOMES,
    FINAL_OUTCOMES,
    OUTCOMES,
    Counters,
    Event,
    Failed,
    Finished,
    Loaded,
    Progress,
    Started,
    Step,
    begun_night,
    checked_night,
    event_from_line,
    event_to_json,
)
from bench.spec import BadInput

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


def test_every_outcome_is_final_or_failed_or_interrupted() -> None:
    assert set(OUTCOMES) == FINAL_OUTCOMES | FAILED_OUTCOMES | {"interrupted"}
    assert not FINAL_OUTCOMES & FAILED_OUTCOMES


@pytest.mark.parametrize("text", ["2026-11-30", "2024-02-29", "0001-01-01"])
def test_a_date_is_a_night(text: str) -> None:
    assert checked_night(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "tonight", "2026-11-31", "2026-02-29", "20261130", "2026-W49-1", "30.11.2026", "2026-11-30T02:15", " 2026-11-30"),
        *("2026-11-30\n", "２０２６-11-30", "../../2026-11-30", "-026-11-30"),
    ],
)
def test_what_is_no_date_in_full_is_no_night(text: str) -> None:
    with pytest.raises(BadInput, match="is no night: give the date on which it began, in UTC, such as 2026-11-30"):
        checked_night(text)


def test_a_night_can_have_begun_up_to_tomorrow() -> None:
    today = date(2026, 12, 31)
    assert [begun_night(text, today) for text in ("0001-01-01", "2027-01-01")] == ["0001-01-01", "2027-01-01"]
    with pytest.raises(BadInput, match="2027-01-02 is a night to come: give one up to 2027-01-01, or set this computer's clock"):
        begun_night("2027-01-02", today)
    with pytest.raises(BadInput, match="is no night"):
        begun_night("tonight", today)
