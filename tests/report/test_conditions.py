"""The conditions: every declared field is told, once where it is shared, by workload where it differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from bench.report import conditions
from bench.report.document import Section
from bench.report.findings import gather
from bench.spec import WORKLOAD_FIELDS

Row = Callable[..., dict[str, Any]]
FIELDS: dict[str, Any] = dict.fromkeys(WORKLOAD_FIELDS[2:]) | {
    **{"batch_size": 2, "sequence_length": 64, "learning_rate": 1e-4, "gradient_checkpointing": True, "seed": 0},
    **{"rank": 8.0, "modules": "q_proj,k_proj,v_proj,o_proj", "weights_dtype": "float32"},
}


def made(*rows: dict[str, Any]) -> Section:
    return conditions.conditions(gather(pd.DataFrame(list(rows)), pd.DataFrame()))


def shared(section: Section) -> dict[str, str]:
    return {row[0].text: row[1].text for row in section.tables[0].rows}


def test_what_all_runs_share_is_said_once_and_no_field_is_forgotten(run_row: Row) -> None:
    section = made(run_row(**FIELDS), run_row(**FIELDS, backend="hf", device="cpu"))
    told = shared(section)
    assert len(section.tables) == 1
    assert (told["batch_size"], told["learning_rate"], told["gradient_checkpointing"]) == ("2", "0.0001", "yes")
    assert (told["seed"], told["rank"], told["modules"]) == ("0", "8", "attention (q_proj, k_proj, v_proj, o_proj)")
    assert (told[conditions.STEPS], told[conditions.WARMUP]) == ("10", "3")
    (note,) = section.tables[0].notes
    assert all(name in told or name in note for name in WORKLOAD_FIELDS[2:])


def test_what_differs_stands_beside_its_workloads(run_row: Row) -> None:
    rows = [run_row(**FIELDS), run_row(**{**FIELDS, "rank": None}, method="full", warmup_steps=2)]
    section = made(*rows)
    told = [
        {heading: cell.text for (heading, _), cell in zip(section.tables[1].columns, row, strict=True)}
        for row in section.tables[1].rows
    ]
    assert "rank" not in shared(section)
    assert told == [
        {"workloads": "llama-3.1-8b/batch_size=2 full", "rank": "none", conditions.STEPS: "11", "runs": "1"},
        {"workloads": "llama-3.1-8b/batch_size=2 lora", "rank": "8", conditions.STEPS: "10", "runs": "1"},
    ]


def test_steps_that_differ_within_a_workload_are_all_told_and_failures_say_nothing(run_row: Row, failed_row: Row) -> None:
    rows = [run_row(index=0), run_row(index=1, steps=23), {**run_row(index=2, steps=5), "outcome": "crashed"}]
    assert shared(made(*rows))[conditions.STEPS] == "10 or 20"
    assert shared(made(failed_row("oom_device", "full", steps=0, warmup_steps=0)))[conditions.STEPS] == "no run ended ok"


def test_older_files_say_what_they_did_not_record(run_row: Row) -> None:
    section = made({name: value for name, value in run_row().items() if name != "warmup_steps"})
    assert shared(section)[conditions.STEPS] == "13 in all, warm-up not recorded"
    assert any(note.startswith("Not recorded: ") and "rank" in note for note in section.tables[0].notes)


def test_a_field_that_is_null_is_not_the_same_as_one_that_is_zero() -> None:
    assert conditions.in_words("rank", None) == conditions.in_words("rank", float("nan")) == "none"
    assert conditions.in_words("seed", 0) == "0"


@pytest.mark.parametrize(("names", "told"), [("strange", "strange"), ("v_proj,q_proj", "q_proj, v_proj")])
def test_modules_outside_the_known_sets_are_listed(names: str, told: str) -> None:
    assert conditions.in_words("modules", names) == told


def test_many_workloads_are_counted(run_row: Row) -> None:
    rows = [run_row(model=f"m{index}", batch_size=1 + index // 11) for index in range(12)]
    assert made(*rows).tables[1].rows[0][0].text.endswith(" and 3 more")


def test_the_rule_of_warm_up_and_the_lengths_that_it_came_to_are_told(run_row: Row, old_row: Row) -> None:
    told = shared(
        made(run_row(index=0, warmup_rule="fixed: 3 steps"), run_row(index=1, warmup_rule="fixed: 3 steps", warmup_steps=7))
    )
    assert (told[conditions.RULE], told[conditions.WARMUP]) == ("fixed: 3 steps", "3–7")
    old = shared(made(old_row()))
    assert (old[conditions.RULE], old[conditions.WARMUP]) == ("not recorded", "3")


def test_devices_are_told_as_they_were_set_on_each_machine(run_row: Row) -> None:
    def row(index: int, limit: str) -> dict[str, Any]:
        settings = [("power_limit_w", limit), ("persistence", "on")]
        return run_row(index=index, machine="pc-rtx-4090", backend="hf", device_settings=settings)

    table = made(row(0, "450"), row(1, "320"), run_row(index=2)).tables[-1]
    assert table.title == "Device settings"
    assert [[cell.text for cell in line] for line in table.rows] == [
        ["pc-rtx-4090", "cuda", "persistence", "on"],
        ["pc-rtx-4090", "cuda", "power_limit_w", "320 or 450"],
    ]
    assert all(table.title != "Device settings" for table in made(run_row()).tables)
