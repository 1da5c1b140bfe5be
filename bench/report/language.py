"""What a reader reads, in the reader's language: English, French or Romanian.

In: English texts as they stand in the sources, with {named} places. Out: the same in the language that `speaking` has set, with
numbers, percentages and plurals by its rules (CLDR's, from Babel). The English text is the key: `locales/<code>.toml` holds
what it becomes, in tables that only tell a translator where a text stands; `en.toml` holds the few whose key is not what is
read, as where one English word is several in other languages.

The language is a context variable and no argument, since every small function that words one entry of a table would have to pass
it on; `compose` sets it once, so a section depends on its findings and on that one value, and a test sets it in one line.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Literal, cast, get_args

from babel import Locale
from babel.dates import format_datetime

Code = Literal["en", "fr", "ro"]
LANGUAGES: tuple[Code, ...] = get_args(Code)
FORMS: Mapping[str, tuple[str, ...]] = {"en": ("one", "other"), "fr": ("one", "other"), "ro": ("one", "few", "other")}
"""The plural forms of a text with n, in the order in which "|" sets them apart; what CLDR tells besides is like the last."""

_THIN, _FIRM = "\u202f", "\u00a0"
_UNITS = r"(?=(?:[GM][Bo]|Md|Bn|mld|mil|tril|kWh|[kKMsWJ%×]|\{unit})(?!\w))"
_TYPOGRAPHY: Mapping[str, tuple[tuple[str, str], ...]] = {
    "en": (),
    "fr": ((r" (?=[;:?!»%])", _THIN), (r"(?<=«) ", _THIN), (rf"(?<=[\d}}]) {_UNITS}", _THIN)),
    "ro": ((rf"(?<=[\d}}]) {_UNITS}", _FIRM),),
}
"""Spaces at which no line may break: the files have plain ones, which whoever edits them can see."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language: its texts by the English ones, and how its numbers are written."""

    code: Code
    texts: Mapping[str, str]
    locale: Locale

    @property
    def separators(self) -> Mapping[int, str]:
        """How the marks within an English number are written, as a table for `str.translate`."""
        return _separators(self.code)

    def form(self, count: int) -> int:
        """Which of the plural forms goes with the count."""
        forms = FORMS[self.code]
        name = self.locale.plural_form(count)
        return forms.index(name) if name in forms else len(forms) - 1


@cache
def language(code: str) -> Language:
    """The language of that code. Raises KeyError for one that is not among `LANGUAGES`."""
    rules = _TYPOGRAPHY[code]
    texts = {text: _typeset(said, rules) for table in tables(code).values() for text, said in table.items()}
    return Language(cast(Code, code), texts, Locale.parse(code))


def tables(code: str) -> Mapping[str, Mapping[str, str]]:
    """The tables of texts of one language, as they are stored."""
    return tomllib.loads(files("bench.report").joinpath("locales", f"{code}.toml").read_text("utf-8"))


_SPOKEN: ContextVar[Language | None] = ContextVar("spoken", default=None)


def spoken() -> Language:
    """The language that is spoken now; English where nothing has set another."""
    return _SPOKEN.get() or language("en")


def current() -> Code:
    """The code of the language that is spoken now, by which data that comes in all of them is taken."""
    return spoken().code


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Everything that is said within is said in that language."""
    token = _SPOKEN.set(language(code))
    try:
        yield
    finally:
        _SPOKEN.reset(token)


def to_say(text: str) -> str:
    """The text itself, marked as one that `say` gets later: constants are made before anyone knows the language."""
    return text


def say(text: str, /, **places: str | int) -> str:
    """The English text in the language that is spoken, its {named} places filled.

    A whole number is written as the language writes it; other numbers come as text (`bench.report.wording`). A text with
    plural forms, as "{n} run|{n} runs", takes the one that goes with the number `n`. A text without a translation is said in
    English, with a warning, which the tests do not let pass.
    """
    speaker = spoken()
    known = speaker.texts.get(text)
    if known is None and speaker.code != "en":
        warnings.warn(f"no {speaker.code} text for {text!r}", stacklevel=2)
    forms = (known or text).split("|")
    form = forms[(speaker if known else language("en")).form(int(places["n"]))] if len(forms) > 1 else forms[0]
    return form.format(**{name: _written(value) for name, value in places.items()})


def digits(number: str) -> str:
    """A number as Python writes it (1,520.3), with the language's marks: 1 520,3 in French, 1.520,3 in Romanian."""
    return number.translate(spoken().separators)


def percent(share: float, decimals: int = 0, *, signed: bool = False) -> str:
    """A share in percent, with as many decimals; with its sign also where it is positive, if `signed`."""
    number = f"{100 * share:{'+' if signed else ''},.{decimals}f}"
    return digits(number) + _percent_sign(spoken().code)


def moment(time: datetime) -> str:
    """A time to the minute. English has ISO 8601, since its readers differ in whether days or months come first."""
    speaker = spoken()
    return f"{time:%Y-%m-%d %H:%M}" if speaker.code == "en" else format_datetime(time, "short", locale=speaker.locale)


def either(items: Iterable[str]) -> str:
    """Alternatives in one text: "3 or 7"."""
    return f" {say('or')} ".join(items)


def both(items: Iterable[str]) -> str:
    """Things that belong together, in one text: "torch and transformers"."""
    return f" {say('and')} ".join(items)


def strung(items: Iterable[str]) -> str:
    """Clauses in one text, semicolons between them."""
    return say("; ").join(items)


def _written(value: str | int) -> str:
    return value if isinstance(value, str) else digits(f"{int(value):,}")


def _typeset(text: str, rules: Iterable[tuple[str, str]]) -> str:
    for pattern, space in rules:
        text = re.sub(pattern, space, text)
    return text


@cache
def _separators(code: str) -> Mapping[int, str]:
    symbols = Locale.parse(code).number_symbols["latn"]
    return str.maketrans({",": symbols["group"], ".": symbols["decimal"], "-": symbols["minusSign"]})


@cache
def _percent_sign(code: str) -> str:
    """The sign with the space before it that the language's pattern has; in French a thin one, as before its other signs."""
    pattern: str = Locale.parse(code).percent_formats[None].pattern
    sign = pattern.lstrip("#,0")
    return sign.replace(_FIRM, _THIN) if code == "fr" else sign
