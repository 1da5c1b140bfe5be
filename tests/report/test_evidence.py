"""The claims one by one."""

from judgements import claim, estimate, judged, texts, winner_claim

from bench.report import evidence
from bench.report.beside import here
from bench.report.document import Detail, Sketch
from bench.report.figures.claims import claims


def detail(each: object) -> Detail:
    section = evidence.one_by_one([each])  # type: ignore[list-item]
    assert section is not None
    return section.details[0]


def test_no_claims_make_no_section() -> None:
    assert evidence.one_by_one([]) is None


def test_a_claim_says_ruling_number_conditions_and_remark() -> None:
    made = claim(conditions={"sequence_length": 2048, "gradient_checkpointing": True}, remark=texts("Depends on the dtype."))
    shown = detail(judged("inconclusive", made, more_runs=4))
    said = " ".join(shown.texts)
    assert shown.anchor == "claim-planted.claim"
    assert "inconclusive" in shown.title
    assert "A model takes 18 GB (en)" in shown.title
    for part in ("Found: 12.0 (11.0 to 13.0)", "1 of 1 says another number", "About 4 more runs", "Depends on the dtype. (en)"):
        assert part in said
    assert "sequence_length 2048, gradient_checkpointing true" in said


def test_what_judges_and_what_does_not_stand_apart() -> None:
    other = estimate(
        tier="published", refused="another trainer (x)", source="https://example.org/a", unstated=("rank",), low=None
    )
    shown = detail(judged(others=(other,)))
    assert [table.title for table in shown.tables] == ["Evidence", "Judging nothing"]
    headings = [heading for heading, _ in shown.tables[1].columns]
    row = dict(zip(headings, (cell.text for cell in shown.tables[1].rows[0]), strict=True))
    assert row["not used because"] == "another trainer (x)"
    assert row["source"] == "https://example.org/a"
    assert row["not stated"] == "rank"
    assert "interval" not in headings


def test_columns_that_are_empty_are_left_out() -> None:
    headings = [heading for heading, _ in detail(judged()).tables[0].columns]
    assert "source" not in headings
    assert {"value", "interval", "n", "runs or rows"} <= set(headings)


def test_too_many_answers_are_counted_instead() -> None:
    many = tuple(estimate(what=f"model-{place} full") for place in range(evidence.EVIDENCE_ROWS + 5))
    table = detail(judged(estimates=many)).tables[0]
    assert len(table.rows) == evidence.EVIDENCE_ROWS
    assert table.notes == ("5 more stand in “wingspan claims --json”.",)


def values(kind: str, *estimates: object) -> list[str]:
    made = winner_claim() if kind == "winner" else claim(kind="fit", quantity=None, unit=None, expected=None, fits="yes")
    table = detail(judged("verified", made, estimates=estimates, value=None)).tables[0]
    place = [heading for heading, _ in table.columns].index("value")
    return [row[place].text for row in table.rows]


def test_a_fit_is_told_in_words_with_its_room() -> None:
    found = values(
        "fit",
        *(estimate(value=value, low=None, high=None) for value in (1.0, 0.0, 0.42)),
        estimate(value=1.0, low=None, high=None, headroom=0.25),
    )
    assert found == ["runs", "does not run", "probability 0.42", "runs, 25% free"]


def test_a_winner_is_told_by_the_ratio_or_as_the_only_one() -> None:
    found = values("winner", estimate(value=2.5), estimate(value=float("inf")), estimate(value=0.0))
    assert found == ["2.50×", "only the first can", "only the second can"]


def test_all_claims_of_a_number_are_drawn() -> None:
    section = evidence.one_by_one([judged()])
    assert section is not None
    assert isinstance(section.figure, Sketch)
    assert here(section.figure)() == claims([judged()])
