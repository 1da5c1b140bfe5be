"""Memory, rates and ratios, in tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.catalog import machine_profiles
from bench.report import results
from bench.report.beside import here
from bench.report.document import Sketch, Table
from bench.report.findings import Findings, gather

Row = Callable[..., dict[str, Any]]


def findings(*rows: dict[str, Any]) -> Findings:
    return gather(pd.DataFrame(list(rows)), pd.DataFrame(), machine_profiles())


def entries(table: Table, row: int = 0) -> dict[str, str]:
    return {heading: cell.text for (heading, _), cell in zip(table.columns, table.rows[row], strict=True)}


def test_a_summary_tells_mean_interval_meters_and_evidence(run_row: Row) -> None:
    rows = [run_row(index=index, tokens_per_s=rate) for index, rate in enumerate((390.0, 400.0, 410.0))]
    summary = entries(results.speed(findings(*rows)).tables[0])
    assert summary["tokens/s"] == "400"
    assert summary["95% interval"] == "376 – 426"
    assert (summary["peak, framework"], summary["peak, process"]) == ("20.0 GB", "3.00 GB")
    assert (summary["clean runs"], summary["outcomes"], summary["evidence"]) == ("3", "3 ok", "measured")
    assert summary["implementation"] == "mlx-1"


def test_numbers_of_steps_are_told_and_where_they_were_pooled(run_row: Row) -> None:
    alike = results.speed(findings(run_row(index=0), run_row(index=1))).tables[0]
    assert entries(alike)["steps, warm-up + measured"] == "3 + 10"
    assert len(alike.notes) == 1
    mixed = results.speed(findings(run_row(index=0), run_row(index=1, warmup_steps=1, steps=3))).tables[0]
    assert entries(mixed)["steps, warm-up + measured"] == "1–3 + 2 or 10"
    assert mixed.notes[1] == "1 summary pools runs of different numbers of measured steps; no ratio is made of it."


def test_what_was_not_measured_is_empty_and_zero_is_zero(run_row: Row) -> None:
    summary = entries(results.speed(findings(run_row(framework_peak_bytes=None, load_s=0.0))).tables[0])
    assert summary["peak, framework"] == ""
    assert summary["95% interval"] == ""
    assert summary["to build"] == "0 s"


def test_a_stand_in_shows_its_peak_and_no_rate(run_row: Row) -> None:
    section = results.speed(findings(run_row(tier="stand-in")))
    summary = entries(section.tables[0])
    assert summary["tokens/s"] == ""
    assert summary["peak, framework"] == "20.0 GB"
    assert isinstance(section.figure, Sketch)
    assert here(section.figure)() is None


def test_implementations_are_spelt_out(run_row: Row) -> None:
    (row,) = results.speed(findings(run_row(implementation={"attention": "sdpa"}))).tables[1].rows
    assert [cell.text for cell in row] == ["mlx-1", "mlx", "attention=sdpa"]


def test_what_implementations_share_is_said_once(run_row: Row) -> None:
    shared = {"attention": "sdpa", "loss": "full logits"}
    rows = [run_row(index=0, implementation={**shared, "kept": "a"}), run_row(index=1, implementation={**shared, "kept": "b"})]
    table = results.speed(findings(*rows, run_row(index=2, backend="hf", implementation=shared))).tables[1]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["hf-1", "hf", "attention=sdpa; loss=full logits"],
        ["every mlx", "mlx", "attention=sdpa; loss=full logits"],
        ["mlx-1", "mlx", "kept=a"],
        ["mlx-2", "mlx", "kept=b"],
    ]


def test_ratios_say_how_to_read_them(run_row: Row) -> None:
    def pair(method: str, mlx: list[float], hf: list[float]) -> list[dict[str, Any]]:
        sides = [("mlx", "metal", mlx), ("hf", "mps", hf)]
        return [
            run_row(method=method, index=i, backend=b, device=d, tokens_per_s=r)
            for b, d, rates in sides
            for i, r in enumerate(rates)
        ]

    rows = [*pair("full", [300, 301], [100, 101]), *pair("lora", [100, 140], [101, 130]), *pair("qlora", [300], [100, 101])]
    rows += [{**row, "cell": f"other/{row['cell']}", "workload_digest": "o"} for row in pair("full", [100, 101], [300, 301])]
    section = results.ratios(findings(*[{**row, "run_id": str(number)} for number, row in enumerate(rows)]))
    readings = {entries(section.tables[0], row)["reading"] for row in range(4)}
    assert readings == {"first is faster", "second is faster", "not told apart", "a single run on a side: no interval"}
    assert " ".join(section.tables[0].title.split()) == "R1 mlx@metal on mac-studio-m3-ultra ÷ hf@mps on mac-studio-m3-ultra"
    assert all(re.fullmatch(r"mlx-\d ÷ hf-\d", entries(section.tables[0], row)["implementations"]) for row in range(4))
    assert section.tables[0].notes == ()
    assert {entries(section.tables[0], row)["evidence"] for row in range(4)} == {"measured"}


def test_refused_comparisons_of_one_reason_stand_together(run_row: Row, failed_row: Row) -> None:
    rows = [run_row(model=model) for model in ("llama-3.2-1b", "qwen3-4b")]
    rows += [failed_row("oom_device", "full", model=model, backend="hf") for model in ("llama-3.2-1b", "qwen3-4b")]
    section = results.ratios(findings(*rows))
    assert isinstance(section.figure, Sketch)
    assert here(section.figure)() is None
    refused = entries(section.tables[0])
    assert refused["refused, as"] == "hf@cuda on mac-studio-m3-ultra has no clean run (1 oom_device)"
    assert refused["workloads"] == "llama-3.2-1b lora, qwen3-4b lora"


def test_capacities_are_told_with_their_source(run_row: Row) -> None:
    table = results.memory(findings(run_row())).tables[0]
    assert [entries(table, row)["machine"] for row in range(2)] == ["mac-studio-m3-ultra", "pc-rtx-4090"]
    assert entries(table)["whole memory"] == "103 GB"
    assert entries(table)["source"]


def test_the_main_memory_of_an_unlisted_machine_is_told_too(run_row: Row) -> None:
    told = entries(results.memory(findings(run_row(machine="mine"))).tables[0], 2)
    assert (told["machine"], told["whole memory"], told["for one training process"]) == ("mine", "17.2 GB", "")
    assert told["source"].startswith("main memory")


def test_without_anything_to_draw_it_says_so(failed_row: Row) -> None:
    nothing = findings(failed_row("unsupported", "no", parameters=None))
    assert results.memory(nothing).instead == results.speed(nothing).instead == (results.NOTHING,)


def test_rates_that_stand_apart_are_noted_by_their_run(run_row: Row) -> None:
    rows = [run_row(index=index, tokens_per_s=rate) for index, rate in enumerate((400.0, 401.0, 399.0, 402.0, 398.0, 700.0))]
    note = results.speed(findings(*rows)).tables[0].notes[1]
    assert note.startswith("1 rate stands apart")
    assert rows[5]["run_id"] in note
    assert len(results.speed(findings(*rows[:5])).tables[0].notes) == 1


def test_the_peak_on_the_device_is_told_where_some_run_has_it(run_row: Row) -> None:
    peak = run_row(device_peak_bytes=5_000_000_000, device_peak_scope="process")
    assert entries(results.speed(findings(peak)).tables[0])["peak, device"] == "5.00 GB"
    assert "peak, device" not in entries(results.speed(findings(run_row())).tables[0])
