"""The suites that are shipped ask what the issue says they ask."""

from collections import Counter
from pathlib import Path

import pytest

from bench.backends.interface import BACKENDS, load_backend
from bench.catalog import catalogue
from bench.expand import cells_of, exclusion_of
from bench.holes import refusal
from bench.machine import catalogue_machine
from bench.plan import plan
from bench.predict.answer import foreteller
from bench.spec import Cell, Suite
from bench.suite import read_suite

SUITES = Path(__file__).parents[1] / "suites"


def shipped(name: str) -> Suite:
    return read_suite(SUITES / f"{name}.toml")


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_suite_reads(path):
    assert read_suite(path).question


@pytest.mark.parametrize("name", ["smoke", "lesson", "ladder", "controls", "gpu-check", "nightly", "nightly-cpu"])
def test_a_shipped_suite_opens_with_its_schema_and_says_how_to_read_it(name):
    path = SUITES / f"{name}.toml"
    suite = read_suite(path)
    comment = path.read_text().split("\nquestion")[0]
    assert suite.question.endswith("?")
    assert comment.startswith("#:schema ./schema.json\n")
    assert "How to read it:" in comment


def kept(name: str) -> list[Cell]:
    """The cells of a suite on a CPU, without those that it excludes."""
    suite = shipped(name)
    return [cell for cell in cells_of(suite, lambda name: "cpu") if exclusion_of(suite, cell) is None]


def test_smoke_is_both_stacks_three_methods_two_sizes_two_architectures_on_the_cpu_and_serving_at_one_size():
    cells = kept("smoke")
    assert Counter(cell.workload.method for cell in cells) == {"full": 8, "lora": 8, "qlora": 8, "serve": 4}
    assert {(cell.backend, cell.device) for cell in cells} == {("hf", "cpu"), ("mlx", "cpu")}
    assert {cell.workload.model.config["model_type"] for cell in cells} == {"llama", "qwen3"}
    assert len({cell.workload.model.parameters for cell in cells}) == 4
    assert max(cell.workload.model.parameters or 0 for cell in cells) < 600_000


@pytest.mark.parametrize("backend", ["hf", "mlx"])
def test_no_backend_refuses_a_cell_of_smoke(backend):
    cells = [cell for cell in kept("smoke") if cell.backend == backend]
    assert [load_backend(backend).refuses(cell) for cell in cells] == [None] * 14


def test_lesson_is_the_whole_grid():
    suite = shipped("lesson")
    cells = cells_of(suite, lambda name: load_backend(name).devices[0] if name in BACKENDS else "cuda")
    assert [cell.workload.model.name for cell in cells[::12]] == list(catalogue().aliases.values())
    assert len(cells) == 6 * 4 * 3
    excluded = [cell.id for cell in cells if exclusion_of(suite, cell)]
    assert excluded == [f"llama-3.3-70b/full/{backend}" for backend in ("hf@cuda", "unsloth@cuda", "mlx@metal")]


def test_lesson_serves_4_bit_weights_and_leaves_full_and_lora_unquantised():
    bits = {cell.workload.method: cell.workload.quantization_bits for cell in kept("lesson")}
    assert bits == {"full": None, "lora": None, "qlora": 4, "serve": 4}
    assert {cell.workload.sequence_length for cell in kept("lesson") if cell.workload.serves} == {640}


def test_the_reason_why_the_largest_full_fine_tune_is_left_out_is_sound():
    parameters = catalogue().models["llama-3.3-70b"].parameters
    assert parameters is not None
    assert f"{8 * parameters / 1e9:.0f} GB" in shipped("lesson").exclude[0].reason


def test_the_ladder_is_the_same_work_in_eight_ways():
    suite = shipped("ladder")
    cells = cells_of(suite, lambda name: "cuda")
    assert [arm.name for arm in suite.arms] == sorted(arm.name for arm in suite.arms)
    assert len(cells) == 2 * 2 * 8
    assert len({cell.workload.digest for cell in cells}) == 4
    assert {cell.device for cell in cells} == {"cuda"}
    ways = {dict(cell.swept)["arm"]: (cell.backend, cell.implementation) for cell in cells}
    assert [way.attention for _, way in ways.values()] == ["eager", "sdpa", "flash", "flash-attn", "sdpa", "sdpa", None, None]
    assert [way.kernels for _, way in ways.values()] == [None, None, None, None, "liger", "liger", None, None]
    assert [bool(way.compile) for _, way in ways.values()] == [False] * 5 + [True, False, False]
    assert [backend for backend, _ in ways.values()] == ["hf"] * 6 + ["unsloth"] * 2


