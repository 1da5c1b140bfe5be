"""The suites that are shipped ask what the issue says they ask."""

from pathlib import Path

import pytest

from bench.backends.interface import BACKENDS, load_backend
from bench.catalog import catalogue
from bench.expand import cells_of, exclusion_of
from bench.spec import Suite
from bench.suite import read_suite

SUITES = Path(__file__).parents[1] / "suites"


def shipped(name: str) -> Suite:
    return read_suite(SUITES / f"{name}.toml")


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_suite_reads(path):
    assert read_suite(path).question


@pytest.mark.parametrize("name", ["smoke", "lesson"])
def test_a_shipped_suite_opens_with_its_schema_and_says_how_to_read_it(name):
    path = SUITES / f"{name}.toml"
    suite = read_suite(path)
    comment = path.read_text().split("\nquestion")[0]
    assert suite.question.endswith("?")
    assert comment.startswith("#:schema ./schema.json\n")
    assert "How to read it:" in comment


def test_smoke_is_both_stacks_three_methods_two_sizes_two_architectures_on_the_cpu():
    cells = cells_of(shipped("smoke"), lambda name: "cpu")
    assert len(cells) == 24
    assert {(cell.backend, cell.device) for cell in cells} == {("hf", "cpu"), ("mlx", "cpu")}
    assert {cell.workload.method for cell in cells} == {"full", "lora", "qlora"}
    assert {cell.workload.model.config["model_type"] for cell in cells} == {"llama", "qwen3"}
    assert len({cell.workload.model.parameters for cell in cells}) == 4
    assert max(cell.workload.model.parameters or 0 for cell in cells) < 600_000


@pytest.mark.parametrize("backend", ["hf", "mlx"])
def test_no_backend_refuses_a_cell_of_smoke(backend):
    cells = [cell for cell in cells_of(shipped("smoke"), lambda name: "cpu") if cell.backend == backend]
    assert [load_backend(backend).refuses(cell) for cell in cells] == [None] * 12


def test_lesson_is_the_whole_grid():
    suite = shipped("lesson")
    cells = cells_of(suite, lambda name: load_backend(name).devices[0] if name in BACKENDS else "cuda")
    assert [cell.workload.model.name for cell in cells[::9]] == list(catalogue().aliases.values())
    assert len(cells) == 6 * 3 * 3
    excluded = [cell.id for cell in cells if exclusion_of(suite, cell)]
    assert excluded == [f"llama-3.3-70b/full/{backend}" for backend in ("hf@cuda", "unsloth@cuda", "mlx@metal")]


def test_the_reason_why_the_largest_full_fine_tune_is_left_out_is_sound():
    parameters = catalogue().models["llama-3.3-70b"].parameters
    assert parameters is not None
    assert f"{8 * parameters / 1e9:.0f} GB" in shipped("lesson").exclude[0].reason
