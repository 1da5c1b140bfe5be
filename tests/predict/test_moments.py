"""The sizes that the rules of every stack share."""

from bench.catalog import catalogue
from bench.predict.moments import Moment, Step
from bench.predict.shape import shape_of
from bench.spec import Cell, workload


def step_of(**declared):
    model = catalogue().models["llama-3.1-8b"]
    return Step(Cell(workload(model=model, **declared), "hf", "cuda"), shape_of(model))


def test_a_moment_is_the_sum_of_its_parts():
    assert Moment(gradients=1, activations=2, logits=3, overhead=4).total == 10


def test_scores_are_of_every_head_and_every_pair_of_a_sequence():
    assert step_of(method="lora", batch_size=3, sequence_length=100).pairs == 3 * 32 * 100 * 100


def test_under_autocast_blocks_compute_in_16_bits_and_the_stream_is_float32():
    step = step_of(method="full", master_dtype="float32")
    assert (step.size, step.stream, step.adapter, step.masters) == (2, 4, 4, True)
    assert not step_of(method="full", master_dtype="float32", weights_dtype="float32").masters


def test_a_frozen_head_has_no_gradient_and_a_trained_one_that_of_its_weight():
    assert step_of(method="lora").head_gradient == 0
    assert step_of(method="full").head_gradient == 2 * 128_256 * 4096


def test_adapters_on_the_last_blocks_train_no_others():
    assert step_of(method="lora", adapter_layers=4).trained_blocks == 4
    assert step_of(method="lora").trained_blocks == 32


def test_4_bit_weights_are_made_16_bits_again_one_at_a_time():
    assert step_of(method="lora").dequantised == 0
    assert step_of(method="qlora").dequantised == 2 * 4096 * 14_336 + 4 * 4096 * 14_336 // 64
