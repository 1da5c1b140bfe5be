"""What a session of noxfile.py is asked for.

In: the arguments after `--`. Out: those that are meant for the session, and the rest, which is for `wingspan run` or `nightly`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


def read_arguments(given: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """`only`, `budget` (seconds), `until` (seconds since the epoch), `sharing`, `night`, `upgrade`, `results`; and the rest.

    `sharing` is the number of sessions that share the time until `until`. Raises SystemExit for a budget without a unit, and
    for a night that is no date or to come.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--only")
    parser.add_argument("--budget", type=seconds)
    parser.add_argument("--until", type=float)
    parser.add_argument("--sharing", type=int, default=1)
    parser.add_argument("--night", type=night)
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--results", default="results")
    found, rest = parser.parse_known_args(given)
    return found, rest if found.results == "results" else [*rest, "--results", found.results]


def seconds(text: str) -> float:
    """A time span such as 90s, 45m or 2h, in seconds."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)\s*", text)
    if found is None:
        raise SystemExit(f"--budget {text!r}: give a number with a unit, such as 90s, 45m or 2h")
    return float(found.group(1)) * UNITS_S[found.group(2)]


def night(text: str) -> str:
    """A night's label: a date in UTC, tomorrow's at the latest."""
    try:
        label = date.fromisoformat(text).isoformat()
    except ValueError:
        label = None
    if label is None or label != text:
        raise SystemExit(f"--night {text!r}: give the date on which it began, in UTC, such as 2026-11-30")
    if label > (datetime.now(UTC).date() + timedelta(days=1)).isoformat():
        raise SystemExit(f"--night {text}: a night to come; it is {today()} (UTC), or this computer's clock is wrong")
    return label


def suites_in(arguments: Sequence[str]) -> list[str]:
    """The suites named among the arguments."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [each for before, each in pairs if each.endswith(".toml") and before != "--acknowledged"]


def today() -> str:
    """The label of a night that begins now: the date in UTC."""
    return datetime.now(UTC).date().isoformat()
