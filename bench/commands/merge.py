"""`wingspan merge`: the results of several computers in one folder.

In: results folders. Out: their runs, each once, copied into one folder; what was done, in words or as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import json_option, results_option


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@results_option
@json_option
def merge(folders: tuple[Path, ...], results: Path, as_json: bool) -> None:
    """Copy the runs of other results folders into one; each run counts once, and the others stay as they are.

    Locks, accepted regressions and baselines are each computer's own: they are named and not copied.
    """
    from bench.merge import merge as take_in

    with bad_input():
        done = take_in(results, folders)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else done.describe())
    end(done.damaged)
