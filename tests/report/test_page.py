"""The whole page: what is in it, what cannot get into it, and the same bytes every time."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from bench import store
from bench.catalog import machine_profiles
from bench.record import WORKLOAD_COLUMNS, Run, Step
from bench.report import page

Row = Callable[..., dict[str, Any]]
NO_STEPS = pd.DataFrame()
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(1)> `a` | **b** [c](http://evil.example) {{ 7*7 }}"
)
FREE_TEXTS = ("model", "reason", "machine", "question", "suite", "chip", "accelerator", "os_version", "source_revision")


class Elements(HTMLParser):
    """The tags and attributes of a page, and its visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def html_of(runs: pd.DataFrame, steps: pd.DataFrame = NO_STEPS, damaged: tuple[tuple[str, str], ...] = ()) -> str:
    return page.to_html(page.compose(runs, steps, machine_profiles(), damaged))


def markdown_of(runs: pd.DataFrame, damaged: tuple[tuple[str, str], ...] = ()) -> str:
    return page.to_markdown(page.compose(runs, NO_STEPS, machine_profiles(), damaged))


@pytest.fixture(scope="module")
def lesson(lesson_runs: pd.DataFrame, lesson_steps: pd.DataFrame) -> str:
    return html_of(lesson_runs, lesson_steps)


def test_no_runs_give_a_page_that_says_how_to_make_some() -> None:
    html = html_of(pd.DataFrame())
    assert "no runs yet" in html
    assert "python -m bench run suites/smoke.toml" in html
    assert "<svg" not in html
    assert "python -m bench run suites/smoke.toml" in markdown_of(pd.DataFrame())


def test_failures_alone_give_a_page_too(failed_row: Row) -> None:
    rows = frame(*(failed_row("oom_device", "tried to hold 140 GB", index=index) for index in range(3)))
    html = html_of(rows)
    assert "3: 3 out of memory (device)" in html
    assert "tried to hold 140 GB" in html
    assert "No ratio yet: no two parties have done equal work in runs whose times no flag spoils." in html
    assert page.to_markdown(page.compose(rows, NO_STEPS))


def test_a_run_of_which_nearly_nothing_is_known_is_still_told() -> None:
    row = {
        "run_id": "abc",
        "machine": "one",
        "cell": "m/lora/hf@cpu",
        "outcome": "crashed",
        "reason": "signal 9",
        "tier": "measured",
    }
    assert "signal 9" in html_of(frame(row))


def test_the_top_names_question_machines_dates_versions_revision_and_outcomes(lesson: str, lesson_runs: pd.DataFrame) -> None:
    top = Elements(lesson[: lesson.index("At a glance</h2>")]).text
    counts = lesson_runs["outcome"].value_counts()
    for wanted in (
        *("Which machine trains which models, and how fast?", "mac-studio-m3-ultra", "pc-rtx-4090", "NVIDIA GeForce RTX 4090"),
        *("2026-03-01 09:07 UTC", "2026-03-02 03:54 UTC", "torch 2.15.0", "mlx-lm 0.32.2", "macOS 15.6", "103 GB"),
        *("0773a8b1f6c0d9aa5b2e1c34d5e6f708192a3b4c", f"{counts['ok']} ok", f"{counts['oom_device']} out of memory (device)"),
        *(
            "Evidence of the runsmeasured",
            f"{counts['crashed']} crashed",
            f"{counts['unsupported']} unsupported",
            f"{counts['skipped']} skipped",
        ),
    ):
        assert wanted in top.replace("\n", ""), wanted


def test_every_run_stands_there_with_its_outcome_and_reason(lesson: str, lesson_runs: pd.DataFrame) -> None:
    ledger = lesson[lesson.index('<section id="runs"') : lesson.index('<section id="methods"')]
    assert ledger.count("<tr>") == len(lesson_runs) + 1
    assert all(run_id in ledger for run_id in lesson_runs["run_id"])
    assert all(reason in ledger for reason in set(lesson_runs["reason"].dropna()) if "<" not in reason)


def test_the_figures_stand_in_the_page_and_are_described(lesson: str) -> None:
    assert "No ratio yet" not in lesson
    assert "Nothing to draw yet" not in lesson
    elements = Elements(lesson)
    assert elements.tags.count("svg") == 4
    assert elements.values("role").count("img") == 4
    labelled = [value for tag, name, value in elements.attributes if (tag, name) == ("svg", "aria-labelledby")]
    assert {identity for value in labelled for identity in value.split()} <= set(elements.values("id"))


def test_odd_stored_values_break_nothing(run_row: Row) -> None:
    odd = {
        "tokens_per_s": float("inf"),
        "load_s": float("-inf"),
        "loss_first": float("inf"),
        "framework_peak_bytes": float("nan"),
    }
    rows = [run_row(index=0), run_row(index=1, **odd), run_row(index=2, backend="hf", **odd)]
    rows += [run_row(index=3, started_at=datetime(1500, 1, 1, tzinfo=UTC))]
    text = markdown_of(frame(*rows))
    assert "1500-01-01 00:00 UTC" in text
    assert re.search(r"\binf\b", text) is None


