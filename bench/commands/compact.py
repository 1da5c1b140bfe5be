"""`wingspan compact`: many small result files become few larger ones.

In: a results folder. Out: the same rows in fewer files, and what was done, in words or as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import json_option, results_option


@click.command()
@results_option
@json_option
def compact(results: Path, as_json: bool) -> None:
    """Put many small result files into few larger ones, which are read faster."""
    from bench.compact import compact as put_together

    with bad_input():
        done = put_together(results)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else done.describe())
    end(done.left)
