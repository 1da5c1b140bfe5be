"""The winner map as a section."""

from dataclasses import replace

import pandas as pd
import pytest
from advised import MAC, PC, machine, model, world

from bench.advise.stack import Known
from bench.claims.rules import ROOM
from bench.predict.prediction import NO_UP_TO, YES_FROM
from bench.refine.gather import gathered_map
from bench.refine.winners import Contest, WinnerMap
from bench.refine.winners import contest as judged
from bench.report import winners
from bench.report.document import Section
from bench.report.language import LANGUAGES, speaking

NAMES = {PC: "RTX 4090", MAC: "M3 Ultra"}
MACHINES = (machine(PC), machine(MAC))


@pytest.fixture(scope="module")
def found() -> WinnerMap:
    """8B fits both, 14B the Mac alone, 70B neither, by LoRA; QLoRA on 32B is near the card's edge."""
    known = Known(pd.DataFrame(), world())
    return gathered_map(known, [model(name) for name in ("8b", "14b", "32b", "70b")], (512, 2048), MACHINES)


@pytest.fixture(scope="module")
def section(found: WinnerMap) -> Section:
    made = winners.winners(found, MACHINES)
    assert made is not None
    return made


def row(section: Section, *start: str) -> dict[str, str]:
    table = section.details[0].tables[0]
    (cells,) = [cells for cells in table.rows if tuple(cell.text for cell in cells[: len(start)]) == start]
    return {heading: cell.text for (heading, _), cell in zip(table.columns, cells, strict=True)}


def test_without_contests_there_is_no_section(found: WinnerMap) -> None:
    assert winners.winners(None, MACHINES) is None
    assert winners.winners(WinnerMap(PC, MAC, (), ()), MACHINES) is None


def test_every_contest_stands_in_the_table(section: Section, found: WinnerMap) -> None:
    assert len(section.details[0].tables[0].rows) == len(found.contests)


def test_the_tables_are_folded_and_what_is_predicted_alone_is_counted(section: Section, found: WinnerMap) -> None:
    assert section.tables == ()
    assert section.figure is not None
    assert f"{len(found.contests)} of {len(found.contests)} fields rest on predictions alone." in section.texts[0]
    measured = replace(found.contests[0], tiers=("measured", "predicted"))
    other = winners.winners(replace(found, contests=(measured, *found.contests[1:])), MACHINES)
    assert other is not None
    assert f"{len(found.contests) - 1} of {len(found.contests)} fields rest on predictions alone." in other.texts[0]


def test_the_faster_wins_by_its_factor(section: Section) -> None:
    told = row(section, "llama-3.1-8b", "lora", "2,048")
    assert told["winner"] == "RTX 4090 8.8×"
    assert told["times as fast"] == "8.8×"
    assert told["evidence"] == "predicted"
    assert told["fits the first"].startswith("yes, ")
    low, high = (float(end) for end in told["interval"].split(" – "))
    assert low < 8.8 < high


def test_the_only_one_that_fits_wins_and_what_the_other_lacks_is_told(section: Section) -> None:
    told = row(section, "qwen3-14b", "lora", "2,048")
    assert told["winner"] == "M3 Ultra only"
    assert told["times as fast"] == ""
    assert told["fits the first"].startswith("no, lacks ")
    assert told["fits the second"].startswith("yes, ")


def test_where_neither_fits_nobody_wins(section: Section) -> None:
    assert row(section, "llama-3.3-70b", "lora", "512")["winner"] == "neither fits"


def test_a_slower_first_machine_has_its_interval_turned_over() -> None:
    known = Known(pd.DataFrame(), world(rates={PC: 1e12, MAC: 4e12}))
    made = winners.winners(gathered_map(known, [model("8b")], (512,), MACHINES), MACHINES)
    assert made is not None
    told = row(made, "llama-3.1-8b", "lora", "512")
    low, high = (float(end) for end in told["interval"].split(" – "))
    assert told["winner"].startswith("M3 Ultra ")
    assert low < float(told["times as fast"].removesuffix("×")) < high


