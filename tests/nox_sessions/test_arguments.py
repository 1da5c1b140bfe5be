"""What is the session's own is taken out, and the rest passed on as it was given."""

from datetime import date, timedelta

import pytest

from bench.nox_sessions.arguments import night, read_arguments, seconds, suites_in, today


def test_what_is_for_the_command_is_passed_on_in_order() -> None:
    asked, rest = read_arguments(
        ["mine.toml", "--upgrade", "--only", "x/*", "--strict", "--budget", "2h", "--night", "2020-11-30"]
    )
    assert rest == ["mine.toml", "--strict"]
    assert (asked.only, asked.budget, asked.night, asked.upgrade, asked.sharing) == ("x/*", 7200, "2020-11-30", True, 1)


def test_a_results_folder_is_for_both() -> None:
    asked, rest = read_arguments(["--results", "elsewhere"])
    assert (asked.results, rest) == ("elsewhere", ["--results", "elsewhere"])
    assert read_arguments([])[0].results == "results"


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("45m", 2700), ("1.5 h", 5400), ("1d", 86_400), ("3min", 180)])
def test_a_time_span_has_a_unit(text: str, expected: float) -> None:
    assert seconds(text) == expected


def test_one_without_is_refused() -> None:
    with pytest.raises(SystemExit, match="--budget '2': give a number with a unit"):
        read_arguments(["--budget", "2"])


def test_the_file_of_what_is_acknowledged_is_no_suite() -> None:
    assert suites_in(["a.toml", "--acknowledged", "own.toml", "b.toml"]) == ["a.toml", "b.toml"]


def test_a_night_is_a_date_tomorrows_at_the_latest() -> None:
    now = date.fromisoformat(today())
    for days in (-400, 0, 1):
        label = (now + timedelta(days=days)).isoformat()
        assert night(label) == label
    late = (now + timedelta(days=3)).isoformat()
    with pytest.raises(SystemExit, match=f"--night {late}: a night to come; it is "):
        night(late)


@pytest.mark.parametrize("text", ["", "tonight", "20201130", "2020-02-30"])
def test_what_is_no_date_is_no_night(text: str) -> None:
    with pytest.raises(SystemExit, match="give the date on which it began, in UTC"):
        night(text)
