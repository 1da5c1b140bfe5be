"""The verdict table of the README."""

from __future__ import annotations

from pathlib import Path

import pytest
from judgements import claim, judged
from markdown_it import MarkdownIt

from bench.report import readme, verdicts
from bench.report.document import Document, Section
from bench.spec import BadInput

ROOT = Path(__file__).parents[2]
TEXT = f"# One\n\n{readme.BEGIN}\nold\n{readme.END}\n\n## Two\n"
HOSTILE = "<script>alert(1)</script> | `a` **b** [c](http://evil.example) <!-- /verdicts -->"


def section(*found: object) -> Section:
    made = verdicts.every_claim(found or [judged("verified")])  # type: ignore[arg-type]
    assert made is not None
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "README.md"
    file.write_text(TEXT)
    return file


def test_the_projects_own_readme_says_what_the_results_say() -> None:
    readme.refuse_stale(ROOT / "README.md", readme.judged(ROOT / "results"))


def test_the_table_stands_between_the_markers_and_the_rest_stays(path: Path) -> None:
    assert readme.splice(path, section())
    text = path.read_text()
    assert text.startswith(f"# One\n\n{readme.BEGIN}\n")
    assert text.endswith(f"{readme.END}\n\n## Two\n")
    assert "old" not in text
    assert "| ✓\u00a0verified | A model takes 18 GB (en) |" in text
    tokens = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    assert tokens.count("table_open") == 1


def test_again_changes_nothing(path: Path) -> None:
    readme.splice(path, section())
    assert not readme.splice(path, section())
    readme.refuse_stale(path, section())


def test_a_file_with_the_line_ends_of_windows_keeps_them(path: Path) -> None:
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert readme.splice(path, section())
    content = path.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > 8
    readme.refuse_stale(path, section())


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("LINK.md")
    link.symlink_to(path.name)
    assert readme.splice(link, section())
    assert link.is_symlink()
    assert "A model takes 18 GB" in path.read_text()


def test_a_stale_table_is_refused(path: Path) -> None:
    with pytest.raises(BadInput, match=r"README\.md: its table of verdicts is stale; `wingspan report --readme README.md`"):
        readme.refuse_stale(path, section())
    readme.splice(path, section())
    with pytest.raises(BadInput, match="stale"):
        readme.refuse_stale(path, section(judged("refuted")))


@pytest.mark.parametrize("text", ["", readme.BEGIN, f"{readme.END}{readme.BEGIN}", TEXT + TEXT])
def test_markers_have_to_stand_there_once_in_order(text: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(BadInput, match="put one line"):
        readme.splice(path, section())
    assert path.read_text() == text


def test_hostile_statements_are_inert_there(path: Path) -> None:
    readme.splice(path, section(judged("verified", claim(text=HOSTILE))))
    text = path.read_text()
    assert text.count(readme.END) == 1
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert not {"link_open", "strong_open", "code_inline", "html_inline"} & kinds
    assert [token.type for token in tokens].count("html_block") == 2  # the markers
    assert not readme.splice(path, section(judged("verified", claim(text=HOSTILE))))


def test_the_section_is_found_in_a_report() -> None:
    made = section()
    assert readme.of(Document("t", (), (), (Section("x", "x"), made))) is made
    with pytest.raises(BadInput, match="no claims"):
        readme.of(Document("t", (), (), ()))


def test_a_file_that_is_no_text_is_told(tmp_path):
    path = tmp_path / "r.md"
    path.write_bytes(b"<!-- verdicts -->\xff<!-- /verdicts -->")
    with pytest.raises(BadInput, match="no UTF-8 text at byte 17"):
        readme.refuse_stale(path, readme.judged(tmp_path))