def test_flips_are_told_between_neighbours(section: Section) -> None:
    table = section.details[1].tables[0]
    headings = [heading for heading, _ in table.columns]
    rows = [dict(zip(headings, (cell.text for cell in cells), strict=True)) for cells in table.rows]
    flip = next(
        each for each in rows if each["method"] == "lora" and each["along"] == "size" and each["held fixed"] == "2,048 tokens"
    )
    assert (flip["up to"], flip["from"]) == ("llama-3.1-8b", "qwen3-14b")
    assert flip["winner there"].startswith("RTX 4090")
    assert flip["winner from there"] == "M3 Ultra only"
    assert flip["about"].endswith("B")


def test_machines_have_short_names() -> None:
    assert [winners.short_name(profile) for profile in MACHINES] == ["RTX 4090", "M3 Ultra"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_map_is_told_in_every_language(code: str, found: WinnerMap) -> None:
    with speaking(code):
        assert winners.winners(found, MACHINES) is not None


def contest(found: WinnerMap, name: str, method: str = "lora") -> Contest:
    return next(each for each in found.contests if each.model == model(name).name and each.method == method)


def test_outcomes_are_told_in_a_few_words(found: WinnerMap) -> None:
    assert winners.outcome(contest(found, "8b"), NAMES) == "RTX 4090 8.8×"
    assert winners.outcome(contest(found, "14b"), NAMES) == "M3 Ultra only"
    assert winners.outcome(contest(found, "70b"), NAMES) == "neither fits"
    assert winners.outcome(replace(contest(found, "70b"), why="not known"), NAMES) == "not known"


def test_what_probably_does_not_fit_has_no_winner_in_the_map_or_its_table(found: WinnerMap) -> None:
    each = contest(found, "14b")
    mac = each.stacks[1]
    assert mac.fit is not None
    doubtful = judged(each.stacks[0], replace(mac, fit=replace(mac.fit, fits="tight", probability=0.18)))
    assert winners.outcome(doubtful, NAMES) == "probably neither fits"
    made = winners.winners(replace(found, contests=(doubtful,)), MACHINES)
    assert made is not None
    told = row(made, "qwen3-14b", "lora")
    assert (told["winner"], told["chance"]) == ("probably neither fits", "82%")
    assert winners.nobody("undecided") == "undecided"


def test_a_choice_that_is_not_sure_has_a_question_mark(found: WinnerMap) -> None:
    assert winners.outcome(replace(contest(found, "8b"), chance=0.7), NAMES) == "RTX 4090 8.8× ?"


def test_a_winner_that_may_not_fit_is_called_tight(found: WinnerMap) -> None:
    sure = contest(found, "8b")
    first = sure.stacks[0]
    assert first.fit is not None
    tight = replace(sure, stacks=(replace(first, fit=replace(first.fit, fits="tight")), sure.stacks[1]))
    assert (winners.is_tight(sure), winners.is_tight(tight)) == (False, True)
    assert winners.outcome(tight, NAMES) == "RTX 4090 8.8×, tight"


def test_the_lead_is_the_winners_over_the_others(found: WinnerMap) -> None:
    sure = contest(found, "8b")
    assert winners.leads_by(replace(sure, winner=MAC, ratio=0.5)) == "2.0×"
    assert winners.leads_by(replace(sure, ratio=None)) == ""


def test_what_tight_means_here_is_told_beside_what_it_means_of_a_claim(found: WinnerMap) -> None:
    section = winners.winners(found, MACHINES)
    assert section is not None
    (told,) = [text for each in section.details for text in each.texts if "Tight" in text]
    assert "between 10% and 90%" in told
    assert (NO_UP_TO, YES_FROM, ROOM) == (0.1, 0.9, 0.1), "the caption names these"
