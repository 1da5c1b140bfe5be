"""`wingspan nightly`: one night, measured, judged and published.

In: a suite, the night's date, the folders. Out: the night's runs, the verdict on this machine's history, the report and asv's
page; words on standard error, or one JSON document on standard output; the exit code that turns a night red.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bench.commands.exits import Regressed, bad_input
from bench.commands.options import (
    SuiteName,
    asked_machine,
    folder_option,
    json_option,
    machine_option,
    markdown_option,
    only_option,
    repeats_option,
    results_option,
)
from bench.quantities import Duration, Night


@click.command()
@click.argument("suite", type=SuiteName(), required=False)
@click.option(
    "--night", type=Night(), metavar="DATE", help="The night's label, e.g. 2026-11-30; today's date in UTC where not given."
)
@results_option
@folder_option("--out", "reports", "Folder for the report, in nights/, and asv's page, in asv/.")
@only_option
@repeats_option
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Start no run after this long, e.g. 2h.")
@machine_option
@click.option(
    "--acknowledged",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Shifts that were looked at and accepted; acknowledged.toml in the results folder where not given.",
)
@markdown_option
@click.option("--no-measure", is_flag=True, help="Judge and publish what is stored.")
@click.option("--no-judge", is_flag=True, help="Give no verdict: another environment will, once for all.")
@click.option("--no-publish", is_flag=True, help="Draw no page: neither the report nor asv's.")
@json_option
def nightly(
    suite: str | None,
    night: str | None,
    results: Path,
    out: Path,
    only: str | None,
    repeats: int | None,
    budget_s: float | None,
    machine_name: str | None,
    acknowledged: Path | None,
    markdown: Path | None,
    no_measure: bool,
    no_judge: bool,
    no_publish: bool,
    as_json: bool,
) -> None:
    """Measure SUITE for this night, judge this machine's history with it, publish; the same command goes on with the same night.

    SUITE is nightly where not given, and nightly-cpu on a computer without a GPU. The steps are those of `run --night`, `regress
    --machine`, `export asv` and `report`; one that fails keeps none of the others from being taken.

    Exits with 1 on a confirmed regression that nobody acknowledged, else with 3 where a cell failed, else with 2 or 4 where a
    step could not be taken or files not be read, 70 for a fault of Wingspan's own; 75 where another sweep holds the machine; 130
    where it was interrupted.
    """
    from bench import nightly as night_of
    from bench.progress import observer
    from bench.suite import read_suite

    with bad_input():
        machine = asked_machine(machine_name)
        declared = read_suite(suite or night_of.default_suite(machine))
        if budget_s is None and declared.budget_minutes is not None:
            budget_s = declared.budget_minutes * 60
        asked = night_of.Asked(
            suite=declared,
            machine=machine,
            night=night or night_of.tonight(),
            results=results,
            out=out,
            only=only,
            repeats=repeats,
            budget_s=budget_s,
            acknowledged=acknowledged,
            summary=markdown,
            measure=not no_measure,
            judge=not no_judge,
            publish=not no_publish,
        )
        with observer() as watching:
            done = night_of.nightly(asked, watching, lambda text: click.echo(text, err=True))
    if as_json:
        click.echo(json.dumps(done.to_json(), indent=2))
    for damaged in done.damaged:
        click.echo(damaged, err=True)
    if done.exit_code == night_of.EXIT_REGRESSION:
        raise Regressed
    sys.exit(done.exit_code)
