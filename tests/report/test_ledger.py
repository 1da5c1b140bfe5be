"""Holes, runs, origins and damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from bench.report import ledger
from bench.report.document import Section
from bench.report.findings import gather

Row = Callable[..., dict[str, Any]]


def entries(section: Section, row: int = 0) -> dict[str, str]:
    (table,) = section.tables
    return {heading: cell.text for (heading, _), cell in zip(table.columns, table.rows[row], strict=True)}


def made(make: Callable[..., Section], *rows: dict[str, Any], **more: Any) -> Section:
    return make(gather(pd.DataFrame(list(rows)), pd.DataFrame(), **more))


def test_a_cell_that_never_ran_is_a_hole_with_every_reason(failed_row: Row) -> None:
    rows = [failed_row("crashed", reason, index=index) for index, reason in enumerate(("signal 9", "signal 11", "signal 9"))]
    hole = entries(made(ledger.holes, *rows))
    assert hole["outcomes"] == "3 crashed"
    assert hole["reasons"] == "signal 11; signal 9"


def test_a_cell_of_which_flags_spoil_everything_is_a_hole_with_cause_and_remedy(run_row: Row) -> None:
    reasons = entries(made(ledger.holes, run_row(flags=["swapped"])))["reasons"]
    assert reasons.startswith("every ok run is flagged: swapped: the system swapped")
    assert "(remedy: close other programs" in reasons


def test_a_cell_spoilt_for_time_is_named_with_the_flags_and_shows_its_memory(run_row: Row, powered_row: Row) -> None:
    rows = [powered_row(index=0, flags=["throttled", "untracked-memory"]), powered_row(index=1, flags=["throttled"])]
    section = made(ledger.holes, *rows)
    hole = entries(section)
    assert section.tables[0].title == "Spoilt by flags"
    assert (hole["spoilt"], hole["outcomes"]) == ("time, energy", "2 ok (2 flagged)")
    assert hole["by"].startswith("throttled: the driver slowed")
    assert "untracked-memory" not in hole["by"]
    assert entries(made(ledger.holes, run_row(flags=["throttled"])))["spoilt"] == "time"


def test_a_kind_that_was_never_measured_is_not_spoilt(run_row: Row) -> None:
    assert made(ledger.holes, run_row(flags=["short-energy-window"])).tables == ()


def test_a_cell_that_ran_once_is_none(run_row: Row, failed_row: Row) -> None:
    section = made(ledger.holes, run_row(index=0), failed_row("crashed", "signal 9", index=1))
    assert section.tables == ()
    assert section.texts == ("None.",)


def test_pairs_that_the_grid_spans_and_nothing_ran_are_holes(run_row: Row) -> None:
    rows = [run_row(), run_row(backend="hf", device="mps"), run_row(method="full"), run_row(method="qlora", suite="another")]
    section = made(ledger.holes, *rows, run_row(machine="pc-rtx-4090", backend="hf"))
    (table,) = section.tables
    assert len(table.rows) == 1
    hole = entries(section)
    assert (hole["workload"], hole["method"], hole["suite"]) == ("llama-3.1-8b", "full", "lesson")
    assert hole["backend and machine"] == "hf@mps on mac-studio-m3-ultra"
    assert hole["outcomes"] == "not run yet"


def test_runs_go_by_machine_and_time_with_all_that_was_seen(run_row: Row, failed_row: Row) -> None:
    section = made(
        ledger.every_run, failed_row("timeout", "no event for 60 s", index=2), run_row(index=1, flags=["cold", "shared"])
    )
    first, second = entries(section, 0), entries(section, 1)
    assert (first["outcome"], first["flags"], first["loss, first → last"]) == ("ok", "cold, shared", "11.9 → 11.7")
    assert (first["tokens/s"], first["peak, framework"], first["evidence"]) == ("400", "20.0 GB", "measured")
    assert (second["outcome"], second["reason"], second["tokens/s"]) == ("timeout", "no event for 60 s", "")
    assert (second["loss, first → last"], second["slowest ÷ median"]) == ("", "")


def test_origins_name_digests_and_run_ids(run_row: Row) -> None:
    rows = [run_row(index=index, tokens_digest="t1", environment_digest="e1") for index in (1, 0)]
    origin = entries(made(ledger.provenance, *rows))
    assert (origin["tokens digest"], origin["packages digest"], origin["trainable parameters"]) == ("t1", "e1", "41,943,040")
    assert origin["run ids"] == ", ".join(sorted(row["run_id"] for row in rows))
    assert origin["workload digest"] == rows[0]["workload_digest"]


def test_damaged_files_are_listed_in_order() -> None:
    section = made(ledger.damaged, damaged=[("b", "seal"), ("a", "footer")])
    assert entries(section) == {"file": "a", "what is wrong": "footer"}


def test_copies_are_counted_and_named(run_row: Row) -> None:
    rows = [run_row(index=0), run_row(index=1)]
    section = made(ledger.copies, *rows, {**rows[0], "machine": "z-copy"})
    assert entries(section) == {"machine": "z-copy", "run id": rows[0]["run_id"]}
    assert section.texts[0].startswith("1 stored run bears the id of a run that is counted already")
    more = made(ledger.copies, *rows, *({**row, "machine": "z-copy"} for row in rows))
    assert more.texts[0].startswith("2 stored runs bear the id")
    assert len(made(ledger.every_run, *rows, {**rows[0], "machine": "z-copy"}).tables[0].rows) == 2


def test_what_disturbed_a_run_stands_in_its_row(run_row: Row) -> None:
    memory = {"device_peak_bytes": 5_000_000_000, "device_peak_scope": "device-less-before", "swap_growth_bytes": 2_000_000}
    rows = [run_row(index=index, tokens_per_s=400.0 + index) for index in range(5)]
    rows += [run_row(index=9, tokens_per_s=900.0, outlier_steps=2, others_cpu_share=1.25, **memory)]
    last, first = entries(made(ledger.every_run, *rows), 5), entries(made(ledger.every_run, *rows), 0)
    assert (last["peak, device"], last["swap growth"]) == ("5.00 GB (the whole device, less before)", "2.00 MB")
    assert (last["processor"], last["processor, others"], last["outlying steps"]) == ("0.98 cores", "1.2 cores", "2")
    assert (last["rate among its repeats"], first["rate among its repeats"]) == ("stands apart", "")
    assert (first["peak, device"], first["swap growth"], first["outlying steps"]) == ("", "0 GB", "0")


def test_columns_that_no_run_has_are_left_out(old_row: Row) -> None:
    old = entries(made(ledger.every_run, {**old_row(), "host_cpu_share": None, "swap_growth_bytes": None}))
    assert not {"peak, device", "swap growth", "processor", "processor, others", "outlying steps"} & set(old)
    assert old["tokens/s"] == "400"


def test_a_serving_run_tells_its_prefill_and_its_first_token_flagged_or_not(run_row: Row) -> None:
    served = run_row(index=1, prefill_tokens_per_s=1234.0, time_to_first_token_s=0.25, flags=["cpu-contention"])
    told = entries(made(ledger.every_run, run_row(index=0), served), 1)
    assert (told["prefill tokens/s"], told["to the first token"]) == ("1,234", "0.250 s")
    assert "prefill tokens/s" not in entries(made(ledger.every_run, run_row(index=0, prefill_tokens_per_s=None)))


def test_of_more_runs_than_a_page_can_hold_the_latest_are_shown_and_counted(
    run_row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "RUNS_SHOWN", 2)
    section = made(ledger.every_run, *(run_row(index=index) for index in range(5)))
    (table,) = section.tables
    assert len(table.rows) == 2
    assert table.notes[0].startswith("The latest 2 of 5 runs.")
    whole = made(ledger.every_run, run_row(index=0), run_row(index=1))
    assert whole.tables[0].notes == ()
