from dataclasses import replace

import pytest

from bench.model import Model
from bench.spec import BLOCK_MODULES, Cell, Implementation, Workload, expand_modules, workload

MODEL = Model("m", '{"model_type":"x"}')


def test_the_digest_hangs_on_the_work_and_not_on_the_models_name():
    work = workload(model=MODEL, method="lora")
    assert work.digest == workload(model=replace(MODEL, name="n"), method="lora").digest
    assert work.digest != workload(model=replace(MODEL, architecture="{}"), method="lora").digest
    assert work.digest != workload(model=MODEL, method="lora", seed=1).digest
    assert len(work.digest) == 16


@pytest.mark.parametrize("unused", [{"rank": 8}, {"alpha": 1}, {"dropout": 0.5}, {"modules": "attention"}, {"adapter_layers": 2}])
def test_a_full_fine_tune_is_the_same_whatever_the_adapters_would_be(unused):
    assert workload(model=MODEL, method="full", **unused) == workload(model=MODEL, method="full")


def test_defaults_are_resolved_so_that_equal_work_has_one_digest():
    full = workload(model=MODEL, method="full", weights_dtype="bfloat16")
    assert (full.optimizer_dtype, full.quantization_bits, full.prompt_tokens, full.rank) == ("bfloat16", None, None, None)
    assert workload(model=MODEL, method="full", master_dtype="float32").optimizer_dtype == "float32"
    qlora = workload(model=MODEL, method="qlora", adapter_dtype="float32", alpha=32)
    assert (qlora.optimizer_dtype, qlora.quantization_bits, qlora.modules) == ("float32", 4, ",".join(BLOCK_MODULES))
    assert qlora == workload(model=MODEL, method="qlora", adapter_dtype="float32", alpha=32.0, modules="all")
    serve = workload(model=MODEL, method="serve")
    assert (serve.prompt_tokens, serve.optimizer_dtype, serve.rank) == (512, None, None)


def test_modules_are_taken_in_the_order_of_a_block():
    assert expand_modules("v_proj, q_proj") == ("q_proj", "v_proj")
    with pytest.raises(ValueError, match="unknown module 'w_proj'"):
        expand_modules("q_proj,w_proj")


def test_tokens_of_a_step_count_positions_and_losses_apart():
    work = workload(model=MODEL, method="lora", batch_size=2, sequence_length=64, gradient_accumulation=3)
    assert (work.tokens_per_step, work.loss_tokens_per_step) == (384, 378)


def test_a_cell_survives_the_pipe():
    cell = Cell(
        workload=workload(model=MODEL, method="qlora", rank=4),
        backend="mlx",
        device="metal",
        implementation=Implementation(attention="sdpa"),
        swept=(("rank", 4), ("compile", True)),
    )
    assert Cell.from_json(cell.to_json()) == cell
    assert cell.id == "m/qlora/mlx@metal/rank=4/compile=true"


def test_a_cells_key_hangs_on_who_computes_and_how_and_not_on_its_label():
    cell = Cell(Workload(model=MODEL, method="lora"), "hf", "cpu")
    others = [
        replace(cell, backend="mlx"),
        replace(cell, device="cuda"),
        replace(cell, implementation=Implementation(compile=True)),
    ]
    assert len({cell.key, *(other.key for other in others)}) == 4
    assert replace(cell, swept=(("rank", 16),)).key == cell.key
