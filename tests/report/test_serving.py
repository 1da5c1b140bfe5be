"""What the report says of serving: both rates, the first token, joules of generated tokens, and ratios of equal work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.report import conditions
from bench.report.document import Section, Table
from bench.report.findings import gather
from bench.report.serving import serving

Row = Callable[..., dict[str, Any]]
ASKED = {
    **{"method": "serve", "batch_size": 2, "prompt_tokens": 512, "generated_tokens": 128, "sequence_length": 640},
    **{"weights_dtype": "bfloat16", "quantization_bits": 4, "optimizer": None, "trainable_parameters": 0},
    **{"gradient_accumulation": 1, "gradient_checkpointing": False},
}
SEEN = {
    **{"tokens_per_s": 40.0, "prefill_tokens_per_s": 2500.0, "time_to_first_token_s": 0.41, "loss_tokens_per_s": None},
    **{"j_per_token": 1.25, "power_scope": "soc", "power_w": 50.0, "loss_first": None, "loss_last": None},
}


def made(*rows: dict[str, Any]) -> Section | None:
    return serving(gather(pd.DataFrame(list(rows)), pd.DataFrame()))


def told(table: Table) -> list[dict[str, str]]:
    headings = [heading for heading, _ in table.columns]
    return [dict(zip(headings, [cell.text for cell in row], strict=True)) for row in table.rows]


def test_nothing_served_is_nothing_told(run_row: Row) -> None:
    assert made(run_row()) is None


def test_a_cell_tells_its_lengths_both_rates_the_first_token_and_joules_with_their_scope(run_row: Row) -> None:
    section = made(run_row(**ASKED, **SEEN))
    assert section is not None
    (row,) = told(section.tables[0])
    assert (row["lengths"], row["weights"]) == ("2 × (512 + 128)", "4 bits")
    assert (row["prefill tokens/s"], row["time to first token, s"], row["decode tokens/s"]) == ("2,500", "0.410", "40.0")
    assert row["J per generated token"] == "1.25 (soc)"
    assert row["peak, framework"] == "20.0 GB"
    assert row["requests, warm-up + measured"] == "3 + 10"
    assert len(section.tables) == 1


def test_unquantised_weights_are_told_by_their_type_and_what_was_not_recorded_as_such(run_row: Row) -> None:
    def row(**fields: Any) -> dict[str, str]:
        section = made(run_row(**{**ASKED, **SEEN, **fields}))
        assert section is not None
        return told(section.tables[0])[0]

    assert row(quantization_bits=None)["weights"] == "bfloat16"
    assert row(quantization_bits=None, weights_dtype=None)["weights"] == "not recorded"
    assert row(prompt_tokens=None)["lengths"] == "not recorded"


def test_a_run_that_stands_in_for_another_machine_says_nothing_of_speed(run_row: Row) -> None:
    section = made(run_row(**ASKED, **SEEN, tier="stand-in"))
    assert section is not None
    (row,) = told(section.tables[0])
    assert "decode tokens/s" not in row
    assert row["peak, framework"] == "20.0 GB"


def test_prefill_rates_of_equal_work_are_divided_though_nothing_is_trained(run_row: Row) -> None:
    both = [run_row(**ASKED, **SEEN, index=index) for index in (0, 1)]
    other = {**SEEN, "prefill_tokens_per_s": 5000.0, "trainable_parameters": None}
    both += [run_row(**{**ASKED, **other}, index=index, backend="hf", device="mps") for index in (2, 3)]
    section = made(*both)
    assert section is not None
    cells, ratios = section.tables
    assert len(cells.rows) == 2
    (row,) = told(ratios)
    assert row["ratio"] in ("0.500×", "2.00×")
    assert row["clean runs"] == "2 ÷ 2"
    assert "hf-1" in row["implementations"]
    assert "mlx-1" in row["implementations"]


def test_conditions_tell_prompt_and_generation_in_place_of_what_training_uses(run_row: Row) -> None:
    section = conditions.conditions(gather(pd.DataFrame([run_row(**ASKED, **SEEN)]), pd.DataFrame()))
    shared = {row[0].text: row[1].text for row in section.tables[0].rows}
    assert (shared["prompt_tokens"], shared["generated_tokens"], shared["batch_size"]) == ("512", "128", "2")
    assert not {"sequence_length", "gradient_accumulation", "gradient_checkpointing", "optimizer"} & shared.keys()
