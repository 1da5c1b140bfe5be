"""Quantities as the command line takes them: time spans, shares, sizes of memory, nights.

In: an option's text. Out: a number in a base unit, or one message that says how to write it; click then ends with exit code 2.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """A time span such as `90s`, `45m`, `2h`; converts to seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)\s*", str(value))
        if found is None:
            self.fail(f"{value!r} is no time span: give a number with a unit, such as 90s, 45m or 2h", param, ctx)
        return float(found.group(1)) * UNITS_S[found.group(2)]


class Share(click.ParamType[float]):
    """A share such as `2%` or `0.02`, above zero and at most a half."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", str(value))
        share = float(found.group(1)) / (100 if found.group(2) else 1) if found else 0.0
        if not 0 < share <= 0.5:
            self.fail(f"{value!r} is no precision: give a percentage such as 2%, above 0% and at most 50%", param, ctx)
        return share


class Size(click.ParamType[int]):
    """A size of memory such as `24GB` or `22GiB`; converts to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from bench.limits import size_bytes
        from bench.spec import BadInput

        try:
            return size_bytes(str(value))
        except BadInput as error:
            self.fail(str(error), param, ctx)


class Night(click.ParamType[str]):
    """The label of a night: a date such as `2026-11-30`, tomorrow's at the latest."""

    name = "night"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from bench.record import begun_night
        from bench.spec import BadInput

        try:
            return begun_night(str(value), datetime.now(UTC).date())
        except BadInput as error:
            self.fail(str(error), param, ctx)


class MemoryShare(click.ParamType[float]):
    """A share of physical memory such as `95%` or `0.95`, from 10% to 100%; `off` is more than there is."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if str(value) == "off":
            return float("inf")
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", str(value))
        share = float(found.group(1)) / (100 if found.group(2) else 1) if found else 0.0
        if not 0.1 <= share <= 1:
            self.fail(f"{value!r} is no share of memory: give 10% to 100%, such as 95%, or off", param, ctx)
        return share
