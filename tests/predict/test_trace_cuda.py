"""What stands in for CUDA: which attention kernel is picked, what it keeps, and that a real product is not changed."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.backends.storages import Tracker
from bench.predict.trace_cuda import as_on_cuda, attention, workspaces
from bench.predict.trace_fake import replaced


def heads(dtype=torch.bfloat16, *, count=4, groups=2, length=64, width=16):
    shape = (1, count, length, width), (1, groups, length, width), (1, groups, length, width)
    return [torch.empty(each, dtype=dtype, requires_grad=True) for each in shape]


def kernels(call) -> set[str]:
    """Names of the attention operators that a call reaches."""
    seen: set[str] = set()

    def noting(tracker, operator, args, kwargs):
        seen.add(operator.__name__.split(".")[0])
        return operator(*args, **kwargs)

    aten = torch.ops.aten
    of_interest = (
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._softmax.default,
        aten._safe_softmax.default,
    )
    with FakeTensorMode(), Tracker("cpu", dict.fromkeys(of_interest, noting)):
        call()
    return seen


@pytest.mark.parametrize(
    ("dtype", "groups", "masked", "expected"),
    [
        (torch.bfloat16, 2, False, "_scaled_dot_product_flash_attention"),
        (torch.float32, 4, False, "_scaled_dot_product_efficient_attention"),
        (torch.bfloat16, 4, True, "_scaled_dot_product_efficient_attention"),
    ],
)
def test_the_kernel_that_cuda_would_take(dtype, groups, masked, expected):
    def call():
        query, key, value = heads(dtype, groups=groups)
        mask = torch.ones(1, 1, 64, 64, dtype=torch.bool) if masked else None
        made = attention(query, key, value, mask, is_causal=not masked, enable_gqa=groups != 4)
        assert made.shape == query.shape

    assert kernels(call) == {expected}


def test_float32_with_grouped_heads_falls_to_plain_mathematics_and_its_square_scores():
    def call():
        query, key, value = heads(torch.float32)
        assert attention(query, key, value, is_causal=True, enable_gqa=True).shape == query.shape

    with FakeTensorMode(), Tracker("cpu") as tracker:
        call()
    assert tracker.timeline.peak().total_bytes > 2 * 4 * 4 * 64 * 64  # heads × length × length in float32, twice


def test_flash_keeps_no_scores_and_its_backward_has_workspaces():
    with FakeTensorMode(), Tracker("cpu", workspaces()) as tracker:
        query, key, value = heads(length=256)
        made = attention(query, key, value, is_causal=True, enable_gqa=True)
        forward = tracker.timeline.peak().total_bytes
        made.sum().backward()
    assert forward < 2 * 4 * 256 * 256
    sizes = tracker.timeline.sizes
    assert 4 * 4 * 256 in sizes  # a float32 for each row of each head
    assert 4 * 256 * 4 * 32 in sizes  # the queries' gradient, heads of 16 padded to 32
    assert sizes.count(256 * 4 * 16 * 2) >= 2  # keys' and values' gradients for each of four heads


def test_heads_of_odd_width_are_padded_to_eight():
    with FakeTensorMode(), Tracker("cpu") as tracker:
        query, key, value = heads(width=20)
        assert attention(query, key, value, is_causal=True, enable_gqa=True).shape == (1, 4, 64, 20)
    assert 4 * 64 * 24 * 2 in tracker.timeline.sizes


def test_a_mask_of_labels_picks_every_position():
    with FakeTensorMode(), Tracker("cpu", workspaces()):
        hidden, mask = torch.empty(2, 7, 16), torch.empty(2, 7, dtype=torch.bool)
        assert hidden[mask].shape == (14, 16)
        assert torch.empty(2, 7)[mask].shape == (14,)


def test_everything_is_put_back():
    before = torch.nn.functional.scaled_dot_product_attention
    from trl.kernels import chunked_logprob

    lacked = not hasattr(chunked_logprob, "triton")
    with as_on_cuda():
        assert torch.nn.functional.scaled_dot_product_attention is attention
    assert torch.nn.functional.scaled_dot_product_attention is before
    assert hasattr(chunked_logprob, "triton") is not lacked


def test_an_attribute_is_replaced_for_a_while_even_where_the_block_fails():
    class Owner:
        name = "kept"

    def fail() -> None:
        with replaced(Owner, "name", "other"):
            raise RuntimeError(Owner.name)

    with pytest.raises(RuntimeError, match="other"):
        fail()
    assert Owner.name == "kept"
    with replaced(Owner, "new", 1):
        assert Owner.new == 1
    assert not hasattr(Owner, "new")
