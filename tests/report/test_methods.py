"""Methods and biases: every sentence is counted from what the page itself rests on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from judgements import claim, estimate, judged

from bench.cited import read
from bench.claims.published import prepared
from bench.predict.calibrate import scored
from bench.report import lesson
from bench.report.findings import Findings, gather
from bench.report.language import speaking
from bench.report.lesson import Lesson
from bench.report.methods import methods

Row = Callable[..., dict[str, Any]]
RESULTS = Path(__file__).parents[2] / "results"


def findings(*rows: dict[str, Any]) -> Findings:
    return gather(pd.DataFrame(list(rows)), pd.DataFrame())


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    """The lesson on an empty folder: nothing measured, nothing published."""
    return lesson.gather_lesson(findings(), tmp_path_factory.mktemp("nothing"))


def told(found: Findings, tried: Lesson | None = None) -> dict[str, str]:
    """The biases by what they concern."""
    section = methods(found, tried)
    assert section is not None
    return {about.text: text.text for about, text in section.tables[0].rows}


def test_without_runs_and_claims_there_is_nothing_to_say() -> None:
    assert methods(findings()) is None


def test_the_documents_that_say_more_are_named_and_are_there(nothing: Lesson) -> None:
    section = methods(findings(), nothing)
    assert section is not None
    for name in ("measuring", "verdicts", "predicting"):
        assert any(f"docs/{name}.md" in text for text in section.texts)
        assert (RESULTS.parent / f"docs/{name}.md").is_file()


def test_of_runs_alone_nothing_is_said_of_verdicts_and_predictions(run_row: Row) -> None:
    found = findings(run_row())
    section = methods(found)
    assert section is not None
    assert len(section.texts) == 1
    assert set(told(found)) == {"few runs", "stand-ins", "meters"}


def test_what_verdicts_rest_on_is_counted(nothing: Lesson) -> None:
    some = (judged("verified"), judged("predicted-to-fail", tiers=("predicted",)), judged("untested", tiers=(), estimates=()))
    text = told(findings(), replace(nothing, judged=some))["what verdicts rest on"]
    assert text == "Of 3 verdicts, by the strongest evidence of each: 1 measured, 1 predicted, 1 nothing."


def test_machines_and_stacks_without_a_run_are_named_until_they_have_one(nothing: Lesson, run_row: Row) -> None:
    before = told(findings(), nothing)
    assert before["machines without a run"].startswith("No run on mac-studio-m3-ultra and pc-rtx-4090 ended ok")
    stacks = before["stacks without a run"]
    assert all(name in stacks for name in ("mlx@metal on mac-studio-m3-ultra", "unsloth@cuda on pc-rtx-4090", "hf@cuda"))
    after = told(findings(run_row()), nothing)
    assert after["machines without a run"].startswith("No run on pc-rtx-4090 ended ok")
    assert "mlx@metal" not in after["stacks without a run"]
    held = told(findings(run_row(tier="stand-in")), nothing)
    assert held["machines without a run"] == before["machines without a run"]


def test_the_warnings_are_those_of_advise(nothing: Lesson) -> None:
    found = told(findings(), nothing)
    assert found["predictions of unsloth@cuda"].startswith("unsloth's rules come from reading its source")
    notes = {note for each in nothing.winners.contests for stack in each.stacks for note in stack.notes}
    assert notes <= set(found.values())


def test_how_well_the_predictor_hits_is_its_score_on_the_published_rows(nothing: Lesson) -> None:
    assert "predicted peaks" not in told(findings(), nothing)
    rows = prepared(read(RESULTS))
    card = scored(rows.observed)
    found = told(findings(), replace(nothing, card=card, published=rows, judged=()))
    assert found["predicted peaks"].startswith(f"{len(card.peaks)} published, each source predicted by the others: ")
    stated = [abs(each.error) for each in card.peaks if each.seen.stated]
    assert f"Of those, {len(stated)} state every condition" in found["predicted peaks"]
    assert f": {sum(stated) / len(stated):.1%} off," in found["predicted peaks"]
    assert "By stack: hf " in found["predicted rates"]
    wrong = [each.wrong for each in card.fits]
    assert f"out of memory: {wrong.count('false fit')}." in found["predicted fits"]
    assert found["published rows"].startswith(f"{len(rows.rows)} rows that others published, of which 0 judge a claim and 0 more")


def test_published_rows_that_judge_are_told_from_those_beside(nothing: Lesson) -> None:
    rows = prepared(read(RESULTS))
    first, second, third = (each.id for each in rows.rows[:3])
    beside = (estimate(evidence=(first, second)), estimate(evidence=(third,)))
    one = judged(estimates=(estimate(tier="published", evidence=(first,)),), others=beside)
    text = told(findings(), replace(nothing, published=rows, judged=(one,)))["published rows"]
    assert "of which 1 judge a claim and 2 more are shown beside one" in text


def test_what_this_project_chose_is_said(nothing: Lesson) -> None:
    text = told(findings(), nothing)["conditions"]
    assert all(
        each in text for each in ("sequence_length 2048", "gradient_checkpointing true", "rank 16", "llama-3.2-1b", "15% of")
    )
    assert "conditions" not in told(findings(), replace(nothing, claims=(claim(models=(), methods=()),)))
    assert "77.3 GB of 103 GB" in told(findings(), nothing)["capacities"]


def test_flags_are_counted_with_what_they_spoil(run_row: Row) -> None:
    rows = [run_row(index=0, flags=["throttled"]), run_row(index=1, flags=["throttled", "odd"]), run_row(index=2)]
    text = told(findings(*rows))["flagged runs"]
    assert text.startswith("Of 3 runs that ended ok 2 are flagged: ")
    assert "throttled 2 (spoils: time, energy)" in text
    assert "odd 1 (spoils: not known)" in text


def test_few_runs_and_stand_ins_and_meters_are_counted(run_row: Row, failed_row: Row, powered_row: Row) -> None:
    rows = [run_row(index=0), failed_row("timeout", "hung", index=1), run_row("qwen3-4b", index=2, tier="stand-in")]
    found = told(findings(*rows))
    assert found["few runs"] == "Of 2 cells that ran, 0 have no run whose times count and 2 have a single one: no interval."
    assert found["stand-ins"] == "Runs held to another machine's memory: 1. They speak of fit alone."
    assert "a peak was counted by the framework in 2, by the driver in 0, as memory of the process in 2" in found["meters"]
    assert found["meters"].endswith("No watts were metered.")
    assert told(findings(run_row()))["stand-ins"] == "No run was held to another machine's memory."
    assert told(findings(powered_row(), powered_row(index=1)))["meters"].endswith("Watts, by what they cover: soc 2.")


@pytest.mark.parametrize("code", ["fr", "ro"])
def test_all_of_it_is_told_in_the_readers_language(code: str, nothing: Lesson, run_row: Row) -> None:
    rows = prepared(read(RESULTS))
    tried = replace(nothing, card=scored(rows.observed), published=rows)
    found = findings(run_row(flags=["throttled"]))
    english = methods(found, tried)
    with speaking(code):
        theirs = methods(found, tried)
    assert english is not None
    assert theirs is not None
    assert len(theirs.tables[0].rows) == len(english.tables[0].rows)
    assert not {text for _, text in theirs.tables[0].rows} & {text for _, text in english.tables[0].rows}
    assert not set(theirs.texts) & set(english.texts)
