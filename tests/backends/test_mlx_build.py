"""Random weights streamed into their final precision, and adapters, on mlx-lm's models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny_models import GEMMA3, LLAMA, QWEN3

from bench.backends import mlx_build
from bench.backends.interface import UnsupportedError
from bench.backends.mlx_build import GROUP_SIZE, adapters, attach_adapters, build
from bench.model import Model, canonical_json, count_parameters, model_from_config
from bench.spec import Cell, Workload, workload

os.environ["MLX_DISABLE_COMPILE"] = "1"


class Silence:
    """A session that listens to nothing."""

    max_steps = 1

    def progress(self, what: str) -> None: ...

    def loaded(self, loaded: Any) -> None: ...

    def step(self, seen: Any) -> bool:
        return False


def work_of(config: dict[str, Any] = LLAMA, **declared: Any) -> Workload:
    return workload(model=model_from_config("tiny", config), **{"method": "lora", "rank": 8, **declared})


def built(config: dict[str, Any] = LLAMA, **declared: Any) -> Any:
    return build(Cell(work_of(config, **declared), "mlx", "cpu"), Silence())


def flat(tree: Any) -> dict[str, Any]:
    from mlx.utils import tree_flatten

    return dict(tree_flatten(tree))


def test_weights_have_the_architectures_spread_and_norms_are_one() -> None:
    import mlx.core as mx

    weights = flat(built({**LLAMA, "attention_bias": True, "initializer_range": 0.05}, weights_dtype="float32").parameters())
    assert {str(value.dtype) for value in weights.values()} == {"mlx.core.float32"}
    for name, value in weights.items():
        if name.endswith("bias"):
            assert mx.all(value == 0), name
        elif "norm" in name:
            assert mx.all(value == 1), name
        else:
            # The standard error of a spread over n draws is spread / sqrt(2n): five of them.
            assert mx.std(value).item() == pytest.approx(0.05, rel=5 / (2 * value.size) ** 0.5), name


def test_norms_that_multiply_by_one_and_the_weight_start_at_zero() -> None:
    import mlx.core as mx

    weights = flat(built(GEMMA3, weights_dtype="float32").parameters())
    norms = [value for name, value in weights.items() if "norm" in name]
    assert len(norms) == 6 * GEMMA3["num_hidden_layers"] + 1
    assert all(mx.all(value == 0) for value in norms)
    assert "lm_head.weight" not in weights  # tied, as the configuration says


def test_the_seed_decides_the_weights() -> None:
    import mlx.core as mx

    first, again, other = (flat(built(weights_dtype="float32", seed=seed).parameters()) for seed in (3, 3, 4))
    name = "model.layers.1.mlp.up_proj.weight"
    assert mx.array_equal(first[name], again[name])
    assert not mx.array_equal(first[name], other[name])


@pytest.mark.parametrize("config", [LLAMA, QWEN3], ids=["llama", "qwen3"])
@pytest.mark.parametrize("bits", [4, 8])
def test_qlora_quantises_the_blocks_and_nothing_else(config: dict[str, Any], bits: int) -> None:
    model = built(config, method="qlora", quantization_bits=bits)
    quantised = {path: module for path, module in model.named_modules() if hasattr(module, "bits")}
    assert len(quantised) == 2 * 7
    assert all(".layers." in path for path in quantised)
    assert {(module.bits, module.group_size, module.mode) for module in quantised.values()} == {(bits, GROUP_SIZE, "affine")}
    assert all(str(module.scales.dtype) == "mlx.core.bfloat16" for module in quantised.values())
    assert mlx_build.count_parameters(model) == count_parameters(config)


def test_the_spread_survives_quantising() -> None:
    import mlx.core as mx

    linear = built(method="qlora").model.layers[0].mlp.up_proj
    weights = mx.dequantize(linear.weight, linear.scales, linear.biases, linear.group_size, linear.bits)
    assert mx.std(weights.astype(mx.float32)).item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(("method", "rank"), [("lora", 8), ("qlora", 4)])
def test_adapters_have_the_declared_shape_scale_and_dtype(method: str, rank: int) -> None:
    import mlx.core as mx

    work = work_of(method=method, rank=rank, alpha=12.0, dropout=0.25, adapter_dtype="bfloat16")
    model = built(method=method)
    attach_adapters(model, work)
    found = dict(adapters(model))
    assert len(found) == 2 * 7
    up = found["model.layers.0.mlp.up_proj"]
    assert (up.lora_a.shape, up.lora_b.shape, up.scale) == ((64, rank), (rank, 192), 12.0 / rank)
    assert up.dropout._p_1 == 0.75
    assert mx.all(up.lora_b == 0)
    assert mx.abs(up.lora_a).max().item() == pytest.approx(1 / 8, rel=0.1)
    trainable = flat(model.trainable_parameters())
    assert all(name.endswith(("lora_a", "lora_b")) for name in trainable)
    assert {str(value.dtype) for value in trainable.values()} == {"mlx.core.bfloat16"}
    assert mlx_build.count_parameters(model) == count_parameters(LLAMA)


def test_modules_and_layers_are_those_declared() -> None:
    model = built()
    attach_adapters(model, work_of(modules="attention", adapter_layers=1))
    attention = {f"model.layers.1.self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
    assert {path for path, _ in adapters(model)} == attention
    assert mlx_build.count_trainable(model) == 8 * (2 * (64 + 64) + 2 * (64 + 32))


def test_full_trains_embeddings_and_head_too() -> None:
    model = built(method="full")
    attach_adapters(model, work_of(method="full"))
    assert set(flat(model.trainable_parameters())) == set(flat(model.parameters()))
    assert mlx_build.count_trainable(model) == count_parameters(LLAMA)


def test_a_block_without_a_declared_module_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_build, "_path_in_block", lambda name: f"elsewhere.{name}")
    with pytest.raises(UnsupportedError, match=r"TransformerBlock has no elsewhere\.down_proj"):
        attach_adapters(built(), work_of())


def test_missing_config_keys_are_all_named() -> None:
    lacking = {name: value for name, value in LLAMA.items() if name != "rms_norm_eps"}
    with pytest.raises(UnsupportedError, match="the config of tiny lacks rms_norm_eps, which mlx-lm needs"):
        built(lacking)
    qwen = {name: value for name, value in QWEN3.items() if name not in ("max_position_embeddings", "rms_norm_eps")}
    with pytest.raises(UnsupportedError, match="lacks rms_norm_eps, max_position_embeddings, which"):
        built(qwen)


def test_another_size_than_declared_is_unsupported() -> None:
    model = Model("tiny", canonical_json(LLAMA), 1000)
    with pytest.raises(UnsupportedError, match=r"builds 164,160 parameters where tiny has 1,000"):
        build(Cell(workload(model=model, method="full"), "mlx", "cpu"), Silence())


def test_the_config_means_what_it_means_to_transformers() -> None:
    """Rotary settings nested as transformers 5 does, and a head that is not tied because nothing says so."""
    silent = {name: value for name, value in LLAMA.items() if name not in ("rope_theta", "tie_word_embeddings")}
    nested = built({**silent, "rope_parameters": {"rope_type": "default", "rope_theta": 123.0}, "rope_scaling": None})
    assert nested.args.rope_theta == 123.0
    assert nested.args.rope_scaling is None
    assert "lm_head" in nested
    scaling = {"rope_type": "linear", "rope_theta": 123.0, "factor": 4.0}
    scaled = built({**silent, "rope_parameters": scaling})
    assert scaled.model.layers[0].self_attn.rope.scale == 0.25


def overhead_bytes(layers: int, method: str, folder: Path | None = None) -> int:
    """How far building went above the final size; weights are read where there is a folder, which is then given some."""
    import mlx.core as mx

    config = {**LLAMA, "num_hidden_layers": layers, "hidden_size": 256, "intermediate_size": 1024, "head_dim": 64}
    work = work_of(config, method=method)
    if folder is not None:
        mx.save_safetensors(str(folder / "model.safetensors"), flat(built(config, method="full").parameters()))
        work = replace(work, weights="folder", model=replace(work.model, origin=str(folder)))
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model = build(Cell(work, "mlx", "cpu"), Silence())
    final = sum(value.nbytes for value in flat(model.parameters()).values())
    assert mx.get_active_memory() - before == pytest.approx(final, rel=0.02)
    return int(mx.get_peak_memory() - before - final)


@pytest.fixture
def mlx_on_the_cpu() -> Iterator[None]:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    yield
    mx.clear_cache()


@pytest.mark.usefixtures("mlx_on_the_cpu")
@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("read", [False, True], ids=["drawn", "read"])
def test_building_holds_the_final_size_and_a_constant(tmp_path: Path, method: str, read: bool) -> None:
    """The constant is the scratch of one weight, of which the largest has 262,144 elements."""
    found = [overhead_bytes(layers, method, tmp_path if read else None) for layers in (4, 8, 16)]
    assert max(found) <= min(found) * 1.05 + 4096
    assert max(found) < 6.2 * 256 * 1024


@pytest.mark.usefixtures("mlx_on_the_cpu")
def test_a_16_bit_copy_of_the_whole_model_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    def eager(model: Any, work: Workload) -> Any:
        weights = lazy(model, work)
        mx.eval(weights)
        return weights

    lazy = mlx_build.values_of
    monkeypatch.setattr(mlx_build, "values_of", eager)
    assert overhead_bytes(8, "qlora") > 2 * overhead_bytes(2, "qlora")
