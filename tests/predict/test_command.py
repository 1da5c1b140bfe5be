"""A cell as the command that asks for it: the same cell comes back, and the same figures."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from commanded import wingspan

from bench.catalog import catalogue, machine_profile
from bench.predict.answer import predict
from bench.predict.command import predict_command
from bench.spec import BackendName, Cell, Device, Implementation, workload

PC, MAC = "pc-rtx-4090", "mac-studio-m3-ultra"


def cell(method: str, backend: BackendName = "hf", device: Device = "cuda", **fields: Any) -> Cell:
    implementation = fields.pop("implementation", Implementation())
    return Cell(workload(model=catalogue().models["qwen3-4b"], method=method, **fields), backend, device, implementation)


@pytest.mark.parametrize(
    ("asked", "machine"),
    [
        (cell("full"), PC),
        (cell("full", master_dtype="float32", optimizer="adamw_8bit", gradient_accumulation=4), PC),
        (cell("full", optimizer_dtype="float32", optimizer="sgd"), PC),
        (cell("lora", weights_dtype="float16", adapter_dtype="bfloat16", rank=8, modules="attention", adapter_layers=4), PC),
        (cell("lora", modules="q_proj,down_proj", dropout=0.1, alpha=8, seed=3), PC),
        (cell("qlora", "unsloth", sequence_length=512, gradient_checkpointing=False, batch_size=2), PC),
        (cell("qlora", "mlx", "metal", quantization_bits=8), MAC),
        (cell("serve", "mlx", "metal", quantization_bits=4, prompt_tokens=64, generated_tokens=32), MAC),
        (cell("serve", "mlx", "cuda"), PC),
    ],
    ids=lambda each: each.id if isinstance(each, Cell) else each,
)
def test_the_command_gives_the_cells_own_prediction(asked: Cell, machine: str) -> None:
    command = predict_command(asked, machine)
    assert command is not None
    program, *arguments = shlex.split(command)
    assert program == "wingspan"
    told = json.loads(wingspan(*arguments, "--json").stdout)
    own = json.loads(json.dumps(predict(asked, machine_profile(machine)).to_json()))
    assert {name: told[name] for name in own if name != "notes"} == {name: own[name] for name in own if name != "notes"}


def test_what_matters_is_spelt_out_whatever_the_defaults_are() -> None:
    assert predict_command(cell("lora"), PC) == (
        "wingspan predict --model qwen3-4b --method lora --machine pc-rtx-4090 --backend hf@cuda --batch-size 1"
        " --sequence-length 2048 --gradient-checkpointing --optimizer adamw --rank 16 --modules all --weights-dtype bfloat16"
        " --adapter-dtype float32"
    )


def test_what_no_option_asks_has_no_command() -> None:
    assert predict_command(cell("lora", implementation=Implementation(attention="eager")), PC) is None


def test_a_model_that_only_bears_a_catalogues_name_has_no_command() -> None:
    models = catalogue().models
    stranger = type(models["qwen3-4b"])(**{**_fields(models["llama-3.1-8b"]), "name": "qwen3-4b"})
    work = workload(model=stranger, method="lora")
    assert predict_command(Cell(work, "hf", "cuda", Implementation()), PC) is None


def _fields(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in model.__dataclass_fields__}
