"""What holds of the rules whatever is asked: over cells drawn at random, more needs more, and sums and ends are in order."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.catalog import catalogue
from bench.model import model_from_config
from bench.predict import blocks_hf, rules_mlx, rules_unsloth
from bench.predict.capacity import fit_probability
from bench.predict.moments import Step
from bench.predict.prediction import PARTS
from bench.predict.rules import memory, stack_of, uncalibrated
from bench.predict.shape import shape_of
from bench.spec import Cell, Implementation, workload

STACKS = (
    ("hf", "cuda"), ("hf", "cpu"), ("hf", "mps"), ("unsloth", "cuda"), ("unsloth", "metal"), ("mlx", "metal"), ("mlx", "cpu"),
)  # fmt: skip
TRAINING = ("full", "lora", "qlora")
MANY = settings(max_examples=300, deadline=None, derandomize=True)


@st.composite
def declared(draw, methods=(*TRAINING, "serve")):
    method = draw(st.sampled_from(methods))
    fields = {"method": method, "batch_size": draw(st.integers(1, 32))}
    if method == "serve":
        bits = draw(st.sampled_from([None, 4]))
        return {
            **fields,
            "prompt_tokens": draw(st.integers(1, 20_000)),
            "generated_tokens": draw(st.integers(2, 2000)),
            "quantization_bits": bits,
        }
    fields["sequence_length"] = draw(st.integers(2, 16_384))
    fields["gradient_checkpointing"] = draw(st.booleans())
    fields["gradient_accumulation"] = draw(st.sampled_from([1, 4]))
    fields["optimizer"] = draw(st.sampled_from(["adamw", "adamw_8bit", "sgd"]))
    if method == "full":
        return {**fields, "master_dtype": draw(st.sampled_from([None, "float32"]))}
    modules = draw(st.sampled_from(["all", "attention", "q_proj,v_proj", "down_proj"]))
    adapters = {
        "rank": draw(st.integers(1, 512)),
        "modules": modules,
        "adapter_dtype": draw(st.sampled_from(["float32", "bfloat16"])),
    }
    return {**fields, **adapters}


models = st.sampled_from(sorted(catalogue().models))
stacks = st.sampled_from(STACKS)


def cell_of(model, stack, fields):
    model = catalogue().models[model] if isinstance(model, str) else model
    return Cell(workload(model=model, **fields), *stack, Implementation())


@MANY
@given(models, stacks, declared())
def test_parts_sum_to_the_peak_and_ends_enclose_the_value(model, stack, fields):
    found = memory(cell_of(model, stack, fields))
    assert tuple(found.parts) == PARTS
    assert min(found.parts.values()) >= 0
    assert sum(found.parts.values()) == found.peak_bytes
    assert 0 < found.peak_low_bytes <= found.peak_bytes <= found.peak_high_bytes
    assert 0 < found.held_low_bytes <= found.held_bytes <= found.held_high_bytes


@MANY
@given(models, stacks, declared(), st.data())
def test_more_of_anything_never_needs_less(model, stack, fields, data):
    """But for unsloth's loss, which takes its logits in parts from a size on."""
    name = data.draw(
        st.sampled_from(sorted({"batch_size", "sequence_length", "rank", "prompt_tokens", "generated_tokens"} & fields.keys()))
    )
    more = {**fields, name: fields[name] + data.draw(st.integers(1, 2 * fields[name]))}
    less_bytes, more_bytes = (memory(cell_of(model, stack, each)) for each in (fields, more))
    parted = stack == ("unsloth", "cuda") and fields["method"] != "serve"
    logits = rules_unsloth.logits_bytes(Step(cell_of(model, stack, fields), shape_of(catalogue().models[model]))) if parted else 0
    assert less_bytes.peak_bytes <= more_bytes.peak_bytes + logits
    assert less_bytes.held_bytes <= more_bytes.held_bytes + logits


@MANY
@given(models, stacks, declared(), st.integers(1, 8))
def test_more_blocks_need_more(model, stack, fields, further):
    config = catalogue().models[model].config
    kinds = config.get("layer_types")
    longer = {**config, "num_hidden_layers": config["num_hidden_layers"] + further}
    if kinds:
        longer["layer_types"] = kinds + kinds[:further]
    less, more = (memory(cell_of(model_from_config("m", each), stack, fields)).peak_bytes for each in (config, longer))
    assert less < more


@MANY
@given(models, stacks, declared(("lora",)))
def test_weights_are_fewest_in_4_bits_and_all_alike_otherwise(model, stack, fields):
    qlora, lora = (
        uncalibrated(cell_of(model, stack, {**fields, "method": method})).parts["weights"] for method in ("qlora", "lora")
    )
    full = {name: value for name, value in fields.items() if name not in ("rank", "modules", "adapter_dtype")}
    whole = uncalibrated(cell_of(model, stack, {**full, "method": "full"})).parts
    assert qlora < lora == whole["weights"]


@MANY
@given(models, stacks, declared(TRAINING))
def test_without_checkpointing_a_cell_needs_less_by_no_more_than_what_is_computed_again(model, stack, fields):
    """Where a model's inputs to its blocks are as large as what the blocks keep, checkpointing gains nothing.

    MLX's order of evaluation has more gradients of trained weights at once under it (`rules_mlx.GRADIENT_BLOCKS`).
    """
    off, on = (uncalibrated(cell_of(model, stack, {**fields, "gradient_checkpointing": on})).peak_bytes for on in (False, True))
    step = Step(cell_of(model, stack, fields), shape_of(catalogue().models[model]))
    mlx = stack_of(step.cell) == "mlx"
    again = (rules_mlx if mlx else rules_unsloth if stack[0] == "unsloth" else blocks_hf).block_bytes(step)
    gradients = (
        rules_mlx.GRADIENT_BLOCKS * step.shape.block_linear * step.adapter + step.head_gradient if mlx and step.full else 0
    )
    assert on - off <= again + gradients


@MANY
@given(models, stacks, declared(), st.integers(2**28, 2**38))
def test_a_larger_need_is_less_likely_to_fit_and_a_larger_device_likelier(model, stack, fields, capacity):
    found = memory(cell_of(model, stack, fields))
    twice = replace(
        found, held_bytes=2 * found.held_bytes, held_low_bytes=2 * found.held_low_bytes, held_high_bytes=2 * found.held_high_bytes
    )
    assert 0 <= fit_probability(twice, capacity) <= fit_probability(found, capacity) <= fit_probability(found, 2 * capacity) <= 1


@pytest.mark.parametrize("stack", STACKS)
def test_methods_are_in_order_of_their_need(stack):
    full, lora, qlora = (memory(cell_of("llama-3.1-8b", stack, {"method": method})).peak_bytes for method in TRAINING)
    assert qlora < lora < full
