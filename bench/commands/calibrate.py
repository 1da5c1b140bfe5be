"""`wingspan calibrate`: fit the predictor.

In: published and own runs. Out: constants in the results folder, and the score card of how well they predict what they were not
fitted to.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input
from bench.commands.options import folder_option, json_option, results_option


@click.command()
@results_option
@folder_option("--out", "reports", "Folder for the score card, prediction.md.")
@click.option(
    "--add",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="First import this table of published measurements.",
)
@click.option("--score-only", is_flag=True, help="Leave the calibration as it is; write the score card.")
@json_option
def calibrate(results: Path, out: Path, add: Path | None, score_only: bool, as_json: bool) -> None:
    """Fit the predictor on published rows and own runs, and write down how well it predicts what it was not fitted to."""
    from bench.predict.calibrate import calibrate as fit_and_score

    with bad_input():
        done = fit_and_score(results, out, add=add, keep=not score_only)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else "\n".join(str(path) for path in done.written))
