"""What stands, to the byte: against real torch, bitsandbytes and MLX."""

import pytest

from bench.backends import mlx_build
from bench.catalog import catalogue
from bench.predict import resident
from bench.predict.shape import shape_of
from bench.spec import Cell, Implementation, workload


class Silent:
    def progress(self, what): ...


def cell_of(backend, device="cpu", how=None, name="tiny-llama-xs", **declared):
    return Cell(workload(model=catalogue().models[name], **declared), backend, device, how or Implementation())


def counted(cell):
    shape = shape_of(cell.workload.model)
    return resident.weights_bytes(cell, shape), resident.adapters_bytes(cell, shape)


@pytest.mark.parametrize(
    "declared", [{"method": "lora"}, {"method": "qlora"}, {"method": "qlora", "modules": "attention", "rank": 4}]
)
@pytest.mark.parametrize("name", ["tiny-llama-xs", "tiny-qwen3-xs"])
def test_mlx_builds_exactly_these_bytes(name, declared):
    from mlx.utils import tree_flatten

    cell = cell_of("mlx", name=name, **declared)
    model = mlx_build.build(cell, Silent())
    base = sum(value.nbytes for _, value in tree_flatten(model.parameters()))
    mlx_build.attach_adapters(model, cell.workload)
    adapters = sum(value.nbytes for _, value in tree_flatten(model.trainable_parameters()))
    assert counted(cell) == (base, adapters)


@pytest.mark.parametrize("quantization_format", ["nf4", "nf4-double"])
def test_bitsandbytes_builds_exactly_these_bytes(quantization_format):
    from bench.backends.hf_build import attach_adapters, build

    cell = cell_of("hf", how=Implementation(quantization_format=quantization_format), method="qlora")
    model = build(cell, Silent())
    tensors = {}
    for parameter in model.parameters():
        tensors[parameter.data_ptr()] = parameter
        state = getattr(parameter, "quant_state", None)
        nested = state and state.state2
        for each in (
            state and state.absmax,
            state and state.code,
            nested and state.offset,
            nested and nested.absmax,
            nested and nested.code,
        ):
            if each is not None and each is not False:
                tensors[each.data_ptr()] = each
    base = sum(tensor.nbytes for tensor in tensors.values())
    model = attach_adapters(model, cell.workload)
    adapters = sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    weights, predicted = counted(cell)
    assert predicted == adapters
    assert weights == pytest.approx(base, abs=64 * 30)  # levels that weights may share


def test_adamw_of_8_bits_has_a_byte_a_state_and_a_scale_for_256_and_float32_for_small_tensors():
    cell = cell_of("hf", method="full", optimizer="adamw_8bit", name="llama-3.1-8b")
    shape = shape_of(cell.workload.model)
    states = resident.optimizer_bytes(cell, shape)
    assert states == pytest.approx(2 * shape.parameters * (1 + 4 / 256), rel=1e-4)
    assert resident._states_8bit(4095) == 8 * 4095
    assert resident._states_8bit(4096) == 2 * 4096 + 2 * 4 * 16


@pytest.mark.parametrize(
    ("declared", "bytes_a_parameter"),
    [
        ({}, 2 + 2 + 4),
        ({"master_dtype": "float32"}, 4 + 4 + 8),
        ({"optimizer": "sgd"}, 2 + 2),
        ({"weights_dtype": "float32"}, 4 + 4 + 8),
    ],
)
def test_a_full_fine_tune_takes_so_many_bytes_a_parameter(declared, bytes_a_parameter):
    cell = cell_of("hf", "cuda", method="full", name="llama-3.1-8b", **declared)
    shape = shape_of(cell.workload.model)
    total = sum(part(cell, shape) for part in (resident.weights_bytes, resident.gradients_bytes, resident.optimizer_bytes))
    assert total == bytes_a_parameter * shape.parameters


def test_mlx_sgd_keeps_a_momentum_that_it_does_not_use():
    hf, mlx = (cell_of(backend, method="full", optimizer="sgd") for backend in ("hf", "mlx"))
    shape = shape_of(hf.workload.model)
    assert resident.optimizer_bytes(hf, shape) == 0
    assert resident.optimizer_bytes(mlx, shape) == 2 * shape.parameters


def test_serving_trains_nothing():
    cell = cell_of("hf", method="serve")
    shape = shape_of(cell.workload.model)
    assert resident.gradients_bytes(cell, shape) == resident.optimizer_bytes(cell, shape) == resident.trainable(cell, shape) == 0
