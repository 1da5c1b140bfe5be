"""`wingspan export`: the stored runs for other tools.

In: a results folder. Out: comma-separated values; the storage that `pytest-benchmark compare` reads; or asv's ledger of nights
with its results and page. Nothing is measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import folder_option, json_option, results_option


@click.group()
def export() -> None:
    """The stored runs in the formats of other tools."""


@export.command("csv", short_help="For spreadsheets and pandas.")
@results_option
@click.option("--table", type=click.Choice(["runs", "steps", "readings"]), default="runs", show_default=True, help="Which table.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to; standard output where not given."
)
def comma_separated(results: Path, table: Any, out: Path | None) -> None:
    """Comma-separated values, for spreadsheets and pandas; maps and lists as JSON text."""
    from bench.export import csv

    with bad_input():
        if out is None:
            damaged = csv.write(results, table, sys.stdout)
        else:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("w", encoding="utf-8", newline="") as file:
                damaged = csv.write(results, table, file)
            click.echo(str(out), err=True)
    end(damaged)


@export.command("pytest-benchmark", short_help="For `pytest-benchmark compare`.")
@results_option
@folder_option("--out", ".benchmarks", "Storage of pytest-benchmark: a folder per machine, a file per night or day.")
def pytest_benchmark(results: Path, out: Path) -> None:
    """The measured steps of every cell, for `pytest-benchmark compare`."""
    from bench.export import pytest_benchmark as storage

    with bad_input():
        done = storage.write(results, out)
    for line in done.left_out:
        click.echo(line, err=True)
    click.echo("\n".join(map(str, done.paths)) if done.paths else f"{results}: no run to export", err=not done.paths)
    end(done.damaged)


@export.command("asv", short_help="For `asv show` and `asv publish`, and its page.")
@results_option
@folder_option("--html", "reports/asv", "Folder for asv's page.")
@click.option("--no-html", is_flag=True, help="Record the nights alone, without the page.")
@json_option
def asv(results: Path, html: Path, no_html: bool, as_json: bool) -> None:
    """The nights in asv's ledger and results, for `asv show` and `asv publish`; and asv's page."""
    from bench.ledger import dashboard
    from bench.ledger.record import record

    with bad_input():
        done = record(results)
        page = str(dashboard.publish(results, html)) if done.nights and not no_html else None
    told = [done.describe()] if page is None else [done.describe(), page]
    click.echo(json.dumps(done.to_json() | {"page": page}, indent=2) if as_json else "\n".join(told))
    end(done.damaged)
