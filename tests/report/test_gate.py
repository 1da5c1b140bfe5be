"""The verdict of a night as Markdown, read by a renderer that knows CommonMark and raw HTML."""

from __future__ import annotations

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from night_rows import CELL, judged, night, rows, since, step

from bench.history.acknowledged import Acknowledgement
from bench.report.gate import markdown

FILE = "results/acknowledged.toml"


def page(frame, said=()) -> str:
    return markdown(judged(frame, said), FILE)


def test_a_red_night_says_what_where_by_how_much_and_what_changed():
    text = page(rows(step(14, 4, 0.9), nights=since(14, 18), spread=0.001))
    assert text.startswith("## Nightly: regression\n")
    assert f"- Cell {CELL} on box (nightly): tokens_per_s -10.0%" in text
    assert f"  - changed between {night(13)} and {night(14)}: torch 2.13.0 -&gt; 2.14.0" in text
    assert '```toml\n[[acknowledged]]\nmachine = "box"' in text
    assert text.endswith("\n")


def test_a_green_night_is_short():
    text = page(rows([1000.0] * 18))
    assert text.startswith("## Nightly: no regression\n\n0 confirmed regressions; 1 series of 1 cell")
    assert len(text.splitlines()) == 3


def test_what_else_is_told():
    slower = rows(step(14, 4, 0.9))
    gone = rows([1.0] * 3, cell="gone/lora/hf@cpu", cell_key="b")
    text = page(pd.concat([slower, gone]), [Acknowledgement("box", CELL, "tokens_per_s", night(14), "known upstream")])
    assert "### Accepted\n\n- Cell" in text
    assert ": known upstream" in text
    assert "### Also\n\n- Note: gone/lora/hf@cpu" in text
    assert "### Improved" in page(rows(step(14, 4, 1.2)))
    assert "### Suspected" in page(rows(step(14, 1, 0.8)))


HOSTILE = ["<script>alert(1)</script>", "[press](javascript:alert(1))", "1. x", "# x", "```\n# x", "**x**", "a\n\n- b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_mean_nothing_to_a_renderer(name):
    reader = MarkdownIt("commonmark")

    def kinds(called: str) -> list[str]:
        renamed = {"cell": called, "machine": called, "suite": called}
        fails = {"outcome": "crashed", "reason": called}
        failing = rows([1.0] * 18, cell_key="b", nights=dict.fromkeys((16, 17), fails), **renamed)
        text = page(
            pd.concat([rows(step(14, 4, 0.9), **renamed), failing.assign(run_id=[f"x{at}" for at in range(len(failing))])])
        )
        tokens = reader.parse(text)
        return [
            each.type
            for token in tokens
            for each in (token, *(token.children or ()))
            if each.type not in ("text", "text_special")
        ]

    assert kinds(name) == kinds("plain")


def test_of_many_shifts_the_first_are_told():
    cells = [rows(step(14, 4, 0.9), cell=f"m{at:02}/lora/hf@cpu", cell_key=f"{at:04}") for at in range(15)]
    assert "- 3 more, in the document of --json" in page(pd.concat(cells))
    assert page(pd.concat(cells)).count("[[acknowledged]]") == 12


def test_small_changes_are_told_too():
    text = page(rows(step(20, 10, 1.01, 1e9), metric="host_peak_bytes", spread=0))
    assert "### Slightly worse\n\n- Cell" in text
