"""Serving's closed form."""

from bench.catalog import catalogue
from bench.predict import rules_serve
from bench.predict.moments import Step
from bench.predict.shape import shape_of
from bench.spec import Cell, workload


def step_of(backend="hf", device="cuda", **declared):
    model = catalogue().models["llama-3.1-8b"]
    return Step(Cell(workload(model=model, method="serve", **declared), backend, device), shape_of(model))


def test_keys_and_values_of_llama_3_1_8b_take_128_kib_a_position():
    assert rules_serve.cache_bytes(step_of(), 1) == 128 * 1024
    assert rules_serve.cache_bytes(step_of(batch_size=3), 100) == 3 * 100 * 128 * 1024


def test_mlx_lm_grows_its_cache_256_positions_at_a_time():
    assert rules_serve.cache_bytes(step_of("mlx", "metal"), 257) == 512 * 128 * 1024


def test_the_logits_are_those_of_the_last_position():
    first, _ = rules_serve.moments(step_of(prompt_tokens=8192))
    assert first.logits == 6 * 128_256


def test_a_long_prompt_is_taken_at_once_by_transformers_and_in_parts_by_mlx_lm():
    hf, mlx = (
        next(iter(rules_serve.moments(step_of(*where, prompt_tokens=16_384)))) for where in (("hf", "cuda"), ("mlx", "metal"))
    )
    assert hf.activations > mlx.activations + 1e9


def test_mlx_makes_scores_on_the_cpu_alone():
    cpu, metal = (rules_serve.prefill_bytes(step_of("mlx", device), 512) for device in ("cpu", "metal"))
    assert cpu - metal == 4 * 32 * 512 * 512


def test_a_quantised_model_makes_its_largest_weight_16_bits_again():
    (quantised, _), (plain, _) = (rules_serve.moments(step_of(quantization_bits=bits)) for bits in (4, None))
    assert quantised.overhead > 2 * 4096 * 14_336
    assert plain.overhead == 0