def test_copies_are_told_and_count_for_nothing(run_row: Row) -> None:
    rows = [run_row(index=0), run_row(index=1)]
    text = markdown_of(frame(*rows, *({**row, "machine": "z-copy"} for row in rows)))
    assert "## Copies left out" in text
    assert "No ratio yet: no two parties have done equal work" in text
    assert "Copies left out" not in markdown_of(frame(*rows))


def test_ids_are_unique_and_every_reference_leads_somewhere(lesson: str) -> None:
    elements = Elements(lesson)
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    targets = [value[1:] for value in elements.values("href") if value.startswith("#")]
    targets += re.findall(r"url\(#([^)]*)\)", lesson)
    assert targets
    assert set(targets) <= set(ids)


def test_nothing_in_the_page_points_outside(lesson: str) -> None:
    elements = Elements(lesson)
    assert elements.tags.count("script") == 1
    assert not {"img", "iframe", "object", "embed", "form", "base", "audio", "video"} & set(elements.tags)
    links = [value for name in ("href", "src", "srcset", "action", "xlink:href", "data") for value in elements.values(name)]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not [name for _, name, _ in elements.attributes if name.startswith("on") or name == "style"]
    assert "@import" not in lesson
    assert set(re.findall(r"https?://[^\"'<\s]+", lesson)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_this_style_and_script_and_nothing_else(lesson: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', lesson)
    ours = [re.findall(rf"<{tag}>(.*?)</{tag}>", lesson, re.DOTALL) for tag in ("style", "script")]
    assert policy
    assert [len(found) for found in ours] == [1, 1]
    style, script = (b64encode(hashlib.sha256(found[0].encode()).digest()).decode() for found in ours)
    expected = (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; base-uri 'none';"
        " form-action 'none'"
    )
    assert policy[1].replace("&#39;", "'") == expected


@pytest.fixture(scope="module")
def hostile_and_harmless(run_row: Row, failed_row: Row) -> tuple[page.Document, page.Document]:
    """Two documents that differ in their free texts alone: every column, map, list and file name that can hold any."""

    def make(text: str) -> page.Document:
        texts: dict[str, Any] = {name: f"{text} {name}" for name in FREE_TEXTS}
        texts |= {"implementation": [(text, text)], "versions": [(text, text)]}
        rows = [
            {**made, **texts, "cell": f"{texts['model']}/{made['method']}/{made['backend']}@{made['device']}", "flags": flags}
            for made, flags in (
                (run_row(index=1), []),
                (run_row(index=2), [text]),
                (run_row(index=3, backend="hf"), []),
                (run_row(index=4, method="full"), []),
                (failed_row("crashed", "", index=5, method="full", backend="hf"), []),
            )
        ]
        return page.compose(frame(*rows), NO_STEPS, machine_profiles(), ((text, text),))

    return make(HOSTILE), make("word")


def test_hostile_text_is_only_text_in_html(hostile_and_harmless: tuple[page.Document, page.Document]) -> None:
    hostile, harmless = (Elements(page.to_html(document)) for document in hostile_and_harmless)
    glyphs = {"path", "use", "g", "defs"}
    assert [tag for tag in hostile.tags if tag not in glyphs] == [tag for tag in harmless.tags if tag not in glyphs]
    assert {name for _, name, _ in hostile.attributes} == {name for _, name, _ in harmless.attributes}
    for name in FREE_TEXTS:
        assert f"{HOSTILE} {name}" in hostile.text, name


def test_hostile_text_is_only_text_in_markdown(hostile_and_harmless: tuple[page.Document, page.Document]) -> None:
    hostile, harmless = (page.to_markdown(document) for document in hostile_and_harmless)
    assert shape(hostile) == shape(harmless)
    assert "Refused comparisons" in hostile
    assert "### R1" in hostile


def shape(markdown: str) -> list[str]:
    """What a Markdown reader makes of it, but for the words."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    inline = [child.type for token in tokens for child in token.children or () if child.type not in ("text", "text_special")]
    return [*(token.type for token in tokens), *inline]


def test_the_twin_has_the_same_tables_and_links_to_the_figures(lesson_runs: pd.DataFrame) -> None:
    document = page.compose(lesson_runs, NO_STEPS, machine_profiles())
    kinds = shape(page.to_markdown(document))
    tables = [table for section in document.sections for table in section.tables]
    assert kinds.count("table_open") == len(tables)
    assert kinds.count("tr_open") == sum(len(table.rows) + 1 for table in tables)
    assert kinds.count("image") == 4
    for name in ("memory", "speed", "ratios", "energy"):
        assert f"(figures/{name}.svg)" in page.to_markdown(document)


def test_the_order_of_stored_rows_changes_no_byte(lesson_runs: pd.DataFrame, lesson_steps: pd.DataFrame, lesson: str) -> None:
    assert html_of(lesson_runs.sample(frac=1, random_state=5), lesson_steps.sample(frac=1, random_state=5)) == lesson


def test_a_thousand_runs_take_seconds(many_runs: pd.DataFrame, make_steps: Callable[..., pd.DataFrame]) -> None:
    steps = make_steps(many_runs)
    before = time.process_time()
    html = html_of(many_runs, steps)
    assert time.process_time() - before < 20, "a page of a thousand runs takes 4 s of one core; something is far slower now"
    assert "more workloads" in html
    assert "more ratios" in html


# --- from and to the disk ------------------------------------------------------------------------------------------------------


def stored(results: Path, row: dict[str, Any]) -> None:
    """One row of the factory, put where the store puts it."""
    known = {field.name for field in fields(Run)}
    workload = {name: row.get(name) for name in WORKLOAD_COLUMNS}
    maps = {name: dict(row[name]) for name in ("implementation", "versions", "device_settings", "not_measured")}
    run = Run(
        **{
            **{name: value for name, value in row.items() if name in known},
            **maps,
            "workload": workload,
            "flags": tuple(row["flags"]),
        }
    )
    steps = [Step(step=n, phase="measured", start_s=n, duration_s=1.0, tokens=8, loss_tokens=7, loss=1.0) for n in range(1, 4)]
    store.append(results, run, steps if row["outcome"] == "ok" else ())


@pytest.fixture
def results(tmp_path: Path, run_row: Row, failed_row: Row) -> Path:
    folder = tmp_path / "results"
    for index in range(3):
        stored(folder, run_row(index=index, tokens_per_s=400.0 + index))
        stored(folder, run_row(index=index, machine="pc-rtx-4090", backend="hf", tokens_per_s=1200.0 + index))
    stored(folder, failed_row("oom_device", "full", model="llama-3.3-70b", index=9))
    return folder


def test_results_become_a_page_its_twin_and_figures(results: Path, tmp_path: Path) -> None:
    written = page.write(results, tmp_path / "out")
    figures = [f"figures/{name}.svg" for name in ("winners", "reach", "claims", "memory", "speed", "ratios")]
    names = ["lesson.html", "lesson.md", *figures]
    assert written.paths == tuple(tmp_path / "out" / name for name in names)
    assert not written.damaged
    html = written.paths[0].read_text()
    assert all(path.read_text() in html for path in written.paths[2:])
    assert "3.00×" in html
    assert sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file()) == sorted(written.paths)


def test_an_empty_folder_gives_a_page_and_removes_figures_no_longer_due(results: Path, tmp_path: Path) -> None:
    page.write(results, tmp_path / "out")
    (tmp_path / "out/figures/mine.svg").write_text("not ours")
    written = page.write(tmp_path / "nothing", tmp_path / "out")
    names = ["winners.svg", "reach.svg", "claims.svg"]
    assert [path.name for path in written.paths] == ["lesson.html", "lesson.md", *names]
    assert sorted(path.name for path in (tmp_path / "out/figures").iterdir()) == sorted(["mine.svg", *names])


def test_damaged_files_are_named_and_the_rest_is_reported(results: Path, tmp_path: Path) -> None:
    victim = sorted((results / "runs/machine=pc-rtx-4090").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-40])
    written = page.write(results, tmp_path / "out")
    assert next(each.path for each in written.damaged) == victim
    html = written.paths[0].read_text()
    assert f"runs/machine=pc-rtx-4090/{victim.name}" in html
    assert str(tmp_path) not in html
    assert "Damaged files" in html
    assert "6: 5 ok" in html


def test_the_same_results_give_the_same_bytes_in_another_process_and_place(results: Path, tmp_path: Path) -> None:
    here = page.write(results, tmp_path / "here")
    code = "import sys, pathlib; from bench.report.page import write; write(*map(pathlib.Path, sys.argv[1:]))"
    environment = {
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C.UTF-8",
        "HOME": str(tmp_path),
        "MPLCONFIGDIR": str(tmp_path),
    }
    moved = results.rename(tmp_path / "moved")
    subprocess.run([sys.executable, "-c", code, str(moved), str(tmp_path / "there")], env=environment, check=True, timeout=120)
    for path in here.paths:
        other = tmp_path / "there" / path.relative_to(tmp_path / "here")
        assert other.read_bytes() == path.read_bytes(), path.name


def test_times_are_told_in_utc(results: Path, tmp_path: Path) -> None:
    html = page.write(results, tmp_path / "out").paths[0].read_text()
    assert datetime(2026, 3, 1, 9, tzinfo=UTC).strftime("%Y-%m-%d %H:%M UTC") in html
