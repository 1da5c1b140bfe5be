"""The 4-bit product from its pieces: the same values as bitsandbytes' own, and the dequantised weight seen."""

from __future__ import annotations

import pytest
import torch
from bitsandbytes import functional as bnb
from bitsandbytes.autograd._functions import matmul_4bit

from bench.backends.hf_dequantise import dequantised
from bench.backends.storages import Tracker


@pytest.mark.parametrize("nested", [True, False])
def test_pieces_give_the_same_product_and_show_the_weight(nested):
    torch.manual_seed(0)
    packed, state = bnb.quantize_4bit(torch.randn(128, 64), blocksize=64, compress_statistics=nested, quant_type="nf4")
    rows = torch.randn(10, 64, requires_grad=True)
    whole = matmul_4bit(rows, packed.t(), quant_state=state)
    with Tracker("cpu", dequantised()) as tracker:
        pieces = matmul_4bit(rows, packed.t(), quant_state=state)
        pieces.sum().backward()
    assert torch.equal(whole, pieces)
    assert tracker.timeline.sizes.count(128 * 64 * 4) == 2  # once forward, once backward
    assert rows.grad is not None
