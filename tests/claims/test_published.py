"""Published rows as evidence: only where every stated condition matches, one voice a source, and what is open is listed."""

from __future__ import annotations

import pytest
from claim_rows import MAC, PC, claim

from bench.cited import Cited
from bench.claims import published
from bench.claims.claim import Side

ROW = {
    "source": "one",
    "hardware": "NVIDIA RTX 4090",
    "memory_gb": 24.0,
    "framework": "transformers + peft + trl",
    "model": "Llama-3.1-8B",
    "params_b": 8.03,
    "method": "LoRA",
    "lora_rank": 16,
    "lora_targets": "q,k,v,o,mlp",
    "quant_bits": 16,
    "optimizer": "AdamW",
    "batch": 1,
    "seq_len": 2048,
    "grad_checkpointing": "yes",
    "dtype": "bf16",
    "outcome": "ok",
}
PEAK = claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB")
OPEN = ("adapter dtype", "trl version")
FIT = claim("fit", fits="yes", sides=(PC,))


def cited(number: int = 1, **fields) -> Cited:
    family = fields.pop("family", "one")
    return Cited(id=f"{family}-{number:03}", **{**ROW, **fields})


def known(*rows: Cited) -> published.Published:
    return published.prepared(rows)


def frameworks() -> str:
    """A framework whose rules are hf's own, as the importer knows it."""
    return next(name for name in ("transformers + peft + trl", "HF PEFT", "ms-swift", "HF Trainer") if _own(name))


def _own(name: str) -> bool:
    rows = published.prepared([Cited(id="x-1", **{**ROW, "framework": name})])
    return bool(rows.observed) and rows.observed[0].own


@pytest.fixture(scope="module")
def own():
    return frameworks()


def test_a_peak_of_the_same_conditions_answers(own):
    (found,) = published.estimates(PEAK, known(cited(framework=own, peak_mem_bytes=17_000_000_000, meter="allocated")))
    assert (found.value, found.low, found.refused, found.evidence) == (17e9, None, None, ("one-001",))


def test_two_sources_make_an_interval_and_rows_of_one_are_one_voice(own):
    rows = [
        cited(1, framework=own, peak_mem_bytes=17_000_000_000, meter="allocated"),
        cited(2, framework=own, peak_mem_bytes=17_000_000_000, meter="allocated"),
        cited(3, framework=own, peak_mem_bytes=19_000_000_000, meter="allocated", family="two", source="two"),
    ]
    (found,) = published.estimates(PEAK, known(*rows))
    assert found.n == 3
    assert found.value == pytest.approx((17e9 * 19e9) ** 0.5)
    assert found.low < 17e9
    assert found.high > 19e9


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"seq_len": 512}, "under other conditions: sequence_length 512"),
        ({"meter": "reserved"}, "meter reserved: not the framework's own peak"),
        ({"framework": "torchtune"}, "another trainer (torchtune)"),
        ({"framework": "torchtune", "batch": 4}, "another trainer (torchtune); under other conditions: batch_size 4"),
    ],
)
def test_other_conditions_meters_and_trainers_judge_nothing(own, fields, reason):
    row = cited(**{"framework": own, "peak_mem_bytes": 17_000_000_000, "meter": "allocated", **fields})
    (found,) = published.estimates(PEAK, known(row))
    assert found.refused == reason


def test_what_a_source_leaves_open_is_listed(own):
    open_row = cited(framework=own, lora_rank=None, batch=None, peak_mem_bytes=17_000_000_000, meter="allocated")
    (found,) = published.estimates(PEAK, known(open_row))
    assert (found.unstated, found.refused) == (("batch size", "rank", "trl version"), None)


def test_an_unstated_precision_of_adapters_refuses_nothing(own):
    asked = claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB", conditions={"adapter_dtype": "bfloat16"})
    row = cited(framework=own, peak_mem_bytes=17_000_000_000, meter="allocated")
    stated = cited(framework=own, peak_mem_bytes=17_000_000_000, meter="allocated", dtype="bf16, adapters fp32")
    assert [(each.unstated, each.refused) for each in published.estimates(asked, known(row))] == [(OPEN, None)]
    (found,) = published.estimates(asked, known(stated))
    assert (found.unstated, found.refused) == (("trl version",), "under other conditions: adapter_dtype float32")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"quant_bits": 8, "method": "QLoRA"}, "under other conditions: quantization_bits 8"),
        ({"notes": "16 layers, mask-prompt", "method": "QLoRA", "quant_bits": 4}, "under other conditions: adapter_layers 16"),
        ({"framework_version": "mlx-lm 0.31.3", "quant_bits": 4, "method": "QLoRA"}, "under other conditions: adapter_layers 16"),
        ({"quant_bits": 4, "method": "QLoRA"}, None),
    ],
)
def test_a_base_of_other_bits_and_adapters_on_some_blocks_are_other_work(fields, reason):
    conditions = {"quantization_bits": 4, "rank": 16}
    asked = claim("value", quantity="peak_bytes", expected=(7e9, 7e9), unit="GB", methods=("qlora",), conditions=conditions)
    mac = {"framework": "mlx-lm", "hardware": "Apple M3 Max (64GB)", "memory_gb": 64.0}
    (found,) = published.estimates(asked, known(cited(**mac, peak_mem_bytes=17_000_000_000, meter="mlx_peak", **fields)))
    assert found.refused == reason
    assert ("adapter layers" in found.unstated) == (reason is None or "bits" in reason)


