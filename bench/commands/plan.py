"""`wingspan plan`: what a suite would measure, here or on a machine of the catalogue.

In: a suite and the stored runs. Out: every cell with what is done about it and what is predicted, in words or as JSON. Nothing
is measured.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import (
    SuiteName,
    asked_machine,
    json_option,
    night_option,
    only_option,
    repeats_option,
    results_option,
    try_anyway_option,
)


@click.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@repeats_option
@click.option("--machine", "profile", metavar="NAME", help="Plan for a machine of the catalogue instead of this one.")
@try_anyway_option
@night_option
@json_option
def plan(
    suite: str,
    results: Path,
    only: str | None,
    repeats: int | None,
    profile: str | None,
    try_anyway: bool,
    night: str | None,
    as_json: bool,
) -> None:
    """Every cell of SUITE: what would be measured here, what is done, what is skipped and why; and what is predicted of each."""
    from bench import plan as planning
    from bench.claims import answerable
    from bench.holes import hole, refusal
    from bench.predict.answer import foreteller
    from bench.suite import read_suite
    from bench.tallies import tallies

    with bad_input():
        declared, machine = read_suite(suite), asked_machine(profile=profile)
        stored = tallies(results, machine.machine_id, declared.name, night=night)
        holes = hole if profile is None else refusal
        planned = planning.plan(
            declared, machine, stored.by_cell, only=only, repeats=repeats, capabilities=holes, durations=stored.durations,
            foretell=foreteller(machine, results=results), try_anyway=try_anyway,
        )  # fmt: skip
        answerable.refuse_gaps()
    click.echo(json.dumps(planned.to_json(), indent=2) if as_json else planning.describe(planned))
    end(stored.damaged)
