"""`wingspan predict`: what one model and method need on a machine.

In: a cell, asked option by option. Out: peak memory by part, fit, speed and power with intervals, in words or as JSON. Nothing is
run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bench.commands.exits import bad_input
from bench.commands.options import json_option, results_option

DTYPES = ["float32", "bfloat16", "float16"]


@click.command()
@click.option("--model", required=True, metavar="M", help="A catalogue name, a size such as 8b, or the path of a config.json.")
@click.option("--method", required=True, type=click.Choice(["full", "lora", "qlora", "serve"]), help="What is done with it.")
@click.option("--machine", "profile", metavar="NAME", help="A machine of the catalogue; this computer where not given.")
@click.option("--backend", metavar="B", help="hf, unsloth or mlx, or hf@cpu; mlx on a Mac, hf beside a card where not given.")
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Sequences at a time; 1 where not given.")
@click.option("--sequence-length", type=click.IntRange(2, 2**20), help="Tokens of a sequence in training; 2048.")
@click.option("--gradient-accumulation", type=click.IntRange(1, 4096), help="Batches of an optimizer step; 1 where not given.")
@click.option("--gradient-checkpointing/--no-gradient-checkpointing", default=None, help="Compute activations again; on.")
@click.option("--optimizer", type=click.Choice(["adamw", "adamw_8bit", "sgd"]), help="adamw where not given.")
@click.option("--rank", type=click.IntRange(1, 4096), help="Of the adapters; 16.")
@click.option("--modules", metavar="NAMES", help="Adapted: all (default), attention, or names such as q_proj,v_proj.")
@click.option("--adapter-layers", type=click.IntRange(1, 1024), help="Adapt the last so many blocks; all.")
@click.option("--dropout", type=click.FloatRange(0, 1, max_open=True), help="Of the adapters; 0.")
@click.option("--weights-dtype", type=click.Choice(DTYPES), help="bfloat16 where not given.")
@click.option("--adapter-dtype", type=click.Choice(DTYPES), help="float32 where not given.")
@click.option("--optimizer-dtype", type=click.Choice(DTYPES), help="Of the optimizer's state; that of what is trained.")
@click.option("--master-dtype", type=click.Choice(["float32"]), help="Of full fine-tuning: master weights; none.")
@click.option("--quantization-bits", type=click.Choice(["4", "8"]), help="Of what is served; qlora has 4.")
@click.option("--prompt-tokens", type=click.IntRange(1, 2**20), help="Of serving; 512.")
@click.option("--generated-tokens", type=click.IntRange(2, 2**20), help="Of serving; 128.")
@click.option(
    "--how",
    type=click.Choice(["rules", "trace"]),
    default="rules",
    show_default=True,
    help="By closed form, at once; or from the step itself, which imports the framework and takes up to a minute.",
)
@results_option
@json_option
def predict(
    model: str,
    method: str,
    profile: str | None,
    backend: str | None,
    quantization_bits: str | None,
    how: Any,
    results: Path,
    as_json: bool,
    **fields: Any,
) -> None:
    """What a model, method, batch and length need on a machine, and how fast it will be; nothing is run."""
    from bench.backends.interface import UnsupportedError
    from bench.predict import answer, question, told
    from bench.spec import BadInput

    with bad_input():
        machine = question.asked_machine(profile)
        bits = int(quantization_bits) if quantization_bits else None
        cell = question.asked_cell(model, backend, machine, {"method": method, "quantization_bits": bits, **fields})
        try:
            where = answer.place(machine, cell.backend, cell.device, results)
            found = question.with_doubts(answer.predict_at(cell, where, how), cell)
        except UnsupportedError as error:
            raise BadInput(str(error)) from None
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else told.describe(cell, found, machine.name))
