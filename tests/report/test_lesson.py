"""The first half of the page: what is in it without a run, what cannot get into it, and the same bytes every time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from judgements import claim, estimate, judged, texts
from markdown_it import MarkdownIt

from bench.report import lesson, page
from bench.report.chosen import Chosen
from bench.report.document import Document
from bench.report.findings import gather
from bench.report.lesson import Lesson
from bench.spec import BadInput

Row = Callable[..., dict[str, Any]]
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(1)> `a` | **b** [c](http://evil.example) {{ 7*7 }}"
)
ANCHORS = ("verdicts", "winners", "reach", "every-claim", "claims", "rules", "contradictions", "silicon", "techniques")
OWN = """
[[claim]]
id = "own.claim"
kind = "value"
quantity = "peak_bytes"
unit = "GB"
expected = 3e9
models = ["1b"]
methods = ["lora"]
statement = {{ en = {text}, fr = {text}, ro = {text} }}
"""


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    """On an empty folder of results."""
    findings = gather(pd.DataFrame(), pd.DataFrame())
    return lesson.gather_lesson(findings, tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="module")
def english(gathered: Lesson) -> Document:
    return composed(gathered)


def composed(found: Lesson, runs: pd.DataFrame | None = None, language: str = "en") -> Document:
    return page.compose(
        pd.DataFrame() if runs is None else runs, pd.DataFrame(), found.machines, judge=lambda _: found, language=language
    )


def test_without_a_single_run_every_claim_has_a_verdict_or_a_reason(gathered: Lesson) -> None:
    assert len(gathered.judged) == 53
    assert all(each.reason for each in gathered.judged)
    assert sum(each.verdict != "untested" for each in gathered.judged) > 35


def test_the_sections_stand_in_their_order_before_those_of_runs(english: Document) -> None:
    assert tuple(section.anchor for section in english.sections) == (*ANCHORS, "no-runs", "methods")
    assert english.title == "Wingspan: the lesson on trial"
    assert [figure.name for figure in english.figures] == ["winners", "reach", "claims"]


def test_the_top_asks_the_lessons_question_and_says_what_the_verdicts_rest_on(
    gathered: Lesson, english: Document, run_row: Row
) -> None:
    asked = "Does the lesson say rightly what pc-rtx-4090 and mac-studio-m3-ultra can train, and which of them wins at what?"
    assert english.questions == (asked,)
    document = composed(gathered, pd.DataFrame([run_row(question="What of this one?")]))
    facts = dict(document.facts)
    assert document.questions == (asked,)
    assert facts["Questions of the suites"] == "What of this one?"
    alone = sum(each.tiers == ("predicted",) for each in gathered.judged)
    assert f"{alone} predicted" in facts["Verdicts rest on"]
    assert "Evidence" not in facts
    assert facts["Evidence of the runs"] == "measured"


def test_methods_and_biases_stand_before_the_provenance(gathered: Lesson, run_row: Row) -> None:
    anchors = [section.anchor for section in composed(gathered, pd.DataFrame([run_row()])).sections]
    assert anchors[-2:] == ["methods", "provenance"]
    assert anchors.count("methods") == 1


def test_the_first_screen_is_glance_winner_map_and_frontier_in_both_files(english: Document) -> None:
    for section in english.sections[:3]:
        assert section.tables == ()
    html, text = page.to_html(english), page.to_markdown(english)
    for written, wanted in (
        (html, [*(f'id="{name}"' for name in ANCHORS[:4])]),
        (text, ["## Verdicts", "winners.svg", "reach.svg"]),
    ):
        places = [written.index(each) for each in wanted]
        assert places == sorted(places)
    assert "▼\u00a0speed.ratio" in text[: text.index("## Winner map")]


def test_every_claim_has_its_own_place(gathered: Lesson, english: Document) -> None:
    html = page.to_html(english)
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    for each in gathered.judged:
        assert f'<details id="claim-{each.claim.id}">' in html
        assert html.count(f'href="#claim-{each.claim.id}"') == 2


def test_the_twin_has_headings_where_the_page_folds(english: Document) -> None:
    text = page.to_markdown(english)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [
        tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h3"
    ]
    assert sum(": " in heading and "·" in heading for heading in headings) == 53
    tables = [table for section in english.sections for table in section.tables]
    tables += [table for section in english.sections for detail in section.details for table in detail.tables]
    assert [token.type for token in tokens].count("table_open") == len(tables)


def test_the_same_evidence_gives_the_same_bytes(gathered: Lesson, english: Document) -> None:
    assert page.to_html(composed(gathered)) == page.to_html(english)


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_it_is_told_in_every_language(code: str, gathered: Lesson, english: Document) -> None:
    document = composed(gathered, language=code)
    assert f'<html lang="{code}">' in page.to_html(document)
    for ours, theirs in zip(document.sections, english.sections, strict=True):
        assert not set(ours.texts) & set(theirs.texts)
        assert not {detail.title for detail in ours.details} & {detail.title for detail in theirs.details}


def planted(found: Lesson, text: str) -> Lesson:
    """The lesson with a free text in every place that can hold one."""
    made = claim("own.claim", text, remark=texts(text), tolerance_reason=texts(text), conditions={"modules": text})
    rows = tuple(
        estimate(what=text, who=text, conditions=text, source=text, evidence=(text,), unstated=(text,), refused=refused)
        for refused in (None, text)
    )
    one = judged("refined", made, reason=text, estimates=rows, others=rows)
    matrix = replace(found.matrix, answers=tuple(replace(each, reason=text, source=text) for each in found.matrix.answers))
    few = {"rules": found.rules[:3], "contradictions": found.contradictions[:3]}
    return replace(found, judged=(one,), matrix=matrix, winners=replace(found.winners, contests=()), reaches=(), **few)  # type: ignore[arg-type]


def test_hostile_text_is_only_text_in_html(gathered: Lesson) -> None:
    hostile, harmless = (page.to_html(composed(planted(gathered, text))) for text in (HOSTILE, "word"))
    assert re.findall(r"<(\w+)", re.sub(r"<svg.*?</svg>", "", hostile, flags=re.DOTALL)) == re.findall(
        r"<(\w+)", re.sub(r"<svg.*?</svg>", "", harmless, flags=re.DOTALL)
    )
    assert "<img" not in hostile
    assert hostile.count("<script>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile


def test_hostile_text_is_only_text_in_markdown(gathered: Lesson) -> None:
    def shape(text: str) -> list[str]:
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
        inline = [child.type for token in tokens for child in token.children or () if child.type not in ("text", "text_special")]
        return [*(token.type for token in tokens), *inline]

    hostile, harmless = (page.to_markdown(composed(planted(gathered, text))) for text in (HOSTILE, "word"))
    assert shape(hostile) == shape(harmless)


def test_a_file_of_claims_of_ones_own_is_judged_beside_the_lessons(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN.format(text=json.dumps(HOSTILE)))
    written = page.write(tmp_path / "nothing", tmp_path / "out", own_claims=path)
    html = written.paths[0].read_text()
    assert 'id="claim-own.claim"' in html
    assert html.count("<script>") == 1
    assert "<img" not in html


def test_two_machines_are_compared_without_verdicts(tmp_path: Path, run_row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame([run_row(index=n, machine=machine, **fields) for n in range(2) for machine, fields in MACHINES.items()])
    monkeypatch.setattr(
        page, "read", lambda folder, table, columns=None: Read(rows if table == "runs" else pd.DataFrame(columns=columns))
    )
    chosen = Chosen(machines=("pc-rtx-4090", "mac-studio-m3-ultra"))
    text = page.write(tmp_path, tmp_path / "out", chosen=chosen).paths[1].read_text()
    assert "## pc-rtx-4090 against mac-studio-m3-ultra" in text
    assert "third" not in text
    assert "## Verdicts" not in text
    with pytest.raises(BadInput, match="no run of such a machine"):
        page.write(tmp_path, tmp_path / "out", chosen=Chosen(machines=("pc-rtx-4090", "nosuch")))


MACHINES: dict[str, dict[str, Any]] = {
    "pc-rtx-4090": {"backend": "hf", "device": "cuda", "tokens_per_s": 1200.0},
    "mac-studio-m3-ultra": {},
    "third": {"backend": "hf", "device": "cuda"},
}


class Read:
    """What the store gives back."""

    damaged = ()

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = self
        self._frame = rows

    def to_pandas(self) -> pd.DataFrame:
        return self._frame


def test_runs_that_say_little_are_judged_as_far_as_they_go(tmp_path: Path, run_row: Row) -> None:
    runs = pd.DataFrame([run_row(index=n) for n in range(3)])
    judge = partial(lesson.gather_lesson, results=tmp_path)
    document = page.compose(runs, pd.DataFrame(), judge=judge)
    assert {"verdicts", "machines", "runs"} <= {section.anchor for section in document.sections}
