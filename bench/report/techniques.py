"""The support matrix: which stack has which technique, on which device, of which version.

In: the techniques of the catalogue and the answers that are stored (`bench.support`). Out: a section.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.report import wording
from bench.report.document import Cell, Column, Detail, Record, Section, tabulate
from bench.report.language import current, say, to_say
from bench.report.supported import support_reason
from bench.support import Answer, Matrix
from bench.techniques import HOMES, PLACES, Technique

_TEXT = to_say(
    "What the installed packages have, as “wingspan doctor --support” found it; ✓ and ✗ were probed, in brackets stands what a"
    " source says of what could not be, and ? is not known. A name that is found says that the technique is there, not how well"
    " it works."
)


def techniques(matrix: Matrix | None, known: Sequence[Technique]) -> Section | None:
    """The matrix, and folded away why each answer is what it is; None where nothing is known."""
    if matrix is None or not known:
        return None
    title = say("Techniques by stack")
    columns = (
        Column("technique", "title"),
        *(Column("@".join(place), "@".join(place), as_is=True) for place in PLACES),
        Column("good for", "use"),
    )
    rows = [_row(each, matrix) for each in known]
    versions = [
        say("{label}: {text}", label=stack, text=wording.plain(", ".join(f"{name} {version}" for name, version in found.items())))
        for stack in HOMES
        if (found := matrix.versions(stack))
    ]
    return Section(
        "techniques", title, (say(_TEXT),), tables=(tabulate(title, rows, columns, versions),), details=(_reasons(matrix, known),)
    )


def _row(technique: Technique, matrix: Matrix) -> Record:
    cells = {"@".join(place): _mark(matrix.of(technique.id, place)) for place in PLACES}
    return {"title": technique.title[current()], "use": technique.use[current()], **cells}


def _mark(answer: Answer | None) -> Cell:
    if answer is None or answer.has == "unknown":
        return Cell("?", "quiet")
    mark = say("✓ yes") if answer.has == "yes" else say("✗ no")
    return Cell(mark if answer.probed else f"({mark})", "good" if answer.has == "yes" else "bad")


def _reasons(matrix: Matrix, known: Sequence[Technique]) -> Detail:
    titles = {each.id: each.title[current()] for each in known}
    columns = (
        Column("technique", "title"),
        Column("stack", "stack"),
        Column("answer", "answer"),
        Column("reason", "reason"),
        Column("source", "source"),
    )
    rows = [
        {
            "title": titles.get(each.technique, each.technique),
            "stack": "@".join(each.place),
            "answer": _mark(each),
            "reason": wording.plain(support_reason(each.reason)),
            "source": wording.plain(each.evidence),
        }
        for each in matrix.answers
    ]
    title = say("Why each answer is what it is")
    return Detail("techniques-why", title, tables=(tabulate(title, rows, columns),))