def test_no_rung_of_transformers_is_refused():
    cells = [cell for cell in cells_of(shipped("ladder"), lambda name: "cuda") if cell.backend == "hf"]
    assert [load_backend("hf").refuses(cell) for cell in cells] == [None] * 24


def digests(name: str) -> dict[tuple[str, str], str]:
    cells = cells_of(shipped(name), lambda name: "cuda")
    return {(cell.workload.model.name, cell.workload.method): cell.workload.digest for cell in cells}


def test_controls_gpu_check_ladder_and_nightly_do_the_work_of_the_lesson():
    """So their rows stand beside the lesson's, and are compared with them."""
    lesson = digests("lesson")
    for name in ("controls", "gpu-check", "ladder", "nightly"):
        shared = {key: digest for key, digest in digests(name).items() if key in lesson}
        assert len(shared) >= 4
        assert shared.items() <= lesson.items()


def test_the_controls_are_named_with_their_devices():
    cells = cells_of(shipped("controls"), lambda name: "cpu")
    arms = {f"{cell.backend}@{cell.device}" for cell in cells}
    assert arms == {"mlx@metal", "hf@mps", "unsloth@metal", "hf@cuda", "unsloth@cuda", "mlx@cuda"}
    refusals = [load_backend(cell.backend).refuses(cell) for cell in cells if cell.backend in ("hf", "mlx")]
    assert refusals == [None] * 16


def test_gpu_check_is_a_dozen_short_cells():
    suite = shipped("gpu-check")
    cells = cells_of(suite, lambda name: "cuda")
    assert len(cells) == 12
    assert {cell.workload.method for cell in cells} == {"full", "lora", "qlora"}
    assert 5e8 < min(cell.workload.model.parameters for cell in cells) < 7e8
    assert 14e9 < max(cell.workload.model.parameters for cell in cells) < 15e9
    assert suite.repeats == 1
    assert suite.measure.warmup_steps == suite.measure.warmup_max_steps
    assert {cell.workload.weights for cell in cells} == {"random"}


@pytest.mark.parametrize(
    ("name", "ways", "cells"),
    [("nightly", {"mlx@metal", "hf@cuda", "unsloth@cuda"}, 9), ("nightly-cpu", {"hf@cpu", "mlx@cpu"}, 4)],
)
def test_a_night_is_a_few_cells_of_six_runs_that_end_by_morning(name, ways, cells):
    suite, asked = shipped(name), kept(name)
    assert suite.repeats >= 6
    assert {f"{cell.backend}@{cell.device}" for cell in asked} == ways
    assert len(asked) == cells
    assert {cell.workload.method for cell in asked} == {"lora", "qlora"}
    assert suite.budget_minutes is not None
    assert suite.budget_minutes <= 180
    assert all(exclusion.reason for exclusion in suite.exclude)


@pytest.mark.parametrize("backend", ["hf", "mlx"])
def test_no_backend_refuses_a_cell_of_a_night_on_the_cpu(backend):
    cells = [cell for cell in kept("nightly-cpu") if cell.backend == backend]
    assert [load_backend(backend).refuses(cell) for cell in cells] == [None] * 2


@pytest.mark.parametrize(("machine", "runs", "most_minutes"), [("mac-studio-m3-ultra", 18, 60), ("pc-rtx-4090", 36, 60)])
def test_a_night_is_predicted_to_last_less_than_an_hour(machine, runs, most_minutes):
    profile = catalogue_machine(machine)
    planned = plan(shipped("nightly"), profile, {}, capabilities=refusal, foretell=foreteller(profile))
    totals = planned.to_json()["totals"]
    assert len(planned.order) == runs
    assert 0 < totals["duration_s"] / 60 < most_minutes
