"""Verdicts in words and as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from claim_rows import MAC, PC, claim

from bench.claims import told
from bench.claims.claim import Estimate, Judged

SPEED = claim("ratio", quantity="tokens_per_s", expected=(2, 4), unit="×", sides=(PC, MAC))
SEEN = Estimate(tier="measured", what="8b lora", who="x", value=math.inf, n=3, evidence=("r1", "r2"))
JUDGED = Judged(
    claim=SPEED, verdict="refined", reason="1 of 1 says so", tiers=("measured",), value=6.0, low=5.0, high=7.0, estimates=(SEEN,)
)


def test_the_keys_of_the_contract():
    (made,) = json.loads(json.dumps(told.document([JUDGED]), allow_nan=False))["claims"]
    wanted = {"id", "verdict", "tier", "value", "low", "high", "unit", "n", "evidence", "text"}
    assert wanted <= made.keys()
    assert (made["verdict"], made["tier"], made["value"], made["n"], made["evidence"]) == (
        "refined",
        "measured",
        6.0,
        3,
        ["r1", "r2"],
    )
    assert made["estimates"][0]["value"] is None


def test_a_line_says_the_verdict_the_number_and_the_rule():
    text = told.describe([JUDGED])
    assert "refined (measured)" in text
    assert "found 6× (5× to 7×); 1 of 1 says so" in text
    assert text.endswith("1 claims: 1 refined")


ENDS = replace(JUDGED, value=None, least=1.5, most=9.0, speaking=2, estimates=(SEEN, SEEN, SEEN))


def test_a_number_says_of_how_many_answers_it_speaks():
    assert "found 6× (5× to 7×), in 1 of 3 answers; " in told.describe([replace(ENDS, value=6.0, speaking=1)])
    assert "found 6× (5× to 7×); " in told.describe([replace(ENDS, value=6.0, speaking=3)])


def test_what_has_no_middle_is_told_by_its_ends():
    assert "found 1.5× to 9×, in 2 of 3 answers, on either side of what is claimed; " in told.describe([ENDS])
    assert "found 6× to 9×, in 2 of 3 answers; " in told.describe([replace(ENDS, least=6.0)])


def test_the_ends_and_the_count_stand_in_json_beside_the_contracts_keys():
    (made,) = json.loads(json.dumps(told.document([ENDS]), allow_nan=False))["claims"]
    assert {key: made[key] for key in ("value", "least", "most", "speaking", "answers")} == {
        "value": None, "least": 1.5, "most": 9.0, "speaking": 2, "answers": 3
    }  # fmt: skip
    assert [each["value"] for each in made["estimates"]] == [None] * 3


def test_what_neither_can_do_is_no_number_in_json():
    json.dumps(told.document([replace(JUDGED, estimates=(replace(SEEN, value=math.nan),))]), allow_nan=False)


def test_amounts_are_in_the_claims_unit():
    peak = claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB")
    share = claim("value", quantity="capacity_share", expected=(0.75, 0.75), unit="%")
    rate = claim("value", quantity="tokens_per_s", expected=(1, 1), unit="tokens/s")
    assert [told.amount(peak, 18.04e9), told.amount(share, 0.754), told.amount(rate, 1234.5)] == [
        "18 GB",
        "75.4%",
        "1,230 tokens/s",
    ]


def test_another_language():
    assert "il en est ainsi" in told.describe([JUDGED], "fr")


def test_a_space_that_does_not_break_is_a_space_at_a_terminal():
    statement = {"en": "16\u00a0GB \u001b", "fr": "16\u00a0Go\u202f!", "ro": "c"}
    said = replace(JUDGED, claim=replace(SPEED, statement=statement))
    assert "16 GB \\x1b" in told.describe([said])
    assert "16 Go !" in told.describe([said], "fr")
