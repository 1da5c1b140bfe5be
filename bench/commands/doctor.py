"""`wingspan doctor`: what this machine is, and what works on it.

In: whether to measure rates or look for techniques, too. Out: the diagnosis, in words or as JSON; what was measured or found is
kept in the results folder.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input
from bench.commands.options import asked_machine, json_option, machine_option, results_option


@click.command()
@click.option("--calibrate", is_flag=True, help="Measure products and copies on each device, in a child, and keep the rates.")
@click.option("--support", is_flag=True, help="Look for named techniques in each installed stack, and keep what is found.")
@results_option
@json_option
@machine_option
def doctor(calibrate: bool, support: bool, results: Path, as_json: bool, machine_name: str | None) -> None:
    """What this machine is; which backends and meters work here, which don't, why, and the remedy."""
    from bench import doctor as diagnosis
    from bench import own_rates
    from bench import support as techniques

    with bad_input():
        found = diagnosis.diagnose(asked_machine(machine_name), calibrate=calibrate, support=support)
        if calibrate:
            own_rates.keep(results, found.machine, found.rates)
        if found.support is not None:
            techniques.keep(results, found.machine, found.support)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else diagnosis.describe(found))
