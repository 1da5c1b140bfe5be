"""A whole report in each language: nothing of it is left in English, and everything of it that is data is the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import said
from ladder_rows import whole_ladder

from bench.catalog import machine_profiles
from bench.report.document import Document, Drawn, Section
from bench.report.language import LANGUAGES
from bench.report.page import compose, to_html, to_markdown, write

Rows = Callable[..., dict[str, Any]]
SAME = {
    "fr": {
        "backend",
        "cause",
        "conditions",
        "logits",
        "machine",
        "machines",
        "ok",
        "second",
        "source",
        "suite",
        "suites",
        "tokens",
    }
    | {"provenance", "versions"},
    "ro": {"backend", "ok", "rest", "software"},
}
"""Words that a text may consist of and be the same as in English."""
WORD = re.compile(r"[^\W\d_]{2,}")


@pytest.fixture(scope="module")
def runs(lesson_runs: pd.DataFrame, run_row: Rows, failed_row: Rows, powered_row: Rows) -> pd.DataFrame:
    """Everything that a report can have a section, a note or a warning for."""
    some = lesson_runs[lesson_runs["model"].isin(["llama-3.2-1b", "llama-3.3-70b"])]
    served = {
        "method": "serve",
        "prompt_tokens": 512,
        "generated_tokens": 128,
        "prefill_tokens_per_s": 3000.0,
        "quantization_bits": 4,
    }
    limited = {"flags": ["limited"], "capacity_bytes": 2_000_000_000, "tier": "stand-in", "framework_peak_bytes": 10**9}
    lengths = [
        failed_row("oom_device", "too much", index=80, sequence_length=8192, cell="long", workload_digest="l", model="qwen3-4b")
    ]
    more = [
        *(run_row(index=90 + each, time_to_first_token_s=0.3, tokens_per_s=50.0 + each, **served) for each in range(2)),
        *(run_row(index=94 + each, backend="hf", machine="pc-rtx-4090", **served) for each in range(2)),
        run_row("qwen3-4b", "full", 96, device_settings=[("memory_like", "pc-rtx-4090")], **limited),
        run_row("qwen3-4b", "qlora", 97, flags=["a-new-flag"], outlier_steps=2, not_measured=[("load_s", "nobody looked")]),
        run_row("qwen3-4b", "lora", 98, tokens_per_s=100.0, power_scope=None, power_w=50.0, j_per_token=0.5),
        run_row("qwen3-4b", "lora", 99, tokens_per_s=900.0),
        *lengths,
        run_row("qwen3-4b", "lora", 81, sequence_length=2048, cell="long", workload_digest="k"),
        powered_row(model="qwen3-14b", index=70, machine="a-machine-of-no-catalogue", device="cpu", backend="hf"),
    ]
    frame = pd.concat([some, pd.DataFrame([*more, *whole_ladder()])], ignore_index=True)
    return pd.concat([frame, frame.head(1).assign(machine="another", cell="copied")], ignore_index=True)


@pytest.fixture(scope="module")
def documents(runs: pd.DataFrame, make_steps: Callable[..., pd.DataFrame]) -> Mapping[str, Document]:
    taken = make_steps(runs)
    parts = pd.DataFrame(
        [
            {"run_id": runs["run_id"].iloc[0], "meter": "parts", "scope": part, "value": 1e9}
            for part in ("weights", "rest", "logits")
        ]
    )
    damaged = [("runs/broken.parquet", "not a Parquet file")]
    return {code: compose(runs, taken, machine_profiles(), damaged, parts, language=code) for code in LANGUAGES}


def texts(document: Document) -> Iterator[str]:
    """Every text of a document but the questions, which are the suites' own."""
    yield document.title
    for label, text in document.facts:
        yield from (label, text)
    for section in document.sections:
        yield from _texts(section)


def _texts(section: Section) -> Iterator[str]:
    yield from (section.title, *section.texts, *section.instead, *section.warnings)
    if isinstance(section.figure, Drawn):
        yield from (section.figure.title, section.figure.caption)
        yield from re.findall(r"<(?:title|desc) [^>]*>([^<]*)", section.figure.svg)
    for table in section.tables:
        yield from (table.title, *table.notes, *(heading for heading, _ in table.columns))
        yield from (cell.text for row in table.rows for cell in row)


