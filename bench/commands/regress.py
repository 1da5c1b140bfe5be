"""`wingspan regress`: which stack got slower, hungrier or hotter, since which night.

In: the stored nights, and the shifts that somebody acknowledged. Out: the verdict in words, as Markdown or as JSON, and the exit
code that turns a night red.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import Regressed, bad_input, end
from bench.commands.options import json_option, markdown_option, results_option


@click.command()
@results_option
@click.option(
    "--acknowledged",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Shifts that were looked at and accepted; acknowledged.toml in the results folder where not given.",
)
@click.option("--machine", metavar="NAME", help="Only the nights of this machine.")
@markdown_option
@json_option
def regress(results: Path, acknowledged: Path | None, machine: str | None, markdown: Path | None, as_json: bool) -> None:
    """Which cell got slower, hungrier or hotter, or no longer runs: by how much, since which night, and what changed then.

    Only runs of a night count (`wingspan nightly`, or `run --night DATE`). A change of level is a regression once later nights
    confirm it, and stays one until it is acknowledged, or the level is back.

    Exits with 1 on a confirmed regression that nobody acknowledged, also where some result files could not be read, or the
    Markdown not be written; without one that gives 4.
    """
    from bench.history import document, told
    from bench.history.gather import gate
    from bench.report.gate import markdown as page

    with bad_input():
        found = gate(results, acknowledged, machine)
    if as_json:
        click.echo(json.dumps(document.document(found.verdict, found.damaged), indent=2))
    else:
        click.echo(told.describe(found.verdict, str(found.acknowledged)))
    faults: list[object] = [*found.damaged]
    if markdown is not None:
        faults += _appended(markdown, page(found.verdict, str(found.acknowledged)))
    if found.verdict.red:
        for each in faults:
            click.echo(str(each), err=True)
        raise Regressed
    end(faults)


def _appended(path: Path, text: str) -> list[str]:
    """Append to a file; what went wrong, which must not hide the verdict."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        return [f"{path}: {error.strerror or error}"]
    return []
