"""What a plan says of time and disk: from runs where there are any, by rough rules where a profile has rates, else nothing."""

from dataclasses import replace

import pytest

from bench.catalog import catalogue, machine_profiles
from bench.estimate import IMPORT_S, SETTLING_STEPS, estimate, hub_bytes, least_bytes
from bench.spec import Cell, Device, Implementation, Measure, workload

PC = next(profile for profile in machine_profiles() if profile.name == "pc-rtx-4090")
MAC = next(profile for profile in machine_profiles() if profile.name == "mac-studio-m3-ultra")
MEASURE = Measure(warmup_steps=2, warmup_max_steps=30, steps=10)
STEPS = 2 + SETTLING_STEPS + 10
COMPILED = Implementation(compile=True)


def cell(model: str = "llama-3.1-8b", method: str = "lora", device: Device = "cuda", how=None, **fields) -> Cell:
    return Cell(workload(model=catalogue().models[model], method=method, **fields), "hf", device, how or Implementation())


def test_what_was_run_here_takes_what_its_runs_took():
    found = estimate(cell(), MEASURE, PC, [100.0, 300.0, 110.0])
    assert found.duration_s == 110
    assert found.disk_bytes > estimate(cell(), MEASURE, PC, [10.0]).disk_bytes > 25_000


@pytest.mark.parametrize(
    ("where", "method", "rate"),
    [(PC, "lora", 1640), (PC, "qlora", 1520), (MAC, "lora", 303), (MAC, "qlora", 298)],
)
def test_the_rule_comes_within_a_factor_of_two_of_the_roofline_study(where, method, rate):
    """8B, 2,048 tokens, checkpointing: the tokens per second that shared/findings.md works out by counting every operation."""
    duration_s = estimate(cell(method=method), MEASURE, where).duration_s
    loading_s = IMPORT_S + 16.06
    assert 2048 * STEPS / (duration_s - loading_s) == pytest.approx(rate, rel=0.5)


def test_a_run_that_cannot_fit_ends_while_it_loads():
    full = estimate(cell(method="full"), MEASURE, PC).duration_s
    assert full == pytest.approx(IMPORT_S + 16.06, rel=0.001)
    assert estimate(cell("llama-3.2-1b", "full"), MEASURE, PC).duration_s > IMPORT_S + 5


def test_longer_work_takes_longer():
    plain = estimate(cell(), MEASURE, PC).duration_s
    assert estimate(cell(gradient_checkpointing=False), MEASURE, PC).duration_s < plain
    assert estimate(cell(batch_size=2), MEASURE, PC).duration_s > plain
    assert estimate(cell(how=COMPILED), MEASURE, PC).duration_s == pytest.approx(plain + 60)
    fixed = replace(MEASURE, warmup_max_steps=2)
    assert estimate(cell(), fixed, PC).duration_s < plain


def test_serving_is_bound_by_reading_all_weights_for_each_token():
    four, sixteen = (
        estimate(cell(method="serve", quantization_bits=bits, generated_tokens=128), MEASURE, PC).duration_s for bits in (4, None)
    )
    assert sixteen - four == pytest.approx(STEPS * 128 * 8.03e9 * 1.5 / (0.5 * 1008e9), rel=0.01)
    assert estimate(cell(method="serve"), MEASURE, replace(PC, memory_bytes_per_s=None)).duration_s is None


@pytest.mark.parametrize(
    ("asked", "profile"), [(cell(), PC), (cell(), None), (cell(device="cpu"), None), (cell("tiny-llama-xs"), PC)]
)
def test_a_predicted_step_tells_whatever_the_profile_knows(asked, profile):
    before_s = IMPORT_S + 2 * asked.workload.model.parameters / 1e9
    assert estimate(asked, MEASURE, profile, step_s=3.0).duration_s == pytest.approx(before_s + STEPS * 3)
    assert estimate(asked, MEASURE, profile, step_s=0.0).duration_s == pytest.approx(before_s)
    assert estimate(asked, MEASURE, profile, [7.0], step_s=3.0).duration_s == 7.0


@pytest.mark.parametrize(
    ("asked", "profile"),
    [
        (cell(), None),
        (cell(device="cpu"), PC),
        (cell(), replace(PC, peak_flops_per_s=None)),
        (Cell(replace(cell().workload, model=replace(cell().workload.model, parameters=None)), "hf", "cuda"), PC),
    ],
)
def test_nothing_is_said_where_nothing_is_known(asked, profile):
    found = estimate(asked, MEASURE, profile)
    assert found.duration_s is None
    assert found.disk_bytes == 25_000 + STEPS * 60


@pytest.mark.parametrize(
    ("method", "fields", "per_parameter"),
    [
        ("full", {}, 8),
        ("full", {"master_dtype": "float32"}, 16),
        ("full", {"optimizer": "sgd"}, 4),
        ("full", {"optimizer": "adamw_8bit"}, 6),
        ("lora", {}, 2),
        ("lora", {"weights_dtype": "float32"}, 4),
        ("qlora", {}, 0.5),
        ("serve", {"quantization_bits": 8}, 1),
    ],
)
def test_bytes_before_activations(method, fields, per_parameter):
    work = cell(method=method, **fields).workload
    assert least_bytes(work) == per_parameter * 8_030_261_248


def test_only_real_weights_need_disk_and_each_model_once():
    hub = [cell(method=method, weights="hub", revision="a" * 40) for method in ("lora", "qlora")]
    assert hub_bytes([*hub, cell("llama-3.2-1b")]) == 2 * 8_030_261_248
    assert hub_bytes([cell()]) == 0
