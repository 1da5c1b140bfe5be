"""Quantities on the command line: what is taken, and what is refused with the remedy."""

import math

import click
import pytest

from bench.quantities import Duration, MemoryShare, Night, Share, Size


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("45min", 2700), ("2h", 7200), ("1.5h", 5400), ("1d", 86_400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "share"), [("95%", 0.95), ("0.9", 0.9), ("100%", 1.0), ("off", math.inf)])
def test_shares_of_memory(text: str, share: float) -> None:
    assert MemoryShare().convert(text, None, None) == pytest.approx(share)


def test_sizes_are_bytes() -> None:
    assert Size().convert("22GiB", None, None) == 22 * 2**30


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (Duration(), "90", "is no time span: give a number with a unit"),
        (Share(), "60%", "is no precision"),
        (Share(), "0", "is no precision"),
        (Size(), "24", "has no unit: write 24GB"),
        (MemoryShare(), "9%", "is no share of memory"),
        (MemoryShare(), "95", "is no share of memory"),
        (MemoryShare(), "Off", "is no share of memory"),
        (Night(), "tonight", "'tonight' is no night: give the date on which it began, in UTC, such as 2026-11-30"),
        (Night(), "9999-12-31", "9999-12-31 is a night to come: give one up to "),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_remedy(kind: click.ParamType[float], text: str, told: str) -> None:
    with pytest.raises(click.BadParameter, match=told):
        kind.convert(text, None, None)
