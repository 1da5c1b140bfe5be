"""Texts and numbers in three languages, and that none is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import said
from babel.numbers import format_decimal, format_percent
from babel.units import format_unit
from hypothesis import given
from hypothesis import strategies as st

from bench.commands.report import report
from bench.report import wording
from bench.report.language import FORMS, LANGUAGES, both, digits, either, language, moment, percent, say, speaking, strung, tables

OTHERS = ("fr", "ro")
THIN, FIRM = "\u202f", "\u00a0"


def places(text: str) -> list[set[str]]:
    return [set(re.findall(r"\{(\w*)\}", form)) for form in text.split("|")]


def stored(code: str) -> Iterator[tuple[str, str]]:
    for table in tables(code).values():
        yield from table.items()


@pytest.mark.parametrize("code", OTHERS)
def test_every_text_has_a_translation_and_every_translation_a_text(code: str) -> None:
    keys = [text for text, _ in stored(code)]
    assert len(keys) == len(set(keys)), "a text stands in two tables"
    assert said.texts() - set(keys) == set(), "without a translation"
    assert set(keys) - said.texts() == set(), "translations of what nobody says"


def test_only_texts_that_are_said_differ_in_english() -> None:
    assert {text for text, _ in stored("en")} <= said.texts()


def test_many_texts_were_found() -> None:
    """The reader of the sources finds literals, constants, headings, templates and flags."""
    some = {"Conditions", "not recorded", "clean runs", "Question:", "free some space", "{n} run|{n} runs"}
    assert some <= said.texts()
    assert len(said.texts()) > 300


def test_no_text_is_pieced_together_before_it_is_said() -> None:
    found = {str(path): said.pieced_together(path.read_text("utf-8")) for path in said.SOURCES.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert said.pieced_together('say(f"{n} runs")') == said.pieced_together('say("a" + b)') == [1]


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_has_the_places_and_the_forms_that_it_needs(code: str) -> None:
    for text, translated in stored(code):
        assert all(found == places(text)[-1] for found in places(translated)), text
        assert len(places(translated)) == (len(FORMS[code]) if "|" in text else 1), text
        assert len(places(text)) in (1, len(FORMS["en"])), text
        assert translated.strip() or text == "; ", text


@pytest.mark.parametrize("code", OTHERS)
def test_long_texts_are_translated(code: str) -> None:
    same = [text for text, translated in stored(code) if translated == text]
    assert [text for text in same if len(re.findall(r"[^\W\d]{2,}", re.sub(r"\{\w+\}", "", text))) > 2] == []


def test_diacritics_are_those_of_the_language() -> None:
    romanian = "".join(translated for _, translated in stored("ro"))
    assert not set("şţŞŢ") & set(romanian), "cedillas where Romanian has commas below"
    assert set("șțăâî") <= set(romanian)
    french = "".join(translated for _, translated in stored("fr"))
    assert "'" not in french
    assert set("éèêàçœ’«»") <= set(french)


def test_french_signs_and_units_stand_behind_thin_spaces_at_which_no_line_breaks() -> None:
    texts = language("fr").texts.values()
    assert [text for text in texts if re.search(r"(?<!\u202f)[;?!»%]|[ ][:]|(?<=«)[^\u202f]", text)] == []
    assert any(f"95{THIN}%" in text for text in texts)
    assert any(f"{THIN}:" in text for text in texts)
    with speaking("fr"):
        assert say("{label}: {text}", label="a", text="b") == f"a{THIN}: b"
        assert strung(["a", "b"]) == f"a{THIN}; b"


def test_romanian_units_stand_behind_spaces_at_which_no_line_breaks() -> None:
    assert any(f"95{FIRM}%" in text for text in language("ro").texts.values())
    assert [text for text in language("ro").texts.values() if re.search(r"\d (%|GB|s\b)", text)] == []


@pytest.mark.parametrize(
    ("code", "counted"),
    [
        ("en", {0: "0 runs", 1: "1 run", 2: "2 runs", 1234: "1,234 runs"}),
        ("fr", {0: "0 exécution", 1: "1 exécution", 2: "2 exécutions", 1_000_000: f"1{THIN}000{THIN}000 exécutions"}),
        ("ro", {0: "0 rulări", 1: "1 rulare", 2: "2 rulări", 19: "19 rulări", 20: "20 de rulări", 101: "101 rulări"}),
    ],
)
def test_plurals(code: str, counted: dict[int, str]) -> None:
    with speaking(code):
        assert {n: say("{n} run|{n} runs", n=n) for n in counted} == counted


@pytest.mark.parametrize(
    ("code", "number", "size", "share", "time", "length", "count"),
    [
        ("en", "1,520", "25.8 GB", "+2.0%", "2026-03-01 09:07 UTC", "0.624 s", "8.03B"),
        ("fr", f"1{THIN}520", f"25,8{THIN}Go", f"+2,0{THIN}%", "01/03/2026 09:07 UTC", f"0,624{THIN}s", f"8,03{THIN}Md"),
        ("ro", "1.520", f"25,8{FIRM}GB", f"+2,0{FIRM}%", "01.03.2026, 09:07 UTC", f"0,624{FIRM}s", f"8,03{FIRM}mld."),
    ],
)
def test_numbers_sizes_shares_times(code: str, number: str, size: str, share: str, time: str, length: str, count: str) -> None:
    with speaking(code):
        assert wording.number(1520.4) == number
        assert wording.size(25_757_220_864) == size
        assert percent(0.02, 1, signed=True) == share
        assert wording.moment(datetime(2026, 3, 1, 9, 7, tzinfo=UTC)) == time
        assert wording.seconds(0.62412) == length
        assert wording.count(8.03e9) == count
        assert wording.number(None) == wording.size(None) == wording.seconds(None) == ""


def test_round_sizes_on_an_axis() -> None:
    for code, text in (("en", "1,000 GB"), ("fr", f"1{THIN}000{THIN}Go"), ("ro", f"1.000{FIRM}GB")):
        with speaking(code):
            assert wording.round_size(1e12) == text
    assert (wording.round_size(5e9), wording.round_size(2e8)) == ("5 GB", "200 MB")


@given(st.floats(-1e9, 1e9), st.integers(0, 3), st.sampled_from(LANGUAGES))
def test_numbers_and_shares_are_written_as_babel_writes_them(value: float, decimals: int, code: str) -> None:
    pattern = "#,##0" + ("." + "0" * decimals if decimals else "")
    with speaking(code):
        written = digits(f"{value:,.{decimals}f}")
        assert written == format_decimal(f"{value:.{decimals}f}", pattern, locale=code)
        share = round(value / 1e9, 4)
        expected = format_percent(f"{share:.4f}", pattern + "%", locale=code)
        assert re.sub(r"\s", "", percent(share, 2)) == expected if decimals == 2 else True


@pytest.mark.parametrize("code", OTHERS)
def test_units_are_those_of_cldr(code: str) -> None:
    units = {"{n} GB": "gigabyte", "{n} MB": "megabyte", "{n} s": "second", "{n} W": "watt"}
    with speaking(code):
        for text, unit in units.items():
            assert say(text, n="5") == re.sub(r"\s", THIN if code == "fr" else FIRM, format_unit(5, unit, "short", locale=code))


def test_a_text_without_a_translation_is_an_error_here_and_english_for_readers() -> None:
    with speaking("fr"), pytest.warns(UserWarning, match="no fr text for 'a {n} b"):
        assert say("a {n} b|a {n} bs", n=1000) == f"a 1{THIN}000 bs"
    with speaking("ro"), pytest.raises(UserWarning, match="no ro text"):
        say("nobody has translated this")
    assert say("nobody has translated this") == "nobody has translated this"


def test_a_language_is_spoken_as_long_as_it_is_asked_for() -> None:
    with speaking("fr"):
        with speaking("ro"):
            assert (say("or"), either(["1", "2"]), both(["1", "2"])) == ("sau", "1 sau 2", "1 și 2")
        assert say("or") == "ou"
    assert say("or") == "or"
    with pytest.raises(KeyError):
        language("de")


def test_what_fills_a_place_is_not_read_as_a_text() -> None:
    with speaking("fr"):
        assert say("{label}: {text}", label="{text}", text="a|b: {x}") == f"{{text}}{THIN}: a|b: {{x}}"


def test_times_follow_the_language() -> None:
    with speaking("fr"):
        assert moment(datetime(2026, 12, 31, 23, 5)) == "31/12/2026 23:05"


def test_the_command_line_offers_every_language() -> None:
    (option,) = [option for option in report.params if option.name == "language"]
    assert tuple(option.type.choices) == LANGUAGES  # type: ignore[attr-defined]
