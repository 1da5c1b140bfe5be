"""`wingspan advise`: which machine should train a model.

In: a model, the tokens to train on, and how. Out: fit, time, energy and money on each machine with the evidence for them, in
words or as JSON. Nothing is run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bench.commands.exits import bad_input, end
from bench.commands.options import json_option, results_option


@click.command()
@click.option("--model", required=True, metavar="M", help="A catalogue name, a size such as 8b, or the path of a config.json.")
@click.option("--tokens", required=True, type=click.IntRange(1, 10**15), help="To train on, all epochs together.")
@click.option("--method", type=click.Choice(["full", "lora", "qlora"]), help="All three where not given.")
@click.option("--sequence-length", type=click.IntRange(2, 2**20), help="Tokens of a sequence; 2048.")
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Sequences at a time; 1.")
@click.option("--price-per-kwh", type=float, metavar="P", help="In any currency; 0.2872, euro of EU households in late 2024.")
@click.option("--machine", "machines", multiple=True, metavar="NAME", help="A machine of the catalogue; may be repeated.")
@results_option
@json_option
def advise(
    model: str,
    tokens: int,
    method: str | None,
    price_per_kwh: float | None,
    machines: tuple[str, ...],
    results: Path,
    as_json: bool,
    **declared: Any,
) -> None:
    """Which machine should train this: fit, time, energy and money of each, and on what evidence. Nothing is run."""
    from bench.advise import answer, document, told

    with bad_input():
        question = answer.ask(model, tokens, method=method, machines=machines, price_per_kwh=price_per_kwh, declared=declared)
        found = answer.advise_from(results, question)
    click.echo(json.dumps(document.document(found), indent=2) if as_json else told.describe(found))
    end(found.damaged)
