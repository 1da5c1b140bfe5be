"""What the predict command asks, as a cell."""

import json
import re

import pytest

from bench.catalog import catalogue, machine_profiles
from bench.machine import this_machine
from bench.predict.answer import predict
from bench.predict.question import asked_cell, asked_machine, backend_on, with_doubts
from bench.reading.strict import BadFile
from bench.spec import BadInput

PC, MAC = asked_machine("pc-rtx-4090"), asked_machine("mac-studio-m3-ultra")
MAC_PROFILE = next(profile for profile in machine_profiles() if profile.name == MAC.name)


def test_names_and_aliases_mean_the_same_model():
    by_name, by_alias = (asked_cell(text, None, PC, {"method": "lora"}) for text in ("llama-3.1-8b", "8b"))
    assert by_name == by_alias


def test_options_that_are_not_given_are_the_workloads_defaults():
    cell = asked_cell("8b", None, PC, {"method": "lora", "batch_size": None, "rank": 8, "gradient_checkpointing": False})
    assert (cell.workload.batch_size, cell.workload.rank, cell.workload.gradient_checkpointing) == (1, 8, False)


def test_a_path_leads_to_any_configuration(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(catalogue().models["qwen3-4b"].config))
    monkeypatch.chdir(tmp_path)
    cell = asked_cell("./config.json", None, PC, {"method": "full"})
    assert cell.workload.model.parameters == catalogue().models["qwen3-4b"].parameters


def test_a_faulty_configuration_is_refused_by_file_and_key(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(BadFile, match=r"config\.json.*vocab_size"):
        asked_cell(str(tmp_path), None, PC, {"method": "full"})


@pytest.mark.parametrize(
    ("text", "machine", "place"),
    [
        (None, PC, ("hf", "cuda")),
        (None, MAC, ("mlx", "metal")),
        ("unsloth", MAC, ("unsloth", "metal")),
        ("hf", MAC, ("hf", "mps")),
        ("mlx", PC, ("mlx", "cuda")),
        ("hf@cpu", PC, ("hf", "cpu")),
    ],
)
def test_a_backend_computes_where_the_machine_lets_it(text, machine, place):
    assert backend_on(text, machine) == place


@pytest.mark.parametrize(
    ("text", "machine", "message"),
    [
        ("vllm", PC, r'--backend: "vllm" is none of hf, mlx, unsloth'),
        ("fake", PC, "none of"),
        ("mlx@metal", PC, "mlx@metal has nothing to run on in pc-rtx-4090, which has cuda, cpu"),
        ("unsloth@cpu", PC, "unsloth does not run on"),
    ],
)
def test_another_backend_is_refused_with_what_there_is(text, machine, message):
    with pytest.raises(BadInput, match=message):
        backend_on(text, machine)


def test_an_unknown_machine_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"--machine: no machine .*did you mean .*pc-rtx-4090.*leave it out for this computer"):
        asked_machine("pc-rtx-409")


def test_an_unknown_model_is_refused_by_its_option():
    with pytest.raises(BadInput, match=r'^--model: unknown model "8c"'):
        asked_cell("8c", None, PC, {"method": "lora"})


def test_without_a_name_this_computer_is_asked_of_and_it_has_a_name_of_its_own():
    here = this_machine()
    assert asked_machine(None) == asked_machine("this") == asked_machine(here.name) == here


def test_a_computer_without_a_gpu_computes_by_hf_on_its_cpu(machine):
    assert backend_on(None, machine) == ("hf", "cpu")
    assert backend_on("mlx", machine) == ("mlx", "cpu")


@pytest.mark.parametrize(
    ("method", "field", "users"),
    [
        ("full", {"rank": 4}, "--rank is for lora and qlora, and full"),
        ("full", {"modules": "all"}, "--modules is for lora and qlora"),
        ("lora", {"prompt_tokens": 5}, "--prompt-tokens is for serve, and lora"),
        ("lora", {"quantization_bits": 4}, "--quantization-bits is for qlora and serve"),
        ("serve", {"sequence_length": 5}, "--sequence-length is for full, lora and qlora, and serve"),
        ("serve", {"gradient_checkpointing": False}, "--gradient-checkpointing is for full, lora and qlora"),
        ("serve", {"adapter_dtype": "float32"}, "--adapter-dtype is for"),
    ],
)
def test_an_option_that_the_method_would_ignore_is_refused(method, field, users):
    with pytest.raises(BadInput, match=f"^{users}.* would ignore it: leave it out, or change --method$"):
        asked_cell("8b", None, PC, {"method": method, **field})


def test_unknown_modules_are_refused_with_those_there_are():
    with pytest.raises(BadInput, match="--modules: unknown module 'x_proj'"):
        asked_cell("8b", None, PC, {"method": "lora", "modules": "x_proj"})


def test_what_the_backend_would_refuse_is_predicted_and_noted():
    cell = asked_cell("8b", "mlx", MAC, {"method": "full", "optimizer": "adamw_8bit"})
    found = with_doubts(predict(cell, MAC_PROFILE), cell)
    assert "mlx would not run this: MLX has no 8-bit AdamW" in found.to_json()["notes"]


@pytest.mark.parametrize(
    ("declared", "note"),
    [
        (
            {"method": "lora", "sequence_length": 200_000},
            "--sequence-length 200000 exceeds the max_position_embeddings of .*, 131072",
        ),
        ({"method": "lora", "rank": 1025}, "--rank 1025 exceeds the smallest adapted dimension of llama-3.1-8b, 1024"),
        ({"method": "serve", "prompt_tokens": 131_072}, "--prompt-tokens and --generated-tokens, together 131200 exceeds"),
    ],
)
def test_what_a_suite_would_refuse_is_predicted_and_noted(declared, note):
    cell = asked_cell("8b", "mlx", MAC, declared)
    (doubt,) = [each for each in with_doubts(predict(cell, MAC_PROFILE), cell).memory.notes if each.startswith("a suite")]
    assert re.search(note, doubt)
