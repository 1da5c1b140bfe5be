"""The lists of outcomes are closed; a night is a date."""

from datetime import date

import pytest

from bench.record import FAILED_OUTCOMES, FINAL_OUTCOMES, OUTCOMES, begun_night, checked_night
from bench.spec import BadInput


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
