"""The grid that rows span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench import analysis
from bench.report.grid import grid

Row = Callable[..., dict[str, Any]]


def spanned(*rows: dict[str, Any]) -> pd.DataFrame:
    return grid(analysis.prepare(pd.DataFrame(list(rows))))


def test_every_workload_meets_every_backend_of_its_suite_and_machine(run_row: Row) -> None:
    rows = [run_row(), run_row(backend="hf", device="mps", method="full")]
    found = spanned(*rows, run_row(machine="pc-rtx-4090", backend="hf", model="qwen3-4b"))
    counts = {(row["party"], row["method"]): row["n_runs"] for row in found.to_dict("records")}
    assert counts == {
        ("hf@mps on mac-studio-m3-ultra", "full"): 1,
        ("hf@mps on mac-studio-m3-ultra", "lora"): 0,
        ("mlx@metal on mac-studio-m3-ultra", "full"): 0,
        ("mlx@metal on mac-studio-m3-ultra", "lora"): 1,
        ("hf@cuda on pc-rtx-4090", "lora"): 1,
    }


def test_runs_that_failed_or_are_flagged_are_no_measurement_but_were_run(run_row: Row, failed_row: Row) -> None:
    (cell,) = spanned(run_row(index=0, flags=["throttled"]), failed_row("crashed", "gone", index=1)).to_dict("records")
    assert (cell["n_runs"], cell["n_clean"], cell["n_usable"]) == (2, 0, 1)


def test_a_model_whose_size_only_some_rows_know_is_one_workload(run_row: Row) -> None:
    assert len(spanned(run_row(), run_row(backend="hf", device="mps", parameters=None))) == 2


def test_an_arm_waits_for_no_backend_but_its_own(run_row: Row) -> None:
    arms = {"1-eager": "hf", "2-unsloth": "unsloth"}
    rows = [
        run_row(backend=name, device="cuda", cell=f"llama-3.1-8b/lora/{name}@cuda/arm={arm}", run_id=arm)
        for arm, name in arms.items()
    ]
    found = spanned(*rows)
    assert [(row["work"], row["n_runs"]) for row in found.to_dict("records")] == [
        ("llama-3.1-8b/lora/arm=1-eager", 1),
        ("llama-3.1-8b/lora/arm=2-unsloth", 1),
    ]
