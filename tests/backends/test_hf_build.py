"""Random weights, streamed into their final precision, and adapters exactly as declared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_models import GEMMA3

from bench.backends.hf import HuggingFace
from bench.backends.hf_build import attach_adapters, build, count_parameters, count_trainable
from bench.backends.interface import UnsupportedError
from bench.spec import Cell

Build = Callable[[Cell], Any]
MIB = 2**20


@pytest.fixture(scope="session")
def built(hf: HuggingFace, hf_recorder: Any) -> Build:
    return lambda cell: build(cell, hf_recorder())


def linears(model: Any) -> dict[str, Any]:
    return {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}


@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen2", "mistral"])
@pytest.mark.parametrize("method", ["full", "qlora"])
def test_counts_every_parameter_once(hf_cell: Callable[..., Cell], built: Build, family: str, method: str) -> None:
    cell = hf_cell(family, method)
    model = built(cell)
    assert count_parameters(model) == cell.workload.model.parameters
    assert count_parameters(attach_adapters(model, cell.workload)) == cell.workload.model.parameters


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("method", ["full", "qlora"])
def test_every_weight_stands_in_its_final_precision(hf_cell: Callable[..., Cell], built: Build, method: str, dtype: str) -> None:
    model = built(hf_cell("qwen3", method, weights_dtype=dtype, optimizer="sgd"))
    held = {name: str(weight.dtype) for name, weight in model.named_parameters()}
    packed = {name for name, kind in held.items() if kind == "torch.uint8"}
    projections = {f"{name}.weight" for name in linears(model) if name != "lm_head"}
    assert packed == (projections if method == "qlora" else set())
    assert {kind for name, kind in held.items() if name not in packed} == {f"torch.{dtype}"}
    assert not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert {weight.requires_grad for weight in model.parameters()} == {method == "full"}


def test_float32_masters_are_the_weights(hf_cell: Callable[..., Cell], built: Build) -> None:
    model = built(hf_cell(method="full", weights_dtype="bfloat16", master_dtype="float32"))
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_weights_are_normal_norms_one_biases_zero(hf_cell: Callable[..., Cell], built: Build) -> None:
    model = built(hf_cell("qwen2", "full", config={"initializer_range": 0.05}, weights_dtype="float32"))
    drawn = []
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            assert not weight.any()
        elif "norm" in name:
            assert (weight == 1).all()
        else:
            drawn.append(weight.detach().flatten())
    assert len(drawn) == 1 + 3 * 7
    values = torch.cat(drawn)
    assert float(values.std()) == pytest.approx(0.05, rel=0.01)
    assert float(values.mean()) == pytest.approx(0, abs=0.001)
    assert float((values.abs() > 0.1).float().mean()) == pytest.approx(0.0455, rel=0.1)  # beyond two deviations


def test_norms_that_multiply_by_one_and_the_weight_start_at_zero(hf_cell: Callable[..., Cell], built: Build) -> None:
    model = built(hf_cell(method="full", config=GEMMA3))
    norms = [weight for name, weight in model.named_parameters() if "norm" in name]
    assert len(norms) == 6 * GEMMA3["num_hidden_layers"] + 1
    assert not any(weight.any() for weight in norms)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_the_seed_makes_the_weights(hf_cell: Callable[..., Cell], built: Build) -> None:
    one, same, other = (built(hf_cell(method="full", seed=seed)).model.layers[2].mlp.up_proj.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_tied_weights_stay_tied(hf_cell: Callable[..., Cell], built: Build) -> None:
    tied, untied = built(hf_cell("qwen3", "full")), built(hf_cell("llama", "full"))
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert untied.lm_head.weight is not untied.model.embed_tokens.weight


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_computes_what_transformers_own_model_computes(hf_cell: Callable[..., Cell], built: Build, family: str) -> None:
    from transformers import AutoModelForCausalLM

    cell = hf_cell(family, "full", weights_dtype="float32")
    model = built(cell)
    plain = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    ids = torch.arange(3, 35)[None]
    with torch.no_grad():
        assert torch.equal(model.eval()(input_ids=ids).logits, plain.eval()(input_ids=ids).logits)


@pytest.mark.parametrize(("asked", "nested"), [(None, True), ("nf4-double", True), ("nf4", False)])
def test_four_bits_stand_for_the_same_weights(
    hf_cell: Callable[..., Cell], built: Build, asked: str | None, nested: bool
) -> None:
    from bitsandbytes.functional import dequantize_4bit

    whole = linears(built(hf_cell(method="full", weights_dtype="float32")))
    packed = linears(built(hf_cell(method="qlora", weights_dtype="float32", quantization_format=asked)))
    for name, layer in packed.items():
        if name == "lm_head":
            assert torch.equal(layer.weight, whole[name].weight)
            continue
        assert layer.weight.quant_state.nested is nested
        assert layer.weight.quant_type == "nf4"
        stood_for = dequantize_4bit(layer.weight, layer.weight.quant_state)
        assert float((stood_for - whole[name].weight).abs().mean()) < 0.1 * float(whole[name].weight.std())
        assert layer.weight.numel() * 2 == stood_for.numel()


def test_a_forward_in_eval_mode_leaves_the_gradients_of_four_bits_alone(hf_cell: Callable[..., Cell], built: Build) -> None:
    """On a CPU with AVX512-BF16, bitsandbytes repacks weights in eval mode unless told not to; gradients are then lost."""
    from bitsandbytes.nn import Linear4bit

    cell = hf_cell(method="qlora")
    model = attach_adapters(built(cell), cell.workload)
    ids = torch.arange(3, 19)[None]

    def gradients() -> list[Any]:
        model.zero_grad()
        model.train()(input_ids=ids, labels=ids).loss.backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.requires_grad]

    before = gradients()
    with torch.no_grad():
        model.eval()(input_ids=ids)
    assert all(torch.equal(one, other) for one, other in zip(before, gradients(), strict=True))
    assert not any(module.support_avx512bf16_for_cpu for module in model.modules() if isinstance(module, Linear4bit))


def test_gives_a_sign_of_life_for_each_parameter(hf: HuggingFace, hf_cell: Callable[..., Cell], hf_recorder: Any) -> None:
    session = hf_recorder()
    build(hf_cell(method="qlora"), session)
    assert "built model.layers.1.mlp.down_proj.weight" in session.told
    assert len(session.told) == 3 * 9 + 3


def adapted(model: Any) -> dict[str, Any]:
    from peft.tuners.lora import LoraLayer

    return {name.removeprefix("base_model.model."): m for name, m in model.named_modules() if isinstance(m, LoraLayer)}


@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_are_as_declared(hf_cell: Callable[..., Cell], built: Build, method: str, dtype: str) -> None:
    cell = hf_cell(method=method, adapter_dtype=dtype, rank=8, alpha=20.0, dropout=0.25)
    model = attach_adapters(built(cell), cell.workload)
    layers = adapted(model)
    assert len(layers) == 3 * 7
    assert {layer.scaling["default"] for layer in layers.values()} == {20 / 8}
    assert {layer.lora_dropout["default"].p for layer in layers.values()} == {0.25}
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert all(".lora_" in name and str(weight.dtype) == f"torch.{dtype}" for name, weight in trained.items())
    assert len(trained) == 2 * len(layers)
    assert not any(weight.any() for name, weight in trained.items() if "lora_B" in name)
    assert count_trainable(model) == 3 * 8 * (64 * 2 + 2 * (64 + 32) + 64 * 2 + 3 * (64 + 192))


def test_adapters_sit_on_the_named_modules_of_the_last_blocks(hf_cell: Callable[..., Cell], built: Build) -> None:
    cell = hf_cell(modules="v_proj,q_proj", adapter_layers=2)
    layers = adapted(attach_adapters(built(cell), cell.workload))
    assert set(layers) == {f"model.layers.{block}.self_attn.{name}" for block in (1, 2) for name in ("q_proj", "v_proj")}


def test_the_seed_makes_the_adapters(hf_cell: Callable[..., Cell], built: Build) -> None:
    def drawn(seed: int) -> Any:
        cell = hf_cell(seed=seed)
        return adapted(attach_adapters(built(cell), cell.workload))["model.layers.0.mlp.up_proj"].lora_A["default"].weight

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_a_full_fine_tune_trains_all_and_has_no_adapters(hf_cell: Callable[..., Cell], built: Build) -> None:
    cell = hf_cell("qwen3", "full")
    model = built(cell)
    assert attach_adapters(model, cell.workload) is model
    assert count_trainable(model) == cell.workload.model.parameters


@pytest.mark.parametrize(
    ("config", "found"),
    [({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 3}, 0), ({"model_type": "phi"}, 9)],
    ids=["none of the modules", "some of the modules"],
)
def test_an_architecture_without_the_modules_is_unsupported(
    hf_cell: Callable[..., Cell], built: Build, config: dict[str, Any], found: int
) -> None:
    cell = hf_cell(config=config)
    model = built(cell)
    with pytest.raises(UnsupportedError, match=f"adapts 21 modules, and peft finds {found} of them"):
        attach_adapters(model, cell.workload)


PEAK_SCRIPT = """
import gc, json, re, sys, tempfile
from bench.backends import hf_build
from bench.backends.hf import HuggingFace
from bench.model import Model, canonical_json
from bench.spec import Cell, workload

