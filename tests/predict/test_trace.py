"""The trace of a step: equal to the real step's storages, the same from few blocks as from all, kept on disk, honest in refusal.

Against malloc: `test_trace_truth.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tiny_models import GEMMA3, LLAMA, QWEN3
from trace_cells import METHODS, tiny

from bench.backends.hf import HuggingFace
from bench.backends.interface import UnsupportedError
from bench.data import Batches
from bench.predict import trace, trace_cache
from bench.predict.allocator import replay
from bench.predict.prediction import PARTS
from bench.predict.trace_step import fake_step, real_step
from bench.spec import Implementation


@pytest.fixture(scope="module", autouse=True)
def _stack():
    HuggingFace().prepare()


def close(traced: int, real: int) -> bool:
    """Within 0.1%, and the table of codes that bitsandbytes makes once and keeps from run to run: an earlier test's is unseen."""
    return abs(traced - real) <= 0.001 * real + 4 * 256


def parity(cell) -> None:
    traced, real = fake_step(cell, "cpu"), real_step(cell)
    assert close(traced.peak().total_bytes, real.peak().total_bytes)
    for phase, peak in real.phase_peaks().items():
        assert close(traced.phase_peaks()[phase].total_bytes, peak.total_bytes), phase
    for part in ("weights", "adapters", "gradients", "optimizer", "logits"):
        assert close(traced.peak().parts.get(part, 0), real.peak().parts.get(part, 0)), part


def test_a_step_without_values_has_the_storages_of_a_real_one():
    parity(tiny("qlora"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("checkpointing", [True, False])
def test_parity_by_method(method, checkpointing):
    parity(tiny(method, checkpointing=checkpointing))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"config": QWEN3, "weights_dtype": "float32"},
        {"config": GEMMA3, "blocks": 4},
        {"optimizer": "sgd"},
        {"master_dtype": "float32"},
    ],
    ids=str,
)
def test_parity_of_other_work(fields):
    parity(tiny("full", **fields))


@pytest.mark.slow
def test_two_micro_batches_stand_for_any_number():
    """But for the ids themselves, of which the trainer fetches a step's at once."""
    cell = tiny("full", gradient_accumulation=3)
    traced, real = fake_step(cell, "cpu").phase_peaks(), real_step(cell).phase_peaks()
    ids_bytes = 2 * 3 * 8 * 2 * 64  # two steps: ids, labels and mask of a batch of 2 × 64, in int64
    assert traced.keys() == real.keys()
    assert all(0 <= real[phase].total_bytes - traced[phase].total_bytes <= ids_bytes for phase in real)
    assert all(traced[phase].parts["gradients"] == real[phase].parts["gradients"] for phase in ("forward", "optimizer"))


class Untouched:
    """A worker's session that only counts."""

    max_steps = 2

    def __init__(self, begins) -> None:
        self.loaded = begins

    def progress(self, what) -> None: ...

    def step(self, seen) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_batches_handed_over_change_nothing_of_what_the_backend_trains(method):
    """The backend itself, its own data included, under a tracker that starts when the model is loaded."""
    from bench.backends.hf_dequantise import dequantised
    from bench.backends.storages import Tracker

    cell = tiny(method)
    tracker = Tracker("cpu", dequantised())
    with tracker:
        HuggingFace().run(cell, Batches(512, 2, 64), Untouched(lambda loaded: tracker.start()))
    assert abs(fake_step(cell, "cpu").peak().total_bytes / tracker.timeline.peak().total_bytes - 1) < 0.01


def same_from_few(cell) -> None:
    few, all_of_them = trace.traced(cell, cell.device), trace.traced(cell, cell.device, whole=True)
    assert few.phase_peaks() == all_of_them.phase_peaks()
    assert replay(few) == replay(all_of_them)
    assert abs(len(few.events) - len(all_of_them.events)) < 0.05 * len(all_of_them.events)


