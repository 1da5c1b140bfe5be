"""The sizes of every model of the catalogue, and of configurations that nobody declared."""

import pytest

from bench.catalog import catalogue
from bench.model import Model, canonical_json
from bench.predict.shape import shape_of
from bench.spec import BadInput


@pytest.mark.parametrize("name", catalogue().models)
def test_a_shape_makes_the_parameters_that_the_model_has(name):
    model = catalogue().models[name]
    shape = shape_of(model)
    assert shape.known
    assert shape.parameters == model.parameters


def strange(**config):
    return Model("strange", canonical_json({"model_type": "strange", "vocab_size": 100, **config}))


def test_other_spellings_of_the_sizes_are_read_and_the_rest_assumed():
    shape = shape_of(strange(n_embd=64, n_layer=3, n_head=4))
    assert not shape.known
    assert (shape.hidden, shape.layers, shape.heads, shape.inner, shape.key_value) == (64, 3, 4, 256, 64)


@pytest.mark.parametrize(
    ("experts", "copies", "width", "inner"),
    [
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, 8, 128, 256),
        ({"num_experts": 8}, 8, 128, 1024),
        ({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}, 8, 32, 64),
        ({"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1}, 9, 32, 96),
        (
            {"num_experts": 8, "moe_intermediate_size": 32, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 64},
            10,
            32,
            128,
        ),
        ({"num_local_experts": 0}, 1, 128, 128),
    ],
)
def test_experts_stand_side_by_side_and_a_token_passes_through_few(experts, copies, width, inner):
    shape = shape_of(strange(d_model=64, n_layer=3, n_head=4, d_ff=128, **experts))
    assert (shape.experts, shape.inner) == (copies, inner)
    assert shape.block_linear == 4 * 64 * 64 + copies * 3 * 64 * width


def test_a_configuration_without_sizes_is_refused_with_what_to_add():
    with pytest.raises(BadInput, match=r"strange: its config\.json names no num_hidden_layers \(nor n_layer, .*take it from"):
        shape_of(strange(d_model=64))


@pytest.mark.parametrize("value", ["768", 0, -4, True, 1.5, 10**12, [64]])
def test_a_size_that_is_none_is_refused_by_its_key(value):
    with pytest.raises(
        BadInput, match=r"strange: n_embd of its config\.json is .*; expected a whole number from 1 to 1,048,576; take"
    ):
        shape_of(strange(n_embd=value, n_layer=3, n_head=4))


@pytest.mark.parametrize("heads", [{"n_head": 65}, {"n_head": 4, "num_kv_heads": 5}])
def test_heads_that_no_width_holds_are_refused(heads):
    with pytest.raises(BadInput, match="heads"):
        shape_of(strange(n_embd=64, n_layer=3, **heads))


def test_a_configuration_without_its_type_is_refused():
    with pytest.raises(BadInput, match=r"strange: its config\.json has no model_type"):
        shape_of(Model("strange", canonical_json({"vocab_size": 100, "n_embd": 64})))
