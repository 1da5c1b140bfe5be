"""MLX's closed form against simulated graphs, and against MLX itself."""

from dataclasses import replace
from statistics import fmean

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import quantize_model
from predict.mlx_cells import cell_of, measured_peak_bytes
from predict.simulated_steps import BASE, SIMULATED, WORK
from tiny_models import LLAMA

from bench.backends import mlx_build
from bench.model import model_from_config
from bench.predict import mlx_step, resident, rules, rules_mlx
from bench.predict.moments import Step
from bench.predict.shape import shape_of
from bench.spec import Cell, workload


def step_of(device, config, work):
    model = model_from_config("x", {**BASE, **config})
    cell = Cell(workload(model=model, **{**WORK, **work}), "mlx", device)
    return Step(cell, shape_of(model))


def made_bytes(step):
    return max(moment.total for moment in rules_mlx.moments(step))


@pytest.mark.parametrize(("device", "config", "work", "simulated"), SIMULATED)
def test_what_a_step_makes_is_that_of_its_graph(device, config, work, simulated):
    step = step_of(device, config, work)
    stands = sum(
        part(step.cell, step.shape) for part in (resident.weights_bytes, resident.adapters_bytes, resident.optimizer_bytes)
    )
    assert made_bytes(step) == pytest.approx(simulated, rel=0.15)
    assert stands + made_bytes(step) == pytest.approx(stands + simulated, rel=0.035)


def test_on_average_it_is_within_three_per_cent():
    errors = [abs(made_bytes(step_of(device, config, work)) / simulated - 1) for device, config, work, simulated in SIMULATED]
    assert fmean(errors) < 0.03


def test_scores_grow_with_the_square_of_the_length():
    short, long = (step_of("metal", {}, {"method": "lora", "sequence_length": length}) for length in (8192, 16384))
    assert made_bytes(long) > 3 * made_bytes(short)


def test_more_micro_batches_keep_all_gradients():
    once, thrice = (step_of("metal", {}, {"method": "full", "gradient_accumulation": count}) for count in (1, 3))
    assert made_bytes(thrice) - made_bytes(once) == pytest.approx(once.gradients, rel=0.2)


def test_unsloth_makes_its_logits_in_parts():
    step = step_of("metal", {}, {"method": "lora"})
    unsloth = Step(replace(step.cell, backend="unsloth"), step.shape)
    assert rules_mlx.logits_bytes(unsloth) * 8 == rules_mlx.logits_bytes(step)


def test_mlx_lm_quantises_embeddings_and_head_where_the_backend_and_so_the_rules_do_not():
    """The difference between published 4-bit peaks and ours: 16 bits against 4 and a scale and a bias for each 64 elements."""
    work = workload(model=model_from_config("tiny", LLAMA), method="qlora", rank=4, gradient_checkpointing=True)
    ours, theirs = mlx_step.build(work), mlx_build.empty_model(work)
    theirs.set_dtype(mx.bfloat16)
    theirs, _ = quantize_model(theirs, {}, mlx_build.GROUP_SIZE, 4)
    theirs_bytes = sum(value.nbytes for _, value in tree_flatten(theirs.parameters()))
    adapters = sum(value.nbytes for _, value in tree_flatten(ours.trainable_parameters()))
    ours_bytes = sum(value.nbytes for _, value in tree_flatten(ours.parameters())) - adapters
    assert ours_bytes - theirs_bytes == 2 * 512 * 64 * (2 - (4 / 8 + 2 * 2 / 64))
    assert ours_bytes == resident.weights_bytes(Cell(work, "mlx", "metal"), shape_of(work.model))


@pytest.mark.slow
@pytest.mark.parametrize(
    "declared",
    [
        {"method": "lora", "sequence_length": 256, "gradient_checkpointing": True},
        {"method": "qlora", "sequence_length": 192, "gradient_checkpointing": False},
        {"method": "full", "sequence_length": 128, "gradient_checkpointing": False},
    ],
)
def test_mlx_itself_peaks_within_the_interval_or_a_tenth_of_the_value(declared):
    cell = cell_of(**declared)
    found, measured = rules.uncalibrated(cell), measured_peak_bytes(cell)
    assert found.peak_low_bytes <= measured <= found.peak_high_bytes or measured == pytest.approx(found.peak_bytes, rel=0.1)
