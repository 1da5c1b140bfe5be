"""The verdict table of a README, between two markers, and the check that it is not stale.

In: a Markdown file and the section of every claim (`bench.report.verdicts`). Out: the same file with what stands between the
markers replaced; or one message where it does not say what the results say. Nothing else of the file is touched.
"""

from __future__ import annotations

from pathlib import Path

from bench.claims.gather import trial
from bench.files import atomic
from bench.reading.strict import printable
from bench.report.document import Document, Section
from bench.report.page import table_in_markdown
from bench.report.verdicts import EVERY, every_claim
from bench.spec import BadInput

BEGIN, END = "<!-- verdicts -->", "<!-- /verdicts -->"
COMMAND = "wingspan report --readme"


def judged(results: Path, own: Path | None = None) -> Section:
    """The section of verdicts on the results, in English, without the rest of the report."""
    return _there(every_claim(trial(results, own).judged))


def of(document: Document) -> Section:
    """The section of verdicts of a report."""
    return _there(next((section for section in document.sections if section.anchor == EVERY), None))


def _there(section: Section | None) -> Section:
    if section is None:
        raise BadInput("there are no claims, so there is no table of verdicts")
    return section


def splice(path: Path, verdicts: Section) -> bool:
    """Put the table into the file, or into the one that a link leads to, whole or not at all; whether that changed anything.

    Raises BadInput where the markers do not stand there once each, in order; OSError naming the file.
    """
    text = _text(path)
    new = spliced(text, verdicts, path.name)
    if new == text:
        return False
    file = path.resolve()
    with atomic.staged(file, new.encode()) as temporary:
        atomic.republish(temporary, file)
    return True


def refuse_stale(path: Path, verdicts: Section) -> None:
    """Raises BadInput where the file's table is not what the results say, or has no place."""
    text = _text(path)
    if spliced(text, verdicts, path.name) != text:
        raise BadInput(f"{path.name}: its table of verdicts is stale; `{COMMAND} {path.name}` writes it anew")


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{printable(str(path))}: no UTF-8 text at byte {error.start}; save it as UTF-8") from None


def spliced(text: str, verdicts: Section, name: str) -> str:
    """The text with the table between its markers, in lines that end as its own do."""
    if (text.count(BEGIN), text.count(END)) != (1, 1) or text.index(BEGIN) > text.index(END):
        raise BadInput(f"{name}: put one line {BEGIN} and below it one line {END} where the table of verdicts is to stand")
    before, _, rest = text.partition(BEGIN)
    table = f"{BEGIN}\n{_content(verdicts)}\n{END}"
    return before + (table.replace("\n", "\r\n") if "\r\n" in text else table) + rest.partition(END)[2]


def _content(verdicts: Section) -> str:
    """The texts of the section and its table, which has every claim."""
    return "\n".join([*verdicts.texts, "", table_in_markdown(verdicts.tables[-1])])
