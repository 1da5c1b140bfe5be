"""Watts, decoding and own runs on the card."""

from __future__ import annotations

from dataclasses import replace

from bench.cited import Cited
from bench.predict.decoding import Decoded
from bench.predict.fit_power import power_rows
from bench.predict.own_runs import Own
from bench.predict.score_beside import decoding_text, own_text, watts_text

BOARD = Cited(id="a-1", source="s", hardware="RTX 4090", method="QLoRA", watts=405.0)
MAC = Cited(id="b-1", source="s", hardware="Apple M3 Ultra 80-core (512GB)", method="inference", watts=135.0, notes="wall power")


def test_each_source_of_watts_is_predicted_by_the_other() -> None:
    found, refused = power_rows([BOARD, MAC, replace(BOARD, id="c-1", hardware="Mystery")])
    text = watts_text(found, refused)
    assert "| a | pc-rtx-4090 | training | 1 | 0.65 | 27.6% | -27.6% |" in text
    assert "| b | mac-studio-m3-ultra-80-core | decoding | 1 | 0.88 | 75.0% | +75.0% | 0% |" in text
    assert "| no limit is known of the machine | 1 |" in text
    assert "No watts" in watts_text((), {})


def test_rates_of_decoding_stand_beside_the_roofline() -> None:
    row = Decoded(id="p-1", source="p", machine="m", model="x", observed=100.0, predicted=120.0)
    assert "| p-1 | m | x | 100.0 | 120.0 | +20% |" in decoding_text([row], {})
    assert "MAPE 20.0%" in decoding_text([row], {})
    assert "No rate" in decoding_text((), {})


def test_own_runs_that_do_not_count_say_why() -> None:
    text = own_text(Own((), (("rate", "flagged unsteady"), ("rate", "flagged unsteady"), ("run", "outcome skipped")), 3))
    assert "3 found: 0 peaks, 0 rates and 0 outcomes" in text
    assert text.index("| rate | flagged unsteady | 2 |") < text.index("| run | outcome skipped | 1 |")
