"""`wingspan run`: measure a suite on this machine.

In: a suite, and limits on what is measured, for how long and in how much memory. Out: one stored run per repeat of a cell,
whatever its outcome; a summary on standard error, or as JSON on standard output; the exit code says how the sweep ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bench.commands.exits import bad_input
from bench.commands.options import (
    SuiteName,
    asked_machine,
    json_option,
    machine_option,
    memory_like_option,
    memory_limit_option,
    memory_watchdog_option,
    night_option,
    only_option,
    repeats_option,
    results_option,
    try_anyway_option,
)
from bench.quantities import Duration, Share


@click.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@repeats_option
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Start no run after this long, e.g. 2h.")
@click.option(
    "--precision", type=Share(), metavar="P", help="Add runs until each cell's 95% interval is within ±P of its rate, e.g. 2%."
)
@click.option("--no-resume", is_flag=True, help="Measure every cell anew, whatever is stored already.")
@click.option("--strict", is_flag=True, help="Exit with 4 where a run is flagged as doubtful.")
@click.option(
    "--wall-meter",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="What a wall meter's logger writes: time and power_w, energy_j, energy_wh or energy_kwh.",
)
@memory_limit_option
@memory_like_option
@memory_watchdog_option
@click.option("--parts", is_flag=True, help="Add one untimed step to each run, and store what each part of its memory takes.")
@try_anyway_option
@night_option
@machine_option
@json_option
def run(
    suite: str,
    results: Path,
    only: str | None,
    repeats: int | None,
    budget_s: float | None,
    precision: float | None,
    no_resume: bool,
    strict: bool,
    wall_meter: Path | None,
    memory_limit: int | None,
    memory_like: str | None,
    memory_watchdog: float,
    parts: bool,
    try_anyway: bool,
    night: str | None,
    machine_name: str | None,
    as_json: bool,
) -> None:
    """Measure SUITE here; the same command again goes on where it stopped."""
    from bench.limits import limit_of
    from bench.meters.wall import check_wall_meter
    from bench.progress import observer
    from bench.run import Options, sweep
    from bench.suite import read_suite

    with bad_input():
        declared, machine = read_suite(suite), asked_machine(machine_name)
        if budget_s is None and declared.budget_minutes is not None:
            budget_s = declared.budget_minutes * 60
        if wall_meter is not None:
            check_wall_meter(wall_meter)
        options = Options(
            results=results,
            only=only,
            repeats=repeats,
            precision=precision,
            budget_s=budget_s,
            resume=not no_resume,
            strict=strict,
            wall_meter=wall_meter,
            limit=limit_of(memory_limit, memory_like),
            watchdog_share=memory_watchdog if memory_watchdog <= 1 else None,
            parts=parts,
            try_anyway=try_anyway,
            night=night,
        )
        with observer() as watching:
            summary = sweep(declared, machine, options, watching)
    if as_json:
        click.echo(json.dumps(summary.to_json(), indent=2))
    click.echo(summary.describe(results), err=True)
    sys.exit(summary.exit_code)
