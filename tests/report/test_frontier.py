"""Edges read off rows, and the parts of memory."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from bench.report.document import Section
from bench.report.findings import Findings, gather
from bench.report.frontier import frontier, parts
from bench.report.markdown import literal
from bench.report.page import compose, to_html, to_markdown

Rows = Callable[..., dict[str, Any]]


def found(rows: list[dict[str, Any]], readings: pd.DataFrame | None = None) -> Findings:
    steps = pd.DataFrame(columns=["run_id", "phase", "duration_s"])
    return gather(pd.DataFrame(rows), steps, readings=readings)


def at_length(run_row: Rows, failed_row: Rows, length: int, *, fits: bool, **fields: Any) -> dict[str, Any]:
    sizes = {
        "sequence_length": length, "batch_size": 1, "suite": "frontier", "capacity_bytes": 24_000_000_000,
        "run_id": f"run-{length}-{fields.get('model', '8b')}", "workload_digest": f"{length}-{fields.get('model', '8b')}",
        "predicted_held_bytes": 10_000_000 * length,
    }  # fmt: skip
    return run_row(**{**sizes, **fields}) if fits else failed_row("oom_device", "out of memory", **{**sizes, **fields})


def cells(section: Section | None) -> list[dict[str, str]]:
    assert section is not None
    (table,) = section.tables
    return [dict(zip([heading for heading, _ in table.columns], [cell.text for cell in row], strict=True)) for row in table.rows]


def test_an_edge_lies_between_the_largest_that_ran_and_the_smallest_that_did_not(run_row: Rows, failed_row: Rows) -> None:
    lengths = {512: True, 2048: True, 2304: False, 8192: False}
    rows = [at_length(run_row, failed_row, length, fits=fits) for length, fits in lengths.items()]
    (edge,) = cells(frontier(found(rows)))
    assert edge["size"] == "sequence_length"
    assert (edge["largest that ran"], edge["smallest that did not"], edge["predicted"]) == ("2,048", "2,304", "2,304")
    assert edge["run ids"] == "run-2048-8b, run-2304-8b"
    assert edge["capacity"] == "24.0 GB"
    assert "doubts" not in edge


def test_runs_of_other_conditions_make_edges_of_their_own(run_row: Rows, failed_row: Rows) -> None:
    rows = [at_length(run_row, failed_row, length, fits=length < 1024) for length in (512, 1024)]
    rows += [
        at_length(run_row, failed_row, length, fits=length < 256, flags=["limited"], capacity_bytes=10**9, run_id=f"l-{length}")
        for length in (128, 256)
    ]
    told = {(edge["capacity"], edge["largest that ran"]) for edge in cells(frontier(found(rows)))}
    assert told == {("24.0 GB", "512"), ("1.00 GB", "128")}


def test_the_largest_model_and_what_lives_on_swap(run_row: Rows, failed_row: Rows) -> None:
    models = {"1b": 10**9, "8b": 8 * 10**9, "70b": 70 * 10**9}
    rows = [
        at_length(run_row, failed_row, 2048, fits=True, model=name, parameters=size, flags=["swapping"] if name == "70b" else [])
        for name, size in models.items()
    ]
    (edge,) = cells(frontier(found(rows)))
    assert (edge["size"], edge["largest that ran"], edge["smallest that did not"]) == ("model", "8b", "70b")


def test_growing_memory_is_a_doubt_and_nothing_that_ran_is_said(run_row: Rows, failed_row: Rows) -> None:
    rows = [
        at_length(run_row, failed_row, 512, fits=True, flags=["growing"]),
        at_length(run_row, failed_row, 1024, fits=False),
    ]
    assert cells(frontier(found(rows)))[0]["doubts"] == "growing"
    none = [at_length(run_row, failed_row, length, fits=False) for length in (512, 1024)]
    (edge,) = cells(frontier(found(none)))
    assert (edge["largest that ran"], edge["smallest that did not"]) == ("none", "512")


def test_without_both_sides_there_is_no_section(run_row: Rows, failed_row: Rows) -> None:
    assert frontier(found([at_length(run_row, failed_row, length, fits=True) for length in (512, 1024)])) is None
    assert frontier(found([at_length(run_row, failed_row, 512, fits=False)])) is None


def test_parts_stand_in_a_row_a_run(run_row: Rows) -> None:
    taken = {"weights": 16e9, "gradients": 0.0, "activations": 2e9, "<b>": 1e9}
    readings = pd.DataFrame(
        [{"run_id": "one", "meter": "parts", "scope": part, "value": value} for part, value in taken.items()]
        + [{"run_id": "one", "meter": "host", "scope": "machine", "value": 7.0}]
    )
    rows = [run_row(run_id="one"), run_row(run_id="two", index=1)]
    (row,) = cells(parts(found(rows, readings)))
    assert (row["weights"], row["activations"], row["together"], row["run id"]) == ("16.0 GB", "2.00 GB", "19.0 GB", "one")
    assert row["gradients"] == "0 GB"
    assert parts(found(rows)) is None
    document = compose(pd.DataFrame(rows), pd.DataFrame(columns=["run_id", "phase", "duration_s"]), readings=readings)
    assert "Parts of memory" in to_html(document)
    assert literal("Parts of memory") in to_markdown(document)
