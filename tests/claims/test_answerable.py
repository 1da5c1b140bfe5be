"""Every claim of the catalogue has a suite that can answer it; one that none can is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from claim_rows import MAC, PC, claim

from bench.claims import answerable
from bench.claims.claim import Side
from bench.claims.reader import CLAIMS, read_claims

SUITES = Path(__file__).resolve().parents[2] / "suites"


@pytest.fixture(scope="module")
def suites():
    return answerable.suites_in(SUITES)


def test_every_claim_of_the_catalogue_can_be_answered(suites):
    assert answerable.gaps(read_claims(CLAIMS), suites) == []


@pytest.mark.parametrize(
    "asked",
    [
        claim("fit", fits="yes", sides=(PC,), conditions={"sequence_length": 12345}),
        claim("ratio", expected=(2, 4), sides=(Side(machines=("pc-rtx-4090",), devices=("cpu",)), MAC)),
        claim("fit", fits="yes", sides=(MAC,), models=("smollm2-360m",), conditions={"rank": 7}),
    ],
)
def test_one_that_no_suite_asks_is_told_with_the_remedy(suites, asked):
    (message, *_) = answerable.gaps([asked], suites)
    assert message.startswith(f"{asked.id}: no suite in suites/ has a cell that could answer it for ")
    assert message.endswith("; add its work to one, or mend the claim")


@pytest.mark.parametrize(
    "asked",
    [
        claim("support", techniques=("a",)),
        claim("value", quantity="memory_bytes_per_s", expected=(8e11, 8e11), unit="GB/s", sides=(MAC,), models=(), methods=()),
    ],
)
def test_what_doctor_answers_needs_no_cell(suites, asked):
    assert answerable.gaps([asked], []) == []
