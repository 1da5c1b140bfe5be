"""Numbers and names as a reader wants them, in the language that is spoken.

In: values as stored, with None or NaN where nothing was measured. Out: short text, "" for what was not measured. GB is 10⁹
bytes, MB 10⁶. Three significant digits: more would claim a precision that repeated runs do not have.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar

import pandas as pd

from bench.analysis import HELD
from bench.catalog import machine_texts
from bench.record import OUTCOMES
from bench.report import language
from bench.report.language import digits, either, say, to_say

T = TypeVar("T")
VAGUE = 100

_SCALES = ((1e12, to_say("{n}T")), (1e9, to_say("{n}B")), (1e6, to_say("{n}M")), (1e3, to_say("{n}K")))


def plain(value: Any) -> str:
    """Text from outside on one line: control characters, direction marks and other invisible ones become visible marks."""
    return _plain(str(value))


@lru_cache(maxsize=2**16)
def _plain(text: str) -> str:
    """Remembered, since thousands of runs bear the same few texts."""
    return visible(" ".join(text.split()))


def of_source(text: str) -> str:
    """A source as the catalogue of machines words it, in the language that is spoken; another's words as they are."""
    known = machine_texts().get(text)
    return plain(text if known is None else known[language.current()])


def visible(text: str) -> str:
    """Text from outside as it is, its spaces too, but that invisible characters become visible marks."""
    return text if text.isprintable() else "".join(map(_visible, text))


def shorten(text: str, length: int = 44) -> str:
    """The text, its middle left out where it is longer than `length`."""
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return text[:head] + "…" + text[len(text) - (length - 1 - head) :]


def thinned(items: Sequence[T], most: int) -> list[T]:
    """All items, or `most` of them taken evenly, in their order."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def number(value: float | None, significant: int = 3) -> str:
    """At least `significant` significant digits, thousands set apart: 1,520; 12.3; 0.0123."""
    if value is None or math.isnan(value):
        return ""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    rounded = float(f"{value:.{significant}g}")
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(rounded))))
    return digits(f"{value:,.{decimals}f}")


def size(value: float | None) -> str:
    """Bytes in GB (10⁹), or in MB (10⁶) below one GB."""
    if value is None or math.isnan(value):
        return ""
    if abs(value) >= 1e9 or value == 0:
        return say("{n} GB", n=number(value / 1e9))
    return say("{n} MB", n=number(value / 1e6))


def round_size(value: float) -> str:
    """Bytes that are a round number, as on an axis: 5 GB rather than 5.00 GB."""
    unit, scale = (to_say("{n} GB"), 1e9) if abs(value) >= 1e9 or value == 0 else (to_say("{n} MB"), 1e6)
    return say(unit, n=digits(f"{value / scale:,.10g}"))


def seconds(value: float | None) -> str:
    """A duration in seconds, with its unit."""
    return say("{n} s", n=number(value)) if number(value) else ""


def watts(value: float | None) -> str:
    """A power in watts, with its unit."""
    return say("{n} W", n=number(value)) if number(value) else ""


def cores(value: float | None) -> str:
    """Processor time per time, in cores at work."""
    return say("{number} cores", number=number(value, 2)) if number(value) else ""


def whole(value: float | None) -> str:
    """A whole number."""
    return "" if value is None or math.isnan(value) else digits(f"{value:,.0f}")


def spread(values: Sequence[float]) -> str:
    """Whole numbers as one, or as the range that they span: "3", "3–7"."""
    return "–".join(whole(end) for end in sorted({min(values), max(values)})) if values else ""


def steps(row: Mapping[str, Any]) -> str:
    """The steps of a summary, warm-up + measured: "3–7 + 10"; "" where they were not recorded."""
    measured = either(map(whole, row["step_counts"]))
    return f"{spread(row['warmups'])} + {measured}" if measured else ""


def count(value: float | None, significant: int = 3) -> str:
    """A large count with its scale: 8.03B, 160K."""
    if value is None or math.isnan(value):
        return ""
    scale, text = next(((scale, text) for scale, text in _SCALES if value >= scale), (1, None))
    counted = number(value / scale, significant)
    return say(text, n=counted) if text else counted


def between(low: float | None, high: float | None) -> str:
    """An interval, "" where there is none. One whose ends are a hundredfold apart bounds nothing, and says so instead."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return say("over {fold}-fold wide", fold=VAGUE) if high >= VAGUE * low else f"{number(low)} – {number(high)}"


def outcome(name: str) -> str:
    """An outcome's name for people: `oom_device` is "out of memory (device)"."""
    return say(_OUTCOMES[name]) if name in _OUTCOMES else name.replace("_", " ")


def tier(name: str) -> str:
    """A tier of evidence for people, with the limit that its runs were held to."""
    kind = name.partition(HELD)[0]
    return (say(_TIERS[kind]) if kind in _TIERS else kind) + held(name)


def held(tier: str) -> str:
    """The limit that runs of a tier were held to, as `bench.analysis` wrote it into the tier's name; "" without one."""
    limit, _, rest = tier.partition(HELD)[2].partition(" GB")
    if not limit:
        return ""
    size, machine = say("{n} GB", n=digits(limit)), rest.removeprefix(" as ")
    return say(", held to {size} as {machine}", size=size, machine=machine) if machine else say(", held to {size}", size=size)


def counted(outcome_name: str, n: int) -> str:
    """So many runs of that outcome."""
    return say("{count} {outcome}", count=n, outcome=outcome(outcome_name))


def outcomes(row: Mapping[str, Any]) -> str:
    """The outcomes of a summary, counted: "2 ok (1 flagged), 1 out of memory (device)"."""
    notes = {"ok": f" {say('({count} flagged)', count=row['n_flagged'])}"} if row["n_flagged"] else {}
    return ", ".join(counted(each, row[f"n_{each}"]) + notes.get(each, "") for each in OUTCOMES if row[f"n_{each}"])


def tone(outcome: str) -> Literal["good", "bad", "quiet"]:
    """How an outcome looks: ran, failed, or was not tried."""
    if outcome == "ok":
        return "good"
    return "quiet" if outcome in ("unsupported", "skipped", "interrupted") else "bad"


def moment(time: Any) -> str:
    """A time in UTC, to the minute."""
    return "" if time is None or pd.isna(time) else f"{language.moment(time)} UTC"


_OUTCOMES = {
    "ok": to_say("ok"),
    "oom_device": to_say("out of memory (device)"),
    "oom_host": to_say("out of memory (host)"),
    "over_limit": to_say("over the memory limit"),
    "timeout": to_say("timeout"),
    "crashed": to_say("crashed"),
    "device_lost": to_say("device lost"),
    "machine_lost": to_say("machine lost"),
    "invalid": to_say("invalid"),
    "unsupported": to_say("unsupported"),
    "skipped": to_say("skipped"),
    "interrupted": to_say("interrupted"),
}
_TIERS = {
    "measured": to_say("measured"),
    "stand-in": to_say("stand-in"),
    "published": to_say("published"),
    "predicted": to_say("predicted"),
}


def _visible(character: str) -> str:
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") else character
