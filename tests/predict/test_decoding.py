"""Published rates of decoding against the roofline."""

from __future__ import annotations

import pytest

from bench.cited import Cited
from bench.predict.decoding import Decoded, decoded_rows

ROW = {
    "source": "s",
    "hardware": "RTX 4090",
    "model": "Llama-3.1-8B",
    "method": "inference",
    "quant_bits": 4,
    "tokens_per_s": 150.0,
}


def decoded(**change: object) -> Decoded | str:
    found, refused = decoded_rows([Cited(id="p-1", **{**ROW, **change})])  # type: ignore[arg-type]  # fields of several types
    return found[0] if found else refused["p-1"]


def test_weights_are_read_once_a_token() -> None:
    found = decoded()
    assert isinstance(found, Decoded)
    weights = 0.5625 * 6.98e9 + 2 * 0.525e9  # 4.5 bits in the blocks, 16 in the head; the embedding is looked up
    assert found.predicted == pytest.approx(0.8 * 1008e9 / weights, rel=0.03)
    assert found.error == pytest.approx(found.predicted / 150 - 1)


def test_sixteen_bits_take_longer() -> None:
    four, sixteen = decoded(), decoded(quant_bits=16)
    assert isinstance(four, Decoded)
    assert isinstance(sixteen, Decoded)
    assert sixteen.predicted < 0.4 * four.predicted


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "gpt-oss-20b"}, "no architecture known here for gpt-oss-20b"),
        ({"hardware": "Mystery"}, "no rates are known"),
        ({"quant_bits": 8}, "weights in 8 bits"),
    ],
)
def test_what_cannot_be_compared_says_why(change: dict[str, object], reason: str) -> None:
    assert reason in str(decoded(**change))


def test_rows_of_training_and_without_a_rate_are_no_decoding() -> None:
    rows = [Cited(id="p-1", **{**ROW, "method": "LoRA"}), Cited(id="p-2", **{**ROW, "tokens_per_s": None})]  # type: ignore[arg-type]
    assert decoded_rows(rows) == ((), {})
