"""Warnings of the predictor in three languages: each that a stack of ours brings forth is known by its shape."""

from __future__ import annotations

import re

import pytest

from bench.claims.asked import cells
from bench.claims.claim import Side
from bench.predict.answer import predict
from bench.refine.gather import lesson_machines, lesson_models
from bench.report.forewarned import forewarned
from bench.report.language import speaking
from bench.spec import Workload


def notes() -> set[str]:
    """Every note on the lesson's models by the stacks of both machines."""
    found: set[str] = set()
    for profile in lesson_machines():
        for model in lesson_models():
            for work in (
                Workload(model=model, method="full", sequence_length=2048),
                Workload(model=model, method="qlora", sequence_length=2048, rank=16, modules="all", quantization_bits=4),
            ):
                for cell in cells(Side(machines=(profile.name,)), profile, work):
                    made = predict(cell, profile)
                    found |= {*made.memory.notes, *made.speed.notes}
    return found


def test_every_note_on_the_lessons_work_is_said_in_the_readers_language() -> None:
    found = notes()
    assert any("unsloth's rules" in note for note in found)
    assert any("mostly an assumption" in note for note in found)
    for code in ("fr", "ro"):
        with speaking(code):
            assert [note for note in found if forewarned(note) == note] == []


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        (
            "speed: its share of the machine's rates was fitted on few sources (rates: 2, sources: 1), so its interval is"
            " mostly an assumption",
            "2",
        ),
        ("unknown architecture phi: read as a mixture of 8 experts with its sizes, hence a wider interval", "8"),
        ("watts: 85% of the limit of 450 W, as other machines drew; no reading of this one is known", "85"),
    ],
)
def test_numbers_and_names_within_a_note_stay(note: str, kept: str) -> None:
    with speaking("ro"):
        assert forewarned(note) != note
        assert kept in re.findall(r"\d+", forewarned(note))
    assert forewarned(note) == note


def test_a_note_that_nobody_knows_stays_as_it_is() -> None:
    with speaking("fr"):
        assert forewarned("something new") == "something new"
