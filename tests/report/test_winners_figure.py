"""The winner map, drawn."""

from dataclasses import replace

import pandas as pd
from advised import MAC, PC, machine, model, world

from bench.advise.stack import Known
from bench.refine.gather import gathered_map
from bench.refine.winners import Contest, WinnerMap
from bench.report.winners_figure import is_tight, leads_by, outcome, winners_figure

NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}
MACHINES = (machine(PC), machine(MAC))
FOUND = gathered_map(Known(pd.DataFrame(), world()), [model("8b"), model("14b"), model("70b")], (512, 2048), MACHINES)


def contest(name: str, method: str = "lora") -> Contest:
    return next(each for each in FOUND.contests if each.model == model(name).name and each.method == method)


def test_nothing_to_draw() -> None:
    assert winners_figure(WinnerMap(PC, MAC, (), ()), NAMES) is None


def test_the_text_alternative_counts_the_fields() -> None:
    drawn = winners_figure(FOUND, NAMES)
    assert drawn is not None
    assert f"A map of {len(FOUND.contests)} fields" in drawn.svg
    wins = sum(each.winner == PC for each in FOUND.contests)
    assert f"RTX 4090 wins {wins}" in drawn.svg


def test_the_same_map_gives_the_same_bytes() -> None:
    assert winners_figure(FOUND, NAMES) == winners_figure(FOUND, NAMES)


def test_outcomes_are_told_in_a_few_words() -> None:
    assert outcome(contest("8b"), NAMES) == "RTX 4090 8.8×"
    assert outcome(contest("14b"), NAMES) == "M3 Ultra only"
    assert outcome(contest("70b"), NAMES) == "neither fits"
    assert outcome(replace(contest("70b"), why="not known"), NAMES) == "not known"


def test_a_choice_that_is_not_sure_has_a_question_mark() -> None:
    assert outcome(replace(contest("8b"), chance=0.7), NAMES) == "RTX 4090 8.8× ?"


def test_a_winner_that_may_not_fit_is_called_tight() -> None:
    found = contest("8b")
    first = found.stacks[0]
    assert first.fit is not None
    tight = replace(found, stacks=(replace(first, fit=replace(first.fit, fits="tight")), found.stacks[1]))
    assert (is_tight(found), is_tight(tight)) == (False, True)
    assert outcome(tight, NAMES) == "RTX 4090 8.8×, tight"
    assert winners_figure(replace(FOUND, contests=(tight,)), NAMES) != winners_figure(replace(FOUND, contests=(found,)), NAMES)


def test_the_lead_is_the_winners_over_the_others() -> None:
    found = contest("8b")
    assert leads_by(replace(found, winner=MAC, ratio=0.5)) == "2.0×"
    assert leads_by(replace(found, ratio=None)) == ""
