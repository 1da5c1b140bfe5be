"""`wingspan claims`: every claim with its verdict.

In: the stored runs, and claims of the user's own. Out: the verdicts and their evidence, in words or as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import json_option, results_option


@click.command()
@results_option
@click.option("--claims", "own", type=click.Path(path_type=Path), metavar="FILE", help="Claims of your own beside the lesson's.")
@json_option
def claims(results: Path, own: Path | None, as_json: bool) -> None:
    """Every claim with its verdict and the evidence for it."""
    from bench.claims import gather, told

    with bad_input():
        found = gather.trial(results, own)
    click.echo(json.dumps(told.document(found.judged), indent=2) if as_json else told.describe(found.judged))
    end(found.damaged)
