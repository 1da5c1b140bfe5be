"""The support matrix as a section."""

from bench.backends.probe import Probe
from bench.report.document import Section
from bench.report.language import speaking
from bench.report.techniques import techniques
from bench.support import Answer, Matrix
from bench.techniques import PLACES, Clue, Technique

SAID = {"en": "A technique", "fr": "Une technique", "ro": "O tehnică"}
KNOWN = (
    Technique(
        id="one", title=SAID, use=SAID,
        clues={place: Clue(stack=place[0], home=place[1], probe=Probe(look="one:x")) for place in PLACES},
    ),
)  # fmt: skip


def matrix(reason: str = "there") -> Matrix:
    """yes, probed; no, by a source; unknown; nothing at all."""
    first, second, third, _ = PLACES
    common = {"technique": "one", "reason": reason, "asked": "one:x"}
    return Matrix(
        (
            Answer(stack=first[0], home=first[1], has="yes", probed=True, versions={"torch": "2.13.0"}, **common),  # type: ignore[arg-type]
            Answer(stack=second[0], home=second[1], has="no", probed=False, versions={}, source="a manual", **common),  # type: ignore[arg-type]
            Answer(stack=third[0], home=third[1], has="unknown", probed=False, versions={}, **common),  # type: ignore[arg-type]
        )
    )


def made(found: Matrix) -> Section:
    section = techniques(found, KNOWN)
    assert section is not None
    return section


def test_nothing_known_makes_no_section() -> None:
    assert techniques(None, KNOWN) is None
    assert techniques(matrix(), ()) is None


def test_marks_say_what_was_probed_what_is_said_and_what_is_not_known() -> None:
    (row,) = made(matrix()).tables[0].rows
    assert [cell.text for cell in row] == ["A technique", "✓ yes", "(✗ no)", "?", "?", "A technique"]


def test_versions_and_reasons_stand_there() -> None:
    section = made(matrix("a reason"))
    assert section.tables[0].notes == ("hf: torch 2.13.0",)
    rows = [[cell.text for cell in row] for row in section.details[0].tables[0].rows]
    assert rows[0][-2:] == ["a reason", "torch 2.13.0"]
    assert rows[1][-2:] == ["a reason", "a manual"]


def test_titles_come_in_the_readers_language() -> None:
    with speaking("ro"):
        assert made(matrix()).tables[0].rows[0][0].text == "O tehnică"
