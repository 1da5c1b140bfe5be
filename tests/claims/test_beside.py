"""Rows that a claim cites stand beside it with every reason why they judge nothing."""

from __future__ import annotations

import pytest
from claim_rows import MAC, PC, claim

from bench import cited
from bench.cited import BUNDLED, Cited
from bench.claims.beside import against, cited_beside
from bench.claims.reader import CLAIMS, read_claims

FIT = {"kind": "fit", "fits": "tight", "sides": (PC,)}


def row(**fields) -> Cited:
    given = {"id": "one-1", "source": "where", "method": "LoRA", "model": "Llama-3.1-8B", "framework": "HF peft"}
    return Cited(**{**given, "hardware": "NVIDIA RTX 4090", "memory_gb": 24.0, "outcome": "ok", **fields})


def beside(rows: list[Cited], shown=(), **asked):
    asked = claim(**{**FIT, "cites": tuple(each.id for each in rows), **asked})
    return list(cited_beside(asked, {each.id: each for each in rows}, shown))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"meter": "vendor_claim"}, "a vendor's claim, not a measurement"),
        ({"hardware": None}, "another machine (not stated)"),
        ({"hardware": "NVIDIA A100-80GB", "memory_gb": 80.0}, "another machine (NVIDIA A100-80GB)"),
        ({"hardware": "2x NVIDIA RTX 4090"}, "several cards (2x NVIDIA RTX 4090)"),
        ({"method": "QLoRA"}, "another method (QLoRA)"),
        ({"method": "inference"}, "read while it generated, not while it trained"),
        ({"model": "Yi-34B-Chat"}, "another model (Yi-34B-Chat)"),
        ({"model": None}, "another model (not stated)"),
        ({"framework": "torchtune"}, "another trainer (torchtune)"),
        ({"framework": None}, "another trainer (not stated)"),
        ({"seq_len": 512}, "under other conditions: sequence_length 512"),
        (
            {"model": "Yi-34B-Chat", "seq_len": 512},
            "another model (Yi-34B-Chat); under other conditions: sequence_length 512",
        ),
        ({}, None),
    ],
)
def test_every_reason_against_a_row_is_told(fields, reason):
    assert against(claim(**FIT), row(**fields)) == reason
    (shown,) = beside([row(**fields)])
    assert shown.refused == reason or (reason is None and shown.refused == "cited beside the claim, and no more")


def test_a_row_keeps_its_source_and_its_words():
    (shown,) = beside([row(notes="fits at 97 percent; 47 min", model="Yi-34B-Chat")])
    assert (shown.tier, shown.source, shown.conditions) == ("published", "where", "fits at 97 percent; 47 min")
    assert (shown.value, shown.what, shown.who) == (1.0, "Yi-34B-Chat LoRA", "HF peft on NVIDIA RTX 4090")


def test_a_crash_has_no_answer_to_whether_it_fits():
    (shown,) = beside([row(outcome="crash")])
    assert shown.value is None
    assert shown.refused == "ended for another reason than memory; it states no figure of what is claimed"
    assert [each.value for each in beside([row(outcome="oom")])] == [0.0]


def test_a_row_that_stands_there_anyway_is_not_shown_twice():
    assert beside([row()], shown={"one-1"}) == []


@pytest.mark.parametrize(
    ("asked", "value", "quantity"),
    [
        ({"kind": "value", "quantity": "peak_bytes", "expected": (18e9, 18e9), "unit": "GB"}, 16e9, None),
        ({"kind": "value", "quantity": "power_w", "expected": (450, 450), "unit": "W", "scope": "wall"}, 400.0, None),
        ({"kind": "ratio", "quantity": "peak_bytes", "expected": (0.5, 0.5), "unit": "×", "sides": (PC, PC)}, 16e9, "peak_bytes"),
        (
            {"kind": "ratio", "quantity": "tokens_per_s", "expected": (2, 4), "unit": "×", "sides": (PC, MAC)},
            50.0,
            "tokens_per_s",
        ),
        ({"kind": "winner", "winner": "tie", "sides": (PC, MAC)}, 50.0, "tokens_per_s"),
        ({"kind": "value", "quantity": "capacity_share", "expected": (0.75, 0.75), "unit": "%"}, None, None),
    ],
)
def test_its_figure_is_of_what_is_claimed_and_never_passes_for_a_ratio(asked, value, quantity):
    sides = asked.pop("sides", (PC,))
    figures = row(peak_mem_bytes=16_000_000_000, meter="allocated", watts=400.0, tokens_per_s=50.0)
    (shown,) = beside([figures], **{"fits": None, "sides": sides, **asked})
    assert (shown.value, shown.quantity) == (value, quantity)
    assert shown.refused


def test_a_peak_per_parameter_is_of_the_rows_model():
    asked = {"kind": "value", "quantity": "peak_bytes_per_parameter", "expected": (2, 2.5), "unit": "GB per 1B", "fits": None}
    (shown,) = beside([row(peak_mem_bytes=16_000_000_000, meter="reserved")], **asked)
    assert shown.value == pytest.approx(16 / 8.03, rel=0.01)
    assert shown.refused == "meter reserved: not the framework's own peak"


def test_what_a_remark_says_was_published_is_cited_in_the_catalogue():
    rows, claims = cited.read(BUNDLED), read_claims(CLAIMS)
    told = [each for each in claims if any(word in each.remark.get("en", "") for word in ("publish", "report", "reading"))]
    assert {each.id for each in told if not each.cites} == {"winner.new-techniques", "mac.memory.share"}, (
        "of these the one speaks of techniques, the other of a reading that is missing"
    )
    assert {row_id for each in claims for row_id in each.cites} <= {row.id for row in rows}
