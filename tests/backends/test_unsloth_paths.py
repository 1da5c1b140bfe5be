"""unsloth itself, by the two of its ways that need no GPU: the declared work is done, and agrees with the same without unsloth.

Run by `nox -s slow-unsloth`, in an environment of its own. The cells say device `cpu`, which the backend's door refuses: here it
is passed by on purpose, for what stands behind it is what runs on CUDA and on Metal.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tiny_models import FAMILIES

from bench.model import model_from_config
from bench.spec import Cell, workload

pytestmark = [pytest.mark.slow, pytest.mark.unsloth]
CHILD = Path(__file__).parents[1] / "unsloth_child.py"
DECLARED: dict[str, dict[str, Any]] = {
    "lora": {"method": "lora", "weights_dtype": "float32", "learning_rate": 1e-2},
    "lora, part of it": {
        "method": "lora",
        "weights_dtype": "float32",
        "learning_rate": 1e-2,
        "modules": "q_proj,v_proj,down_proj",
        "adapter_layers": 1,
        "gradient_accumulation": 2,
        "gradient_checkpointing": False,
    },
    "lora, twice the scale": {"method": "lora", "weights_dtype": "float32", "learning_rate": 1e-2, "alpha": 16.0},
    "qlora": {"method": "qlora", "learning_rate": 1e-2},
    "full": {"method": "full", "weights_dtype": "float32", "learning_rate": 3e-3},
    "full in bfloat16": {"method": "full", "learning_rate": 3e-3},
}
INITIALIZER_RANGE = 0.05
"""With the usual 0.02 a frozen head of this width cannot tell tokens apart well enough for a loss to fall by a fifth."""
EXACT, ROUNDED = 1e-5, 1e-2
"""Relative, on every step's loss: where all is float32, and where it is bfloat16."""


def cell_of(family: str, fields: dict[str, Any]) -> Cell:
    declared = {"batch_size": 2, "sequence_length": 16, "rank": 4, "alpha": 8.0, **fields}
    config = {**FAMILIES[family], "initializer_range": INITIALIZER_RANGE}
    return Cell(workload(model=model_from_config(f"tiny-{family}", config), **declared), "unsloth", "cpu")


CELLS = {f"{family}: {name}": cell_of(family, fields) for family in FAMILIES for name, fields in DECLARED.items()}


@cache
def told(way: str) -> dict[str, dict[str, Any]]:
    job = json.dumps([cell.to_json() for cell in CELLS.values()])
    done = subprocess.run([sys.executable, str(CHILD), way], input=job, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.strip().splitlines()[-len(CELLS) :]
    return dict(zip(CELLS, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("way", ["cpu", "mlx"])
@pytest.mark.parametrize("name", CELLS)
def test_unsloth_does_the_declared_work(way: str, name: str) -> None:
    run, work = told(way)[name], CELLS[name].workload
    assert set(run["tokens"]) == {work.tokens_per_step}
    assert set(run["loss_tokens"]) == {work.loss_tokens_per_step}
    assert set(run["digests"]) == {run["expected_digest"]}
    assert run["parameters"] == work.model.parameters
    adapted = sum(
        run["parameters"] if work.method == "full" else work.rank * sum(SHAPES[work.model.name][module])
        for _ in range(1 if work.method == "full" else work.adapter_layers or 2)
        for module in (work.module_names or ("all",))
    )
    assert run["trainable"] == adapted


def widths(family: str) -> dict[str, tuple[int, int]]:
    """Input and output width of each linear layer of a block, by the architecture's own figures."""
    config = FAMILIES[family]
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]
    return {
        **{"q_proj": (hidden, query), "k_proj": (hidden, key), "v_proj": (hidden, key), "o_proj": (query, hidden)},
        **{"gate_proj": (hidden, inner), "up_proj": (hidden, inner), "down_proj": (inner, hidden)},
    }


SHAPES = {f"tiny-{family}": widths(family) for family in FAMILIES}


@pytest.mark.parametrize("way", ["cpu", "mlx"])
@pytest.mark.parametrize("name", CELLS)
def test_unsloth_learns_as_the_stack_without_it_does(way: str, name: str) -> None:
    """By a fifth, where all blocks are adapted: a loss that hardly falls agrees with anything."""
    run, work = told(way)[name], CELLS[name].workload
    tolerance = EXACT if work.weights_dtype == "float32" else ROUNDED
    assert run["losses"] == pytest.approx(run["reference"], rel=tolerance)
    fewer = work.adapter_layers is not None
    assert run["losses"][-1] < run["losses"][0] * (0.9 if fewer else 0.8)


@pytest.mark.parametrize("way", ["cpu", "mlx"])
@pytest.mark.parametrize("family", FAMILIES)
def test_another_scale_would_show(way: str, family: str) -> None:
    once, twice = (told(way)[f"{family}: {name}"]["losses"] for name in ("lora", "lora, twice the scale"))
    assert max(abs(one / other - 1) for one, other in zip(once, twice, strict=True)) > 1000 * EXACT


@pytest.mark.parametrize("name", CELLS)
def test_what_was_really_used_is_told(name: str) -> None:
    work = CELLS[name].workload
    by_mlx, by_torch = told("mlx")[name]["implementation"], told("cpu")[name]["implementation"]
    assert by_mlx["quantization_format"] == ("affine, groups of 64" if work.quantization_bits else "none")
    assert by_torch["quantization_format"] == ("nf4-double" if work.quantization_bits else "none")
    checkpointed = work.gradient_checkpointing
    assert by_mlx["checkpointing"] == ("unsloth mx.checkpoint of every TransformerBlock" if checkpointed else "none")
    assert by_torch["checkpointing"] == ("torch" if checkpointed else "none")
    assert "cce" in by_mlx["loss"]
    assert by_torch["packing"] == "false"


def test_on_the_cpu_the_door_refuses_and_the_import_is_kept_from_falling_back() -> None:
    script = (
        "from bench.backends.unsloth import Unsloth\nfrom bench.backends.interface import UnsupportedError\n"
        "try:\n    Unsloth().prepare()\nexcept UnsupportedError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "unsloth finds no GPU here" in done.stdout
