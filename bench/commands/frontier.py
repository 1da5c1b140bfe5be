"""`wingspan frontier`: where models stop fitting.

In: a suite with a table [frontier]. Out: the largest sequence, batch and model that fit, found by bisection or, with
`--predicted`, foretold; in words or as JSON.
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
    only_option,
    results_option,
)
from bench.quantities import Duration


@click.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@click.option("--predicted", is_flag=True, help="Say where the edges are predicted, and measure nothing.")
@click.option("--machine", "profile", metavar="NAME", help="With --predicted: for a machine of the catalogue.")
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Start no run after this long, e.g. 2h.")
@click.option("--no-resume", is_flag=True, help="Try every cell anew, whatever is stored already.")
@memory_limit_option
@memory_like_option
@memory_watchdog_option
@machine_option
@json_option
def frontier(
    suite: str,
    results: Path,
    only: str | None,
    predicted: bool,
    profile: str | None,
    budget_s: float | None,
    no_resume: bool,
    memory_limit: int | None,
    memory_like: str | None,
    memory_watchdog: float,
    machine_name: str | None,
    as_json: bool,
) -> None:
    """The largest sequence, batch and model of SUITE's [frontier] that fit here, by bisection."""
    from bench.frontier.run import find, foretell
    from bench.holes import hole, refusal
    from bench.limits import limit_of
    from bench.predict.answer import chances, foreteller
    from bench.progress import observer
    from bench.run import Options
    from bench.spec import BadInput
    from bench.suite import read_suite

    with bad_input():
        if profile is not None and not predicted:
            raise BadInput("--machine is for --predicted; --memory-like holds the runs of this machine to what another has")
        declared, machine = read_suite(suite), asked_machine(machine_name, profile)
        limit = limit_of(memory_limit, memory_like)
        if predicted:
            found = foretell(declared, machine, chances(machine, limit), only, hole if profile is None else refusal)
        else:
            options = Options(
                results=results,
                only=only,
                budget_s=budget_s,
                resume=not no_resume,
                limit=limit,
                watchdog_share=memory_watchdog if memory_watchdog <= 1 else None,
            )
            with observer() as watching:
                found = find(declared, machine, options, foreteller(machine, limit, results), watching)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))
    sys.exit(found.summary.exit_code)
