"""The verdicts, at a glance and one by one."""

import pytest
from judgements import claim, estimate, judged, winner_claim

from bench.claims.claim import VERDICTS, Judged
from bench.report import verdicts
from bench.report.document import Section
from bench.report.language import LANGUAGES, speaking

ALL = [judged(verdict, claim(f"c.{place}", f"statement {place}")) for place, verdict in enumerate(VERDICTS)]


def test_no_claims_make_no_section() -> None:
    assert verdicts.glance([]) is None


def every(found: list[Judged]) -> Section:
    section = verdicts.every_claim(found)
    assert section is not None
    return section


def test_every_claim_stands_at_a_glance_under_its_verdict_and_in_a_table() -> None:
    glance = verdicts.glance(ALL)
    assert glance is not None
    assert [[text.split("\u00a0")[1] for text, _ in group.links] for group in glance.groups] == [
        [f"c.{place}"] for place in range(len(VERDICTS))
    ]
    assert glance.tables == ()
    (table,) = every(ALL).tables
    assert [row[4].text for row in table.rows] == [each.claim.id for each in ALL]
    assert [row[1].text for row in table.rows] == [each.claim.statement["en"] for each in ALL]


def test_verdicts_differ_in_word_and_in_mark() -> None:
    words = [row[0].text.split("\u00a0") for row in every(ALL).tables[0].rows]
    assert len({mark for mark, *_ in words}) == len({" ".join(word) for _, *word in words}) == len(VERDICTS)
    glance = verdicts.glance(ALL)
    assert glance is not None
    marks = [group.links[0][0].split("\u00a0")[0] for group in glance.groups]
    assert marks == [mark for mark, *_ in words]
    assert len({group.title for group in glance.groups}) == len(VERDICTS)


def test_a_claim_leads_to_its_own_place() -> None:
    glance = verdicts.glance(ALL)
    assert glance is not None
    assert every(ALL).tables[0].rows[0][4].links == (("c.0", "claim-c.0"),)
    assert glance.groups[0].links == (("✓\u00a0c.0", "claim-c.0"),)


def test_the_text_counts_the_verdicts() -> None:
    section = every([judged("verified"), judged("verified"), judged("refuted")])
    assert "3 claims" in section.texts[0]
    assert "2 verified, 1 refuted" in section.texts[0]


SUPPORT = claim("s", kind="support", quantity=None, unit=None, expected=None, techniques=("nf4",))


def test_the_top_says_on_what_the_verdicts_rest_the_strongest_of_each() -> None:
    found = [
        judged("verified", SUPPORT, tiers=("measured", "published")),
        judged("predicted-to-hold", tiers=("predicted",)),
        judged("predicted-to-fail", tiers=("predicted",)),
        judged("verified", tiers=("published", "measured")),
        judged("verified", tiers=("published",)),
        judged("refuted", tiers=("stand-in",)),
        judged("untested", tiers=(), estimates=()),
    ]
    assert verdicts.rests_on(found) == "1 measured, 1 stand-in, 1 probed, 1 published, 2 predicted, 1 nothing"
    glance = verdicts.glance(found)
    assert glance is not None
    assert f"Each of 7 claims leads to its ruling. The verdicts rest on: {verdicts.rests_on(found)}." in glance.texts


def test_what_packages_have_is_called_probed_and_nothing_else_is() -> None:
    assert verdicts.evidence_name(SUPPORT, "measured") == "probed"
    assert verdicts.evidence_name(SUPPORT, "published") == "published"
    assert verdicts.evidence_name(claim(), "measured") == "measured"
    rows = every([judged("verified", SUPPORT, tiers=("measured", "published"))]).tables[0].rows
    assert rows[0][3].text == "probed, published, n = 3"


def test_where_nothing_was_measured_the_probed_is_told_from_it() -> None:
    named = winner_claim()
    predicted = judged("predicted-to-hold", named, tiers=("predicted",), estimates=())
    alone = verdicts.glance([predicted])
    beside = verdicts.glance([predicted, judged("verified", SUPPORT)])
    assert alone is not None
    assert beside is not None
    assert alone.warnings[0].endswith("rests on what others published and on predictions.")
    assert "probed in packages on another computer" in beside.warnings[0]
    ran = judged("verified", named, estimates=(estimate(who="hf@cuda on pc-rtx-4090"),))
    seen = verdicts.glance([ran])
    assert seen is not None
    assert seen.warnings == ()


def test_the_number_comes_with_what_its_intervals_span() -> None:
    assert verdicts.found(judged()).split() == ["12.0", "(11.0", "to", "13.0)", "GB"]
    assert verdicts.found(judged(low=None, high=None)).split() == ["12.0", "GB"]
    assert verdicts.found(judged(value=float("inf"))) == ""


def test_a_number_says_of_how_many_answers_it_speaks() -> None:
    three = (estimate(),) * 3
    assert verdicts.found(judged(estimates=three, speaking=1)).endswith("GB, in 1 of 3 answers")
    assert verdicts.found(judged(estimates=three, speaking=3)).endswith("GB")


def test_what_contradicts_a_claim_from_either_side_is_told_by_its_ends() -> None:
    ends = judged(value=None, least=11e9, most=25e9, speaking=2, estimates=(estimate(),) * 3)
    assert verdicts.found(ends).replace("\u00a0", " ") == "11.0 to 25.0 GB, in 2 of 3 answers, on either side of what is claimed"
    with speaking("fr"):
        assert "de part et d’autre" in verdicts.found(ends)
    one_side = judged(value=None, least=1e9, most=11e9, speaking=3, estimates=(estimate(),) * 3)
    assert verdicts.found(one_side).replace("\u00a0", " ") == "1.00 to 11.0 GB"


def test_where_there_is_no_number_the_ruling_stands_for_it() -> None:
    section = every([judged("refuted", winner_claim(), value=None, reason="the claimed one wins 0 of 2")])
    assert section.tables[0].rows[0][2].text == "the claimed one wins 0 of 2"


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
    section = every([judged(**fields)])  # type: ignore[arg-type]
    assert section.tables[0].rows[0][3].text == text


@pytest.mark.parametrize("code", LANGUAGES)
def test_statements_come_in_the_readers_language(code: str) -> None:
    with speaking(code):
        section = every([judged()])
    assert section.tables[0].rows[0][1].text == f"A model takes 18 GB ({code})"


def test_invisible_characters_of_a_statement_become_visible_and_its_spaces_stay() -> None:
    section = every([judged("verified", claim(text="18\u202fGB\u202e"))])
    assert section.tables[0].rows[0][1].text == "18\u202fGB\ufffd (en)"