def words(values: Iterable[Any]) -> Iterator[str]:
    """All words of all texts, in lists and maps too."""
    for value in values:
        if isinstance(value, str):
            yield from WORD.findall(value)
        elif isinstance(value, list | tuple):
            yield from words(value)


@pytest.fixture(scope="module")
def data(runs: pd.DataFrame) -> frozenset[str]:
    """The words of the rows themselves, of the catalogue, and the names of fields."""
    stored = {word for column in runs.columns for word in words([column, *runs[column]])}
    known = {word for profile in machine_profiles() for word in words([profile.name, profile.source])}
    return frozenset(stored | known | set(words(["a Parquet file not", "broken runs parquet", "qwen mlx hf unsloth gpu board"])))


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_no_text_is_left_in_english(code: str, documents: Mapping[str, Document], data: frozenset[str]) -> None:
    same = set(texts(documents[code])) & set(texts(documents["en"]))
    left = {
        text: own
        for text in same
        if (own := {word.lower() for word in WORD.findall(text)} - {w.lower() for w in data} - SAME[code])
    }
    assert left == {}


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_no_english_sentence_stands_within_a_text(code: str, documents: Mapping[str, Document]) -> None:
    long = [text for form in said.texts() for text in form.split("|") if len(text.split()) > 3 and "{" not in text]
    everything = to_markdown(documents[code]) + to_html(documents[code])
    assert [text for text in long if text in everything] == []
    assert len([text for text in long if text in to_markdown(documents["en"])]) > 20


def test_the_same_sections_tables_rows_and_figures_in_each(documents: Mapping[str, Document]) -> None:
    def shape(document: Document) -> list[Any]:
        tables = [
            [(len(each.columns), len(each.rows), len(each.notes)) for each in section.tables] for section in document.sections
        ]
        return [tables, [(section.anchor, len(section.texts), len(section.warnings)) for section in document.sections]]

    assert shape(documents["fr"]) == shape(documents["ro"]) == shape(documents["en"])
    assert [drawn.name for drawn in documents["fr"].figures] == [drawn.name for drawn in documents["en"].figures]
    assert documents["fr"].questions == documents["en"].questions
    anchors = {section.anchor for section in documents["en"].sections}
    assert {"serving", "ladder", "energy", "parts", "frontier", "flags", "not-measured", "copies", "damaged"} <= anchors


def test_a_page_says_which_language_it_is_in_and_what_stays_as_recorded(documents: Mapping[str, Document]) -> None:
    assert '<html lang="fr">' in to_html(documents["fr"])
    assert '<html lang="en">' in to_html(documents["en"])
    assert [label for label, _ in documents["fr"].facts][-1] == "Langue"
    assert [label for label, _ in documents["ro"].facts][-1] == "Limbă"
    assert "Language" not in [label for label, _ in documents["en"].facts]
    assert "**Question\u202f:**" in to_markdown(documents["fr"])
    assert to_html(documents["ro"]).count("Secțiuni") == 2


def test_the_same_rows_in_one_language_are_the_same_bytes(runs: pd.DataFrame, documents: Mapping[str, Document]) -> None:
    some = runs[runs["method"] == "serve"]
    steps = pd.DataFrame(columns=["run_id", "phase", "duration_s"])
    first, second = (to_html(compose(some, steps, language="fr")) for _ in range(2))
    assert first == second
    assert first != to_html(compose(some, steps, language="ro"))
    assert to_markdown(replace(documents["en"])) == to_markdown(documents["en"])


def test_an_empty_report_is_translated_too(tmp_path: Path) -> None:
    for code, none in (("fr", "Aucune exécution"), ("ro", "Nicio rulare"), ("en", "No runs")):
        page, twin, *_ = write(tmp_path / "results", tmp_path / code, code).paths
        assert none in page.read_text("utf-8")
        assert none in twin.read_text("utf-8")
        assert "python -m bench run suites/smoke.toml" in page.read_text("utf-8")
