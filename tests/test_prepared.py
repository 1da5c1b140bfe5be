"""What is made of runs before anything is counted. (What the summaries make of it stands in tests/test_analysis.py.)"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from bench.prepared import copies, prepare


def rows(*runs: dict[str, Any]) -> pd.DataFrame:
    usual = {"machine": "one", "backend": "mlx", "device": "cpu", "cell": "m/lora/mlx@cpu", "outcome": "ok"}
    return pd.DataFrame([usual | run for run in runs])


@pytest.mark.parametrize(
    ("flag", "clean"), [((), (True, True, True)), (("unsteady",), (False, True, False)), (("swapping",), (False, False, False))]
)
def test_a_run_is_clean_in_what_none_of_its_flags_spoils(flag: tuple[str, ...], clean: tuple[bool, ...]) -> None:
    prepared = prepare(rows({"run_id": "a", "flags": list(flag)}, {"run_id": "b", "flags": []}))
    assert tuple(prepared.loc[0, ["clean", "clean_memory", "clean_energy"]]) == clean
    assert all(prepared.loc[1, ["clean", "clean_memory", "clean_energy"]])


def test_the_work_is_the_cell_without_backend_and_device() -> None:
    assert list(prepare(rows({"run_id": "a"}))["work"]) == ["m/lora"]


def test_copies_are_the_further_rows_of_an_id_by_machine_and_time() -> None:
    stored = rows({"run_id": "a", "machine": "two"}, {"run_id": "b"}, {"run_id": "a"}, {"run_id": None}, {"run_id": None})
    assert copies(stored).to_dict("records") == [{"machine": "two", "run_id": "a"}]
    assert len(prepare(stored)) == 4


def test_there_are_no_copies_where_no_id_repeats_or_none_was_stored() -> None:
    assert copies(rows({"run_id": "a"}, {"run_id": "b"})).empty
    assert copies(rows({}, {})).empty
    assert copies(pd.DataFrame()).empty
