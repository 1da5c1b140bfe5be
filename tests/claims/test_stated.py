"""What a source says, and what it leaves open: never both, and nothing is assumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from claim_rows import claim

from bench import cited
from bench.cited import BUNDLED, Cited
from bench.claims.reader import CLAIMS, read_claims
from bench.claims.stated import agree, apart, left_open, said

CONDITIONS = {
    "batch_size": 1,
    "sequence_length": 2048,
    "gradient_accumulation": 1,
    "gradient_checkpointing": True,
    "optimizer": "adamw",
    "weights_dtype": "bfloat16",
    "adapter_dtype": "bfloat16",
    "quantization_bits": 4,
    "rank": 16,
    "modules": "all",
}
ASKED = claim("value", quantity="peak_bytes", expected=(7e9, 7e9), unit="GB", methods=("qlora",), conditions=CONDITIONS)
SAYS = {
    "batch": 1,
    "seq_len": 2048,
    "grad_accum": 1,
    "grad_checkpointing": "yes",
    "optimizer": "AdamW",
    "dtype": "bf16, adapters bf16",
    "quant_bits": 4,
    "lora_rank": 16,
    "lora_targets": "all linear",
}


def row(**fields) -> Cited:
    return Cited(**{"id": "one-1", "source": "s", "method": "QLoRA", "model": "Qwen3-4B", "framework": "HF peft", **fields})


def test_a_source_that_says_everything_leaves_nothing_open():
    assert said(row(**SAYS)).keys() == CONDITIONS.keys()
    assert (apart(ASKED, row(**SAYS)), left_open(ASKED, row(**SAYS))) == ([], ())


def test_a_source_that_says_nothing_refuses_nothing():
    """But the method, which means 4 bits."""
    assert apart(ASKED, row()) == []
    assert left_open(ASKED, row(), ("trl version",)) == (
        *(name.replace("_", " ") for name in sorted(CONDITIONS) if name != "quantization_bits"),
        "trl version",
    )


@pytest.mark.parametrize(
    ("fields", "condition"),
    [
        ({"batch": 4}, "batch_size 4"),
        ({"seq_len": 512}, "sequence_length 512"),
        ({"notes": "longest sample 1044 tok"}, "sequence_length 1044"),
        ({"grad_accum": 8}, "gradient_accumulation 8"),
        ({"grad_checkpointing": "no"}, "gradient_checkpointing False"),
        ({"optimizer": "adamw_8bit"}, "optimizer adamw_8bit"),
        ({"optimizer": "paged AdamW"}, "optimizer paged AdamW"),
        ({"dtype": "fp16"}, "weights_dtype float16"),
        ({"dtype": "bf16, adapters in fp32"}, "adapter_dtype float32"),
        ({"quant_bits": 8}, "quantization_bits 8"),
        ({"lora_rank": 8}, "rank 8"),
        ({"lora_targets": "q,v"}, "modules q_proj,v_proj"),
        ({"framework": "mlx-lm", "notes": "16 layers"}, "adapter_layers 16"),
        ({"framework": "mlx-lm", "framework_version": "mlx-lm 0.31.3"}, "adapter_layers 16"),
        ({"framework": "mlx-lm", "notes": "36 layers"}, None),  # of 36: every block
        ({"notes": "16 layers"}, None),  # peft puts adapters on every block
    ],
)
def test_what_it_says_otherwise_is_told(fields, condition):
    assert apart(ASKED, row(**{**SAYS, **fields})) == ([condition] if condition else [])


def test_mlx_without_a_version_leaves_open_how_many_blocks():
    assert left_open(ASKED, row(**SAYS, framework="mlx-lm")) == ("adapter layers",)


def test_of_another_method_nothing_is_asked():
    """It is refused as another method; which of its conditions were others does not matter."""
    served = row(method="inference", framework="mlx-lm", batch=4)
    assert (apart(ASKED, served), left_open(ASKED, served)) == ([], ())
    lora = row(method="LoRA", framework="mlx-lm", batch=4, notes="16 layers")
    assert (apart(ASKED, lora), left_open(ASKED, lora)) == ([], ())


def test_two_rows_agree_wherever_both_say_it():
    assert agree(ASKED, row(batch=4), row(lora_rank=8))
    assert agree(ASKED, row(batch=4, lora_rank=8), row(batch=4))
    assert not agree(ASKED, row(batch=4), row(batch=2))


def test_no_condition_of_any_row_is_both_open_and_contradicted():
    rows = cited.read(BUNDLED)
    assert len(rows) > 300
    for asked in read_claims(CLAIMS):
        for each in rows:
            contradicted = {name.partition(" ")[0].replace("_", " ") for name in apart(asked, each)}
            assert not contradicted & set(left_open(asked, each)), (asked.id, each.id)


def test_the_bundled_rows_are_those_of_the_repository():
    assert Path(__file__).parents[2] / "results" == BUNDLED