def test_few_blocks_repeated_are_the_whole_model():
    same_from_few(tiny("lora", blocks=6, checkpointing=False, device="cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("checkpointing", [True, False])
def test_few_blocks_repeated_by_method(method, checkpointing):
    same_from_few(tiny(method, blocks=8, checkpointing=checkpointing, device="cuda", config=QWEN3))


@pytest.mark.slow
def test_few_blocks_repeated_with_blocks_of_two_kinds():
    same_from_few(tiny("lora", blocks=13, device="cuda", config=GEMMA3))


def test_the_memory_of_a_cell_on_a_card_adds_up_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cell = tiny("lora", device="cuda")
    made = trace.memory(cell)
    assert sum(made.parts.values()) == made.peak_bytes
    assert set(made.parts) == set(PARTS)
    assert made.peak_bytes <= made.reserved_bytes < made.held_bytes
    assert made.held_low_bytes < made.held_bytes < made.held_high_bytes
    assert made.parts["optimizer"] >= 2 * made.parts["adapters"]  # two moments in the adapters' float32
    assert made.notes[0].startswith("uncalibrated")
    monkeypatch.setattr(trace, "traced", None)
    assert trace.memory(cell) == made
    with pytest.raises(TypeError):
        trace.memory(replace(cell, workload=replace(cell.workload, rank=8)))


@pytest.mark.parametrize("damage", [b"", b"[]", b"{}", b'{"parts": {}}', b"\xff"])
def test_a_damaged_file_counts_as_absent(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = trace_cache.path_of(tiny("lora"))
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    assert trace_cache.read(tiny("lora")) is None


def test_a_file_whose_parts_do_not_add_up_counts_as_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cell = tiny("lora")
    names = ("peak_bytes", "peak_low_bytes", "peak_high_bytes", "held_bytes", "held_low_bytes", "held_high_bytes")
    parts = {**dict.fromkeys(PARTS, 0), "weights": 5}
    whole = {"parts": parts, **dict.fromkeys(names, 5), "how": "trace", "reserved_bytes": None, "notes": []}
    path = trace_cache.path_of(cell)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(whole))
    assert trace_cache.read(cell) is not None
    for damage in (
        {"parts": {**parts, "weights": 4}},
        {"parts": {**parts, "weights": 6, "logits": -1}},
        {"parts": {"weights": 5}},
        {"parts": {**parts, "foo": 0}},
        {"parts": [5]},
        {"how": "guess"},
        {"held_low_bytes": 6},
        {"peak_high_bytes": 4},
        dict.fromkeys(names, 0) | {"parts": dict.fromkeys(PARTS, 0)},
    ):
        path.write_text(json.dumps({**whole, **damage}))
        assert trace_cache.read(cell) is None, damage
    path.write_text("[" * 100_000)
    assert trace_cache.read(cell) is None


def test_a_folder_that_cannot_be_written_to_is_no_fault(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    names = ("peak_bytes", "peak_low_bytes", "peak_high_bytes", "held_bytes", "held_low_bytes", "held_high_bytes")
    trace_cache.write(tiny("lora"), trace.Memory(parts={}, how="trace", **dict.fromkeys(names, 0)))
    assert trace_cache.read(tiny("lora")) is None


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (replace(tiny("lora"), backend="mlx"), "not of mlx's"),
        (tiny("lora", device="mps"), "as on mps"),
        (replace(tiny("lora", device="cuda"), implementation=Implementation(compile=True)), "torch.compile"),
        (replace(tiny("lora", device="cuda"), implementation=Implementation(kernels="liger")), "liger's kernels"),
        (tiny("full", weights_dtype="float16", master_dtype="float32", device="cuda"), "autocast to float16"),
        (tiny("serve", device="cuda"), "of serving"),
        (tiny("lora", config={**LLAMA, "model_type": "no-such"}), "no-such"),
    ],
)
def test_what_cannot_be_traced_is_told(cell, why):
    with pytest.raises(UnsupportedError, match=why):
        trace.memory(cell, cached=False)