LAYERS = (4, 8, 16)

def kib(field):
    return int(re.search(field + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))

class Quiet:
    def progress(self, what): ...

def cell(blocks, method, origin=None):
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": blocks, "intermediate_size": 704, "vocab_size": 512,
              "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": False}
    model = Model("m", canonical_json(config), origin=origin)
    return Cell(workload(model=model, method=method, weights="folder" if origin else "random"), "hf", "cpu")

def overhead(asked):
    gc.collect()
    open("/proc/self/clear_refs", "w").write("5")
    model = hf_build.build(asked, Quiet())
    kept.clear()
    gc.collect()
    return (kib("VmHWM") - kib("VmRSS")) * 1024

def hoarding(model, asked):
    values = values_of(model, asked)
    return lambda *given: kept.append(values(*given)) or kept[-1]

HuggingFace().prepare()
kept, values_of = [], hf_build.values_of
folders = {blocks: tempfile.TemporaryDirectory() for blocks in LAYERS}
for blocks, folder in folders.items():
    hf_build.build(cell(blocks, "full"), Quiet()).save_pretrained(folder.name)
for where in (None, folders):
    overhead(cell(1, "qlora"))
    overhead(cell(4, "qlora", where and where[4].name))
def overheads(method, where=None):
    return [overhead(cell(blocks, method, where and where[blocks].name)) for blocks in LAYERS]

found = {f"{method} {how}": overheads(method, where)
         for method in ("full", "qlora") for how, where in (("drawn", None), ("read", folders))}
hf_build.values_of = hoarding
print(json.dumps({**found, "hoarding": overheads("qlora")}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is Linux's")
def test_building_costs_the_same_on_top_for_any_number_of_layers() -> None:
    """3 to 13 million parameters, drawn and read. Measured above the final size: at most 0.3 MB in 16 bits, 2.0 MB in 4, at 4
    layers as at 16; a builder that keeps what it made until the end needs 39 MB more for the largest.
    """
    # Freed tensors go back at once; at this size a second thread only waits.
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", PEAK_SCRIPT], capture_output=True, text=True, check=True, env=environment)
    overheads = json.loads(done.stdout.splitlines()[-1])
    growth = {name: max(found) - found[0] for name, found in overheads.items()}
    assert growth.pop("hoarding") > 15 * MIB
    assert max(growth.values()) < MIB, overheads
    assert max(overheads["qlora drawn"] + overheads["qlora read"]) < 8 * MIB
