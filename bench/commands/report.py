"""`wingspan report`: write down what holds and what was measured.

In: the stored runs. Out: an HTML page, its Markdown twin and figures, whose paths are printed; with `--readme` the table of
verdicts in a Markdown file, too.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from bench.collector import collector_paused
from bench.commands.exits import bad_input, end
from bench.commands.options import folder_option, json_option, results_option


@click.command()
@results_option
@folder_option("--out", "reports", "Folder for the HTML page, its Markdown twin and the figures.")
@click.option("--lang", "language", type=click.Choice(["en", "fr", "ro"]), default="en", help="Language of the report.")
@click.option("--claims", "own", type=click.Path(path_type=Path), metavar="FILE", help="Claims of your own beside the lesson's.")
@click.option("--compare", nargs=2, metavar="A B", help="Only these two machines of the results, against each other.")
@click.option("--since", metavar="DATE", help="Only runs started from then on, e.g. 2026-03-01 (UTC).")
@click.option(
    "--readme",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Put the table of verdicts between the markers of this Markdown file, too.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing, and exit with 2 where the report in --out (or, with --readme, that file's table) is stale.",
)
@json_option
@collector_paused()
def report(
    results: Path,
    out: Path,
    language: str,
    own: Path | None,
    compare: tuple[str, str] | None,
    since: str | None,
    readme: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Write down what holds of the claims and what was measured: HTML, Markdown and figures."""
    from bench.report import chosen, kept
    from bench.report import readme as table
    from bench.report.page import write
    from bench.spec import BadInput

    if not results.is_dir():
        click.echo(f"{results}: no such folder, so no runs are reported; `wingspan run` makes it", err=True)
    with bad_input():
        asked = chosen.Chosen(None if since is None else chosen.moment(since), compare or None)
        if compare and (check or readme is not None):
            raise BadInput("--check and --readme do not go with --compare, which tells no verdicts")
        if check and since is not None:
            raise BadInput("--check does not go with --since: what is kept is a report on all runs")
        if check and readme is None:
            return kept.refuse_stale(results, out, language, own)
        if check and readme is not None:
            return table.refuse_stale(readme, table.judged(results, own))
        written = write(results, out, language, asked, own)
        if readme is not None:
            table.splice(readme, table.of(written.document))
    damaged = [str(each) for each in written.damaged]
    paths = [str(path) for path in written.paths]
    click.echo(json.dumps({"written": paths, "damaged": damaged}, indent=2) if as_json else "\n".join(paths))
    end(written.damaged)
