"""What the rules say of whole cells: the facts that are known of them, and what an interval is made of."""

import pytest

from bench.catalog import catalogue, machine_profiles
from bench.model import Model, canonical_json
from bench.predict import rules
from bench.predict.capacity import fit_probability
from bench.predict.prediction import PARTS, verdict
from bench.predict.rules import Spread, memory, uncalibrated
from bench.spec import Cell, Implementation, workload

GB, GIB = 10**9, 2**30
CAPACITY = {profile.name: profile.capacity_bytes for profile in machine_profiles()}
PLACES = {"pc-rtx-4090": ("hf", "cuda"), "mac-studio-m3-ultra": ("mlx", "metal")}


def cell_of(name, backend="hf", device="cuda", how=None, **declared):
    known = catalogue()
    model = known.models[known.aliases.get(name, name)]
    return Cell(workload(model=model, **{"adapter_dtype": "bfloat16", **declared}), backend, device, how or Implementation())


def fits(cell, machine):
    return verdict(fit_probability(memory(cell), CAPACITY[machine]))


def test_lora_of_14b_in_16_bits_does_not_fit_24_gb():
    assert fits(cell_of("14b", method="lora"), "pc-rtx-4090") == "no"


def test_qlora_of_32b_on_attention_alone_is_tight_on_24_gb_or_fits():
    assert fits(cell_of("32b", method="qlora", modules="attention"), "pc-rtx-4090") in ("tight", "yes")


def test_lora_of_70b_in_4_bits_peaks_near_46_gb_on_mlx_with_embeddings_and_head_in_4_bits():
    """mlx-lm's own format has them so (`test_rules_mlx`); the backend leaves both in 16 bits, as hf does: 3.0 GB more.

    46 GB is published without its conditions: these are the lesson's. As mlx-lm trains by default, the last 16 blocks at rank 8,
    it is 43.9 GB.
    """
    cell = cell_of("70b", "mlx", "metal", method="qlora", sequence_length=2048, rank=16)
    found, default = (
        uncalibrated(each) for each in (cell, cell_of("70b", "mlx", "metal", method="qlora", adapter_layers=16, rank=8))
    )
    elements = 2 * 128_256 * 8192
    saved = round(elements * (2 - (4 / 8 + 2 * 2 / 64)))
    assert saved == pytest.approx(3.02 * GB, rel=0.001)
    assert found.parts["weights"] - saved == pytest.approx(39.69 * GB, rel=0.001)
    assert found.peak_bytes - saved == pytest.approx(46 * GB, rel=0.05)
    assert default.peak_bytes - saved == pytest.approx(43.9 * GB, rel=0.01)
    assert found.peak_bytes > 1.05 * 46 * GB, "as the backend has it, it is more"
    assert fit_probability(found, CAPACITY["mac-studio-m3-ultra"]) > 0.9


def test_lora_of_8b_takes_16_to_20_gb():
    assert 16 * GB < uncalibrated(cell_of("8b", method="lora")).peak_bytes < 20 * GB


def test_qlora_of_8b_takes_6_to_9_gb_with_checkpointing_and_far_more_without():
    with_it, without = (uncalibrated(cell_of("8b", method="qlora", gradient_checkpointing=on)).peak_bytes for on in (True, False))
    assert 6 * GB < with_it < 9 * GB
    assert without > 2 * with_it


@pytest.mark.parametrize(("kernel", "gib"), [("foreach", 74.8), ("fused", 59.9)])
def test_a_full_fine_tune_of_8b_peaks_as_its_trace_does(kernel, gib):
    found = uncalibrated(cell_of("8b", method="full", how=Implementation(optimizer_kernel=kernel)))
    assert found.peak_bytes / GIB == pytest.approx(gib, abs=0.1)


def test_lora_of_8b_over_full_logits_peaks_as_its_trace_did():
    """The study's trace had a loss over all logits: 18.66 GiB, QLoRA 9.01, 70B QLoRA 43.5."""
    lora = uncalibrated(cell_of("8b", method="lora"), True)
    qlora, large = (uncalibrated(cell_of(name, method="qlora"), True) for name in ("8b", "70b"))
    assert lora.peak_bytes / GIB == pytest.approx(18.66, rel=0.05)
    assert qlora.peak_bytes / GIB == pytest.approx(9.01, rel=0.08)
    assert large.peak_bytes / GIB == pytest.approx(43.5, rel=0.05)


@pytest.mark.parametrize("method", ["full", "lora", "qlora", "serve"])
@pytest.mark.parametrize(
    ("backend", "device"),
    [("hf", "cuda"), ("hf", "cpu"), ("hf", "mps"), ("unsloth", "cuda"), ("unsloth", "metal"), ("mlx", "cpu"), ("mlx", "metal")],
)
def test_parts_add_up_and_ends_enclose(method, backend, device):
    found = memory(cell_of("8b", backend, device, method=method))
    assert set(found.parts) == set(PARTS)
    assert all(isinstance(value, int) and value >= 0 for value in found.parts.values())
    assert sum(found.parts.values()) == found.peak_bytes
    assert found.peak_low_bytes < found.peak_bytes < found.peak_high_bytes
    assert found.held_low_bytes < found.held_bytes < found.held_high_bytes
    assert found.held_bytes >= (found.reserved_bytes or found.peak_bytes)
    assert (found.reserved_bytes is not None) == (device == "cuda")


@pytest.mark.parametrize(
    "field", [{"batch_size": 4}, {"sequence_length": 8192}, {"gradient_checkpointing": False}, {"rank": 256}]
)
@pytest.mark.parametrize(("backend", "device"), [("hf", "cuda"), ("unsloth", "cuda"), ("mlx", "metal")])
def test_more_of_anything_needs_more(field, backend, device):
    less, more = (memory(cell_of("8b", backend, device, method="lora", **each)).peak_bytes for each in ({}, field))
    assert more > less


def test_calibration_moves_what_is_unsure_and_leaves_what_is_exact(monkeypatch):
    cell = cell_of("8b", method="lora")
    plain = uncalibrated(cell)
    for factor in (1.1, 0.9):
        monkeypatch.setattr(rules, "stored_spreads", lambda factor=factor: {("hf", "peak"): Spread(factor, 0.05)})
        found = memory(cell)
        assert found.parts["weights"] == plain.parts["weights"]
        assert min(found.parts.values()) >= 0
        assert sum(found.parts.values()) == found.peak_bytes
        assert (found.peak_bytes > plain.peak_bytes) == (factor > 1)
    assert uncalibrated(cell) == plain


def test_an_unknown_architecture_is_said_to_be_and_has_a_wider_interval():
    config = {"model_type": "strange", "vocab_size": 32_000, "n_embd": 4096, "n_layer": 32, "n_head": 32, "n_inner": 11_008}
    known = {
        **config,
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 11_008,
    }
    strange, llama = (
        uncalibrated(Cell(workload(model=Model("x", canonical_json(each)), method="lora"), "hf", "cuda"))
        for each in (config, known)
    )
    assert strange.peak_bytes == llama.peak_bytes
    assert strange.peak_high_bytes > llama.peak_high_bytes
    assert any("unknown architecture strange" in note for note in strange.notes)


def test_what_the_rules_pass_over_is_noted():
    compiled = memory(cell_of("8b", method="lora", how=Implementation(compile=True)))
    eager = memory(cell_of("8b", method="lora", how=Implementation(attention="eager")))
    assert any("compiled" in note for note in compiled.notes)
    assert any("length × length" in note for note in eager.notes)
    assert any("reading its source" in note for note in memory(cell_of("8b", "unsloth", method="lora")).notes)