@pytest.mark.parametrize("row", [{"meter": "vendor_claim", "peak_mem_bytes": 17_000_000_000}, {"outcome": "crash"}])
def test_vendors_claims_and_crashes_are_no_evidence(own, row):
    assert published.estimates(FIT, known(cited(framework=own, **row))) == []
    assert published.estimates(PEAK, known(cited(framework=own, **row))) == []


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({}, 1.0),
        ({"outcome": "oom"}, 0.0),
        ({"outcome": "oom", "hardware": "NVIDIA A100-80GB", "memory_gb": 80.0}, 0.0),  # more memory was not enough
        ({"hardware": "NVIDIA A100-80GB", "memory_gb": 80.0}, None),  # ran with more: says nothing of less
    ],
)
def test_fit_is_carried_to_machines_with_more_and_failure_to_those_with_less(own, fields, value):
    found = published.estimates(FIT, known(cited(framework=own, **fields)))
    assert [each.value for each in found] == ([] if value is None else [value])


def test_watts_while_generating_are_no_watts_of_training():
    power = claim("value", quantity="power_w", expected=(450, 450), unit="W", sides=(PC,), methods=("lora",), scope="gpu-board")
    rows = [
        cited(1, method="inference", watts=464.2, notes="wall power during token generation (whole PC)"),
        cited(2, method="QLoRA", watts=400.0, notes="watts = peak per card"),
    ]
    found = published.estimates(power, known(*rows))
    assert {each.value: each.refused for each in found} == {
        400.0: "another method (QLoRA); the highest watts, not the mean while training",
        464.2: "read while it generated, not while it trained; covers wall, the claim's gpu-board",
    }


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"framework": "fsdp_qlora"}, "another trainer (fsdp_qlora)"),
        ({"hardware": "2x NVIDIA RTX 4090"}, "several cards (2x NVIDIA RTX 4090)"),
        ({"notes": "GPU alone, peak power"}, "the highest watts, not the mean while training"),
        ({"notes": "watts = peak per card"}, "the highest watts, not the mean while training"),
        ({"batch": 8}, "under other conditions: batch_size 8"),
        ({"model": "Llama-2-7B", "params_b": 6.74}, "another model (Llama-2-7B)"),
    ],
)
def test_watts_of_other_trainers_cards_conditions_and_peaks_are_refused(own, fields, reason):
    power = claim("value", quantity="power_w", expected=(450, 450), unit="W", sides=(PC,), scope="gpu-board")
    (found,) = published.estimates(power, known(cited(**{"framework": own, "watts": 400.0, "notes": "GPU alone", **fields})))
    assert (found.value, found.refused) == (400.0, reason)


def test_a_ratio_takes_pairs_of_the_same_stated_conditions(own):
    sides = (Side(machines=("pc-rtx-4090",)), Side(machines=("a100-80gb",)))
    speed = claim("ratio", quantity="tokens_per_s", expected=(2, 4), unit="×", sides=sides)
    same = cited(2, framework=own, tokens_per_s=4000.0, hardware="NVIDIA A100-80GB", memory_gb=80.0)
    other = cited(3, framework=own, tokens_per_s=4000.0, hardware="NVIDIA A100-80GB", memory_gb=80.0, seq_len=1024)
    found = published.estimates(speed, known(cited(1, framework=own, tokens_per_s=2000.0), same, other))
    assert [(each.value, each.evidence, each.refused) for each in found] == [(0.5, ("one-001", "one-002"), None)]
    assert found[0].sides == (2000.0, 4000.0)


def test_decode_rates_of_another_program_are_shown():
    decode = claim(
        "range", quantity="tokens_per_s", expected=(7, None), unit="tokens/s", sides=(PC,), methods=("serve",), conditions={}
    )
    (found,) = published.estimates(decode, known(cited(method="inference", framework="llama.cpp/Ollama", tokens_per_s=90.0)))
    assert (found.value, found.refused) == (90.0, "another program (llama.cpp/Ollama)")


def test_machines_of_another_name_say_nothing_of_this_one(own):
    peak = claim("value", quantity="peak_bytes", expected=(18e9, 18e9), unit="GB", sides=(MAC,))
    assert published.estimates(peak, known(cited(framework=own, peak_mem_bytes=17_000_000_000, meter="allocated"))) == []


def test_who_serves_faster_is_shown_by_other_programs_and_on_the_same_chip(own):
    """llama.cpp on an M3 Ultra of another size: no evidence on our stacks, and what a reader wants to see beside them."""
    asked = claim("winner", winner="tie", sides=(PC, MAC), methods=("serve",), conditions={})
    rows = [
        cited(1, method="inference", framework="llama.cpp/Ollama", tokens_per_s=90.0),
        cited(
            2,
            method="inference",
            framework="llama.cpp/Ollama",
            tokens_per_s=50.0,
            hardware="Apple M3 Ultra 80-core (512GB)",
            memory_gb=512.0,
        ),
    ]
    found = published.estimates(asked, known(*rows))
    assert [(each.value, each.refused) for each in found] == [
        (90.0, "another program (llama.cpp/Ollama)"),
        (50.0, "another machine (Apple M3 Ultra 80-core (512GB)); another program (llama.cpp/Ollama)"),
    ]
    assert {each.quantity for each in found} == {"tokens_per_s"}, "a rate, not a ratio"


def test_a_rate_of_one_machine_never_judges_who_wins(own):
    asked = claim("winner", winner="tie", sides=(PC, MAC), methods=("serve",), conditions={})
    (found,) = published.estimates(asked, known(cited(method="inference", framework=own, tokens_per_s=90.0)))
    assert found.refused == "one machine's rate, with none beside it"
