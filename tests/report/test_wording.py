"""Numbers and names, as text."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from bench.record import OUTCOMES
from bench.report import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(1520.4, "1,520"), (12.34, "12.3"), (0.012345, "0.0123"), (9.996, "10.0"), (999.6, "1,000"), (0, "0"), (5.0, "5.00")],
        *[(-2.5, "-2.50"), (math.inf, "inf"), (None, ""), (math.nan, ""), (1e-12, "0.00000000000100")],
    ],
)
def test_three_significant_digits(value: float | None, text: str) -> None:
    assert wording.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (103_079_215_104, "103 GB"),
        (25_757_220_864, "25.8 GB"),
        (1e9, "1.00 GB"),
        (9.1e8, "910 MB"),
        (0, "0 GB"),
        (None, ""),
        (math.nan, ""),
    ],
)
def test_a_gb_is_a_billion_bytes(value: float | None, text: str) -> None:
    assert wording.size(value) == text


@pytest.mark.parametrize(("value", "text"), [(8.03e9, "8.03B"), (164_000, "164K"), (7.0, "7.00"), (1.2e12, "1.20T"), (None, "")])
def test_counts_have_scales(value: float | None, text: str) -> None:
    assert wording.count(value) == text


def test_an_interval_needs_both_ends() -> None:
    assert wording.between(1.0, 2.0) == "1.00 – 2.00"
    assert wording.between(1.0, 99.0) == "1.00 – 99.0"
    assert wording.between(0.0001, 27e9) == "over 100-fold wide"
    assert wording.between(math.nan, 2.0) == wording.between(1.0, None) == ""


def test_hidden_characters_are_made_visible() -> None:
    assert wording.plain("a\x00b\u202ec\u200bd\n\te") == "a\ufffdb\ufffdc\ufffdd e"


def test_long_text_keeps_both_ends() -> None:
    short = wording.shorten("a" * 50 + "b" * 50, 20)
    assert len(short) == 20
    assert short.startswith("aaa")
    assert short.endswith("bbb")
    assert wording.shorten("abc", 20) == "abc"


@pytest.mark.parametrize(("count", "most"), [(5, 10), (10, 10), (11, 10), (1000, 10), (3, 2)])
def test_thinning_keeps_both_ends_and_the_order(count: int, most: int) -> None:
    kept = wording.thinned(range(count), most)
    assert len(kept) == min(count, most)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, count - 1)


def test_every_outcome_has_a_name_and_a_look() -> None:
    assert len({wording.outcome(each) for each in OUTCOMES}) == len(OUTCOMES)
    assert {each for each in OUTCOMES if wording.tone(each) == "good"} == {"ok"}
    assert wording.tone("oom_device") == wording.tone("crashed") == "bad"
    assert wording.tone("unsupported") == "quiet"


def test_outcomes_are_counted_with_those_flagged() -> None:
    row: dict[str, Any] = {**{f"n_{each}": 0 for each in OUTCOMES}, "n_ok": 3, "n_flagged": 1, "n_oom_host": 2}
    assert wording.outcomes(row) == "3 ok (1 flagged), 2 out of memory (host)"


def test_times_are_told_in_utc_and_missing_ones_are_not() -> None:
    assert wording.moment(datetime(2026, 3, 1, 9, 7, tzinfo=UTC)) == "2026-03-01 09:07 UTC"
    assert wording.moment(pd.NaT) == wording.moment(None) == ""
    assert wording.seconds(2.0) == "2.00 s"
    assert wording.seconds(None) == ""


def test_whole_numbers_and_their_range() -> None:
    assert (wording.whole(1234.0), wording.whole(0), wording.whole(None), wording.whole(math.nan)) == ("1,234", "0", "", "")
    assert (wording.spread([3.0]), wording.spread([7.0, 3.0, 5.0]), wording.spread([])) == ("3", "3–7", "")
    assert wording.steps({"warmups": (3.0, 7.0), "step_counts": (10.0,)}) == "3–7 + 10"
    assert wording.steps({"warmups": (), "step_counts": ()}) == ""


def test_watts_and_cores() -> None:
    assert (wording.watts(380.04), wording.watts(0.0), wording.watts(None)) == ("380 W", "0 W", "")
    assert (wording.cores(0.984), wording.cores(math.nan)) == ("0.98 cores", "")
