"""The claims one by one."""

import pytest
from judgements import claim, estimate, judged, texts, winner_claim

from bench.claims.claim import Claim, Expected
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
    assert {"value", "interval", "n", "runs, rows or command"} <= set(headings)


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


def test_what_is_lacking_is_not_called_free() -> None:
    found = values("fit", *(estimate(value=0.0, low=None, high=None, headroom=room) for room in (-0.35, 0.0)))
    assert found == ["does not run, lacks 35%", "does not run, 0% free"]


def test_a_prediction_saw_nothing_run_and_its_far_tail_is_a_bound() -> None:
    chances = (1.0, 0.9996, 0.92, 0.001, 0.0004, 2.3e-11, 0.0)
    found = values("fit", *(estimate(tier="predicted", value=value, low=None, high=None) for value in chances))
    over, under = "probability over 0.999", "probability under 0.001"
    assert found == [over, over, "probability 0.92", "probability 0.0010", under, under, under]


def ratio_row(of: Claim, **fields: object) -> dict[str, str]:
    table = detail(judged("verified", of, estimates=(estimate(**fields),), value=None)).tables[0]
    headings = [heading for heading, _ in table.columns]
    return dict(zip(headings, (cell.text for cell in table.rows[0]), strict=True))


@pytest.mark.parametrize("tier", ["measured", "published", "predicted"])
def test_a_ratio_has_both_sides_with_their_unit_beside_it(tier: str) -> None:
    ratio = claim(kind="ratio", quantity="tokens_per_s", unit="×", expected=Expected(2, 4))
    row = ratio_row(ratio, tier=tier, value=2.0, low=1.8, high=2.2, sides=(3040.0, 1520.0))
    assert (row["value"], row["first ÷ second"]) == ("2.00×", "3,040 tokens/s ÷ 1,520 tokens/s")
    peaks = claim(kind="ratio", quantity="peak_bytes", unit="×", expected=Expected(0.5, 0.5))
    assert ratio_row(peaks, tier=tier, value=0.5, sides=(6e9, 12e9))["first ÷ second"] == "6.00 GB ÷ 12.0 GB"
    assert ratio_row(winner_claim(), tier=tier, value=2.0, sides=(3040.0, 1520.0))["first ÷ second"].endswith("tokens/s")


def test_what_is_no_ratio_has_no_sides() -> None:
    assert "first ÷ second" not in ratio_row(claim())


def test_predicted_figures_stand_beside_their_commands() -> None:
    """As a shell takes them, one after the other."""
    commands = ("wingspan predict --modules q_proj,v_proj", "wingspan predict --rank 8")
    assert ratio_row(claim(), tier="predicted", evidence=commands)["runs, rows or command"] == "; ".join(commands)
    assert ratio_row(claim())["runs, rows or command"] == "run-a, run-b, run-c"


def test_a_winner_is_told_by_the_ratio_or_as_the_only_one() -> None:
    found = values("winner", estimate(value=2.5), estimate(value=float("inf")), estimate(value=0.0))
    assert values("winner", estimate(value=float("nan"), low=None, high=None)) == ["neither can"]
    assert found == ["2.50×", "only the first can", "only the second can"]


def test_all_claims_of_a_number_are_drawn() -> None:
    section = evidence.one_by_one([judged()])
    assert section is not None
    assert isinstance(section.figure, Sketch)
    assert here(section.figure)() == claims([judged()])


def test_a_row_of_one_side_is_shown_in_its_own_unit_and_never_as_a_ratio() -> None:
    rate = estimate(tier="published", value=154.6, low=None, high=None, quantity="tokens_per_s", refused="another model (a)")
    assert values("winner", rate) == ["155 tokens/s"]
    ratio = claim(kind="ratio", quantity="peak_bytes", unit="×", expected=Expected(0.5, 0.5))
    assert ratio_row(ratio, tier="published", value=6e9, low=None, high=None, quantity="peak_bytes")["value"] == "6.00 GB"
