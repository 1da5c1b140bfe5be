"""Numbers and names as a reader wants them.

In: values as stored, with None or NaN where nothing was measured. Out: short text, "" for what was not measured. GB is 10⁹
bytes, MB 10⁶. Three significant digits: more would claim a precision that repeated runs do not have.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import pandas as pd

from bench.record import OUTCOMES

T = TypeVar("T")
VAGUE = 100

_SCALES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


def plain(value: Any) -> str:
    """Text from outside on one line: control characters, direction marks and other invisible ones become visible marks."""
    return "".join(_visible(character) for character in " ".join(str(value).split()))


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


def number(value: float | None, digits: int = 3) -> str:
    """At least `digits` significant digits, thousands set apart: 1,520; 12.3; 0.0123."""
    if value is None or math.isnan(value):
        return ""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def size(value: float | None) -> str:
    """Bytes in GB (10⁹), or in MB (10⁶) below one GB."""
    if value is None or math.isnan(value):
        return ""
    return f"{number(value / 1e9)} GB" if abs(value) >= 1e9 or value == 0 else f"{number(value / 1e6)} MB"


def seconds(value: float | None) -> str:
    """A duration in seconds, with its unit."""
    return f"{number(value)} s" if number(value) else ""


def watts(value: float | None) -> str:
    """A power in watts, with its unit."""
    return f"{number(value)} W" if number(value) else ""


def cores(value: float | None) -> str:
    """Processor time per time, in cores at work."""
    return f"{number(value, 2)} cores" if number(value) else ""


def whole(value: float | None) -> str:
    """A whole number."""
    return "" if value is None or math.isnan(value) else f"{value:,.0f}"


def spread(values: Sequence[float]) -> str:
    """Whole numbers as one, or as the range that they span: "3", "3–7"."""
    return "–".join(whole(end) for end in sorted({min(values), max(values)})) if values else ""


def steps(row: Mapping[str, Any]) -> str:
    """The steps of a summary, warm-up + measured: "3–7 + 10"; "" where they were not recorded."""
    measured = " or ".join(map(whole, row["step_counts"]))
    return f"{spread(row['warmups'])} + {measured}" if measured else ""


def count(value: float | None, digits: int = 3) -> str:
    """A large count with its scale: 8.03B, 160K."""
    if value is None or math.isnan(value):
        return ""
    scale, letter = next(((scale, letter) for scale, letter in _SCALES if value >= scale), (1, ""))
    return number(value / scale, digits) + letter


def between(low: float | None, high: float | None) -> str:
    """An interval, "" where there is none. One whose ends are a hundredfold apart bounds nothing, and says so instead."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"over {VAGUE}-fold wide" if high >= VAGUE * low else f"{number(low)} – {number(high)}"


def outcome(name: str) -> str:
    """An outcome's name for people: `oom_device` is "out of memory (device)"."""
    return _OUTCOMES.get(name, name.replace("_", " "))


def outcomes(row: Mapping[str, Any]) -> str:
    """The outcomes of a summary, counted: "2 ok (1 flagged), 1 out of memory (device)"."""
    flagged = f" ({row['n_flagged']} flagged)" if row["n_flagged"] else ""
    notes = {"ok": flagged}
    return ", ".join(f"{row[f'n_{each}']} {outcome(each)}{notes.get(each, '')}" for each in OUTCOMES if row[f"n_{each}"])


def tone(outcome: str) -> Literal["good", "bad", "quiet"]:
    """How an outcome looks: ran, failed, or was not tried."""
    if outcome == "ok":
        return "good"
    return "quiet" if outcome in ("unsupported", "skipped", "interrupted") else "bad"


def moment(time: Any) -> str:
    """A time in UTC, to the minute."""
    return "" if time is None or pd.isna(time) else f"{time:%Y-%m-%d %H:%M} UTC"


_OUTCOMES = {
    "oom_device": "out of memory (device)",
    "oom_host": "out of memory (host)",
    "over_limit": "over the memory limit",
}


def _visible(character: str) -> str:
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") else character
