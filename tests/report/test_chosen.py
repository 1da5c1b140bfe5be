"""Which runs are meant."""

from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest

from bench.report.chosen import Chosen, moment
from bench.spec import BadInput

RUNS = pd.DataFrame(
    {
        "machine": ["a", "b", "c", "a"],
        "started_at": [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3, 4)],
        "run_id": [*"wxyz"],
    }
)


def chosen(**fields: object) -> str:
    return "".join(Chosen(**fields).of(RUNS)["run_id"])  # type: ignore[arg-type]


def test_all_runs_where_nothing_is_asked() -> None:
    assert chosen() == "wxyz"


def test_runs_from_a_moment_on() -> None:
    assert chosen(since=datetime(2026, 3, 2, tzinfo=UTC)) == "xyz"
    assert chosen(since=datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)) == "yz"
    assert chosen(since=datetime(2027, 1, 1, tzinfo=UTC)) == ""


def test_runs_of_two_machines() -> None:
    assert chosen(machines=("a", "b")) == "wxz"


def test_a_machine_without_runs_is_refused_in_one_line() -> None:
    with pytest.raises(
        BadInput, match=r'^--compare "bb": these results hold no run of such a machine; did you mean "b"'
    ) as error:
        chosen(machines=("a", "bb"))
    assert "\n" not in str(error.value)
    with pytest.raises(BadInput, match="they hold no runs at all"):
        Chosen(machines=("a", "b")).of(pd.DataFrame())
    with pytest.raises(BadInput, match="name two"):
        chosen(machines=("a", "a"))


def test_the_reader_is_told() -> None:
    facts = dict(Chosen(datetime(2026, 3, 2, tzinfo=UTC), ("a", "b")).facts())
    assert facts == {"Compared": "a and b", "Started from": "2026-03-02 00:00 UTC"}
    assert dict(Chosen().facts()) == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        (" 2026-03-01T18:00 ", datetime(2026, 3, 1, 18, tzinfo=UTC)),
        ("2026-03-01T18:00+02:00", datetime(2026, 3, 1, 18, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_moments(text: str, found: datetime) -> None:
    assert moment(text) == found


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "03/01/2026", "\x1b[31m"])
def test_what_is_no_date_gets_one_message(text: str) -> None:
    with pytest.raises(BadInput, match="is no date: write it as 2026-03-01") as error:
        moment(text)
    assert str(error.value).isprintable()
