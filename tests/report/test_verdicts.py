"""The first screen."""

import pytest
from judgements import claim, estimate, judged, winner_claim

from bench.claims.claim import VERDICTS
from bench.report import verdicts
from bench.report.language import LANGUAGES, speaking

ALL = [judged(verdict, claim(f"c.{place}", f"statement {place}")) for place, verdict in enumerate(VERDICTS)]


def test_no_claims_make_no_section() -> None:
    assert verdicts.glance([]) is None


def test_every_claim_stands_there_under_its_verdict_and_by_itself() -> None:
    section = verdicts.glance(ALL)
    assert section is not None
    groups, every = section.tables
    assert [row[2].text for row in groups.rows] == [f"c.{place}" for place in range(len(VERDICTS))]
    assert [row[4].text for row in every.rows] == [each.claim.id for each in ALL]
    assert [row[1].text for row in every.rows] == [each.claim.statement["en"] for each in ALL]


def test_verdicts_differ_in_word_and_in_mark() -> None:
    section = verdicts.glance(ALL)
    assert section is not None
    words = [row[0].text.split("\u00a0") for row in section.tables[1].rows]
    assert len({mark for mark, *_ in words}) == len({" ".join(word) for _, *word in words}) == len(VERDICTS)


def test_a_claim_leads_to_its_own_place() -> None:
    section = verdicts.glance(ALL)
    assert section is not None
    assert section.tables[1].rows[0][4].links == (("c.0", "claim-c.0"),)
    assert section.tables[0].rows[0][2].links == (("c.0", "claim-c.0"),)


def test_the_text_counts_the_verdicts() -> None:
    section = verdicts.glance([judged("verified"), judged("verified"), judged("refuted")])
    assert section is not None
    assert "3 claims" in section.texts[0]
    assert "2 verified, 1 refuted" in section.texts[0]


def test_the_number_comes_with_what_its_intervals_span() -> None:
    assert verdicts.found(judged()).split() == ["12.0", "(11.0", "to", "13.0)", "GB"]
    assert verdicts.found(judged(low=None, high=None)).split() == ["12.0", "GB"]
    assert verdicts.found(judged(value=float("inf"))) == ""


def test_where_there_is_no_number_the_ruling_stands_for_it() -> None:
    section = verdicts.glance([judged("refuted", winner_claim(), value=None, reason="the claimed one wins 0 of 2")])
    assert section is not None
    assert section.tables[1].rows[0][2].text == "the claimed one wins 0 of 2"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "measured, n = 3"),
        ({"tiers": ("predicted",)}, "predicted"),
        ({"tiers": ("measured", "published"), "estimates": (estimate(n=2), estimate(n=5))}, "measured, published, n = 7"),
        ({"tiers": (), "estimates": ()}, ""),
    ],
)
def test_what_it_rests_on_is_named(fields: dict[str, object], text: str) -> None:
    section = verdicts.glance([judged(**fields)])  # type: ignore[arg-type]
    assert section is not None
    assert section.tables[1].rows[0][3].text == text


@pytest.mark.parametrize("code", LANGUAGES)
def test_statements_come_in_the_readers_language(code: str) -> None:
    with speaking(code):
        section = verdicts.glance([judged()])
    assert section is not None
    assert section.tables[1].rows[0][1].text == f"A model takes 18 GB ({code})"


def test_invisible_characters_of_a_statement_become_visible_and_its_spaces_stay() -> None:
    section = verdicts.glance([judged("verified", claim(text="18\u202fGB\u202e"))])
    assert section is not None
    assert section.tables[1].rows[0][1].text == "18\u202fGB\ufffd (en)"
