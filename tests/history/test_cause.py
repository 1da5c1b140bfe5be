"""What changed around a shift."""

from __future__ import annotations

import pandas as pd
from night_rows import CELL, NEWER, compare, night, rows, since

from bench.environments import Difference
from bench.history.cause import cause
from bench.history.series import tracks

TORCH = Difference("package", "torch", "2.13.0", "2.14.0")


def around(frame, before, after):
    track = next(each for each in tracks(frame) if each.cell == CELL)
    return cause(track, night(before), night(after), compare)


def test_an_upgrade_between_the_two_nights_is_named():
    found = around(rows([1.0] * 4, nights=since(2, 4)), 1, 2)
    (step,) = found.steps
    assert (step.before, step.night, step.differences) == (night(1), night(2), (TORCH,))
    assert found.attributed_to == "environment"


def test_nothing_changed():
    found = around(rows([1.0] * 4), 1, 2)
    assert (found.steps, found.nearby, found.mixed, found.attributed_to) == ((), (), (), "nothing recorded")


def test_what_the_stack_made_of_it_and_the_harness_itself_are_named():
    newer = {"implementation": [("attention", "flash")], "source_revision": "d" * 40}
    (step,) = around(rows([1.0] * 3, nights=since(2, 3, newer)), 1, 2).steps
    assert [(each.kind, each.name) for each in step.differences] == [("harness", "harness"), ("implementation", "attention")]


def test_a_run_that_failed_before_it_told_its_implementation_names_none():
    failed = {"implementation": [], "outcome": "crashed", **NEWER}
    (step,) = around(rows([1.0] * 3, nights=since(2, 3, failed)), 1, 2).steps
    assert step.differences == (TORCH,)


def test_among_nights_without_a_level_it_says_between_which_it_was():
    flagged = {"flags": ("slept",)}
    nights = {2: flagged, 3: {**flagged, **NEWER}, **since(4, 6)}
    (step,) = around(rows([1.0] * 6, nights=nights), 1, 4).steps
    assert (step.before, step.night) == (night(2), night(3))


def test_on_nights_without_the_cell_its_neighbours_tell():
    frame = pd.concat(
        [
            rows([1.0, 1.0, None, None, 1.0], nights=since(4, 5)),
            rows([1.0] * 5, cell="other/lora/hf@cpu", cell_key="b", nights=since(3, 5)),
        ]
    )
    (step,) = around(frame, 1, 4).steps
    assert (step.before, step.night) == (night(2), night(3))


def test_neighbours_in_another_environment_do_not_speak_for_the_cell():
    frame = pd.concat([rows([1.0, 1.0, None, 1.0]), rows([1.0] * 4, cell="other/lora/hf@cpu", cell_key="b", nights=since(0, 4))])
    assert around(frame, 1, 3).steps == ()


def test_two_changes_are_two_steps():
    newest = {**NEWER, "epoch_digest": "9" * 16, "os_version": "Test OS 2"}
    flagged = {"flags": ("slept",)}
    first, second = around(rows([1.0] * 5, nights={2: {**NEWER, **flagged}, **since(3, 5, newest)}), 1, 3).steps
    assert (first.differences, second.night) == ((TORCH,), night(3))
    assert [each.kind for each in second.differences] == ["os"]


def test_a_change_one_night_away_is_told_as_such():
    found = around(rows([1.0] * 5, nights=since(3, 5)), 1, 2)
    assert [(each.before, each.night) for each in found.nearby] == [(night(2), night(3))]
    found = around(rows([1.0] * 5, nights=since(1, 5)), 1, 2)
    assert [(each.before, each.night) for each in found.nearby] == [(night(0), night(1))]
    assert around(rows([1.0] * 6, nights=since(5, 6)), 1, 2).nearby == ()


def test_a_night_within_which_the_environment_changed_is_named():
    frame = rows([1.0] * 3)
    for name, value in NEWER.items():
        frame[name] = [value if place >= 5 else old for place, old in enumerate(frame[name])]
    found = around(frame, 0, 1)
    assert found.mixed == (night(1),)
    assert found.attributed_to == "environment"


def test_where_only_the_harness_changed_it_is_suspected_itself():
    assert around(rows([1.0] * 3, nights=since(2, 3, {"source_revision": "d" * 40})), 1, 2).attributed_to == "harness"
