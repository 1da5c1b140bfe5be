"""Hostile text in Markdown, read by a renderer that knows CommonMark, tables and strikethrough."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt

from bench.report.markdown import literal

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[press](javascript:alert(1))",
    "![see](http://evil.example/x.png)",
    "<http://evil.example>",
    "http://evil.example/ www.evil.example a@evil.example",
    "`code` ``more``",
    "**bold** _thin_ __x__ ~~gone~~",
    "a | b | c",
    "line\nbreak\r\n# heading\n| --- |",
    "&lt;b&gt; &#60;i&#62; &copy;",
    "\\[x](y) \\| \\\\",
    "[ref]: http://evil.example",
    "#12 $x$",
    "<!-- comment -->",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("place", ["Question: {}", "| a | b |\n| --- | --- |\n| {} | x |", "### R1 {}"])
def test_nothing_but_the_text_itself_is_read(text: str, place: str) -> None:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = reader.parse(place.format(literal(text)))
    plain = reader.parse(place.format("word"))
    assert [token.type for token in tokens] == [token.type for token in plain]
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {"text", "text_special"}
    assert " ".join(text.split()) in "".join(child.content for child in inline)


def test_bare_addresses_are_no_longer_addresses() -> None:
    escaped = literal("see HTTPS://evil.example or WWW.evil.example or me@evil.example")
    assert "://" not in escaped
    assert "WWW." not in escaped
    assert "@" not in escaped


@pytest.mark.parametrize("text", ["batch_size of tiny/lora/hf@cpu on one", "hf@cpu/batch_size=2 ÷ mlx@metal"])
def test_what_stands_inside_a_word_needs_no_escape(text: str) -> None:
    assert literal(text) == text


@pytest.mark.parametrize("text", ["@someone", "a @b", "_a_", "a__b", "x@y.z", "x@y_z.org", "hf@-x"])
def test_what_could_begin_something_keeps_its_escape(text: str) -> None:
    assert literal(text) != text


def test_plain_text_and_numbers_stay_as_they_are() -> None:
    assert literal("llama-3.1-8b, 11.4 GB (device): 50%") == "llama-3.1-8b, 11.4 GB (device): 50%"
    assert literal(3) == "3"
