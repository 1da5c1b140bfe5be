"""The main job, small: the shipped smoke suite on both real stacks, through the command line, to a report and a README query."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bench import store

ROOT = Path(__file__).parents[1]
MODEL = "tiny-qwen3-xs"


def wingspan(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *(str(each) for each in arguments)]
    return subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True, timeout=540)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the suite's smallest Qwen3 was measured once with every method and backend, and reported."""
    path = tmp_path_factory.mktemp("end-to-end")
    arguments = ("run", ROOT / "suites" / "smoke.toml", "--only", f"{MODEL}/*", "--repeats", 1, "--json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINGSPAN_LOCK", str(path / "lock"))
        ran = wingspan(*arguments, cwd=path)
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["runs"]) == 8
    reported = wingspan("report", cwd=path)
    assert reported.returncode == 0, reported.stderr
    return path


@pytest.fixture(scope="module")
def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = store.read(folder / "results", "runs").rows.to_pylist()
    return {(row["method"], row["backend"]): row for row in found}


def test_both_stacks_did_every_method(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert {key: row["outcome"] for key, row in rows.items()} == {
        (method, backend): "ok" for method in ("full", "lora", "qlora", "serve") for backend in ("hf", "mlx")
    }


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_both_stacks_did_the_same_work(rows: dict[tuple[str, str], dict[str, Any]], method: str) -> None:
    hf, mlx = rows[method, "hf"], rows[method, "mlx"]
    for column in ("workload_digest", "tokens_digest", "trainable_parameters", "parameters"):
        assert hf[column] == mlx[column], column
        assert hf[column]
    assert hf["implementation"] != mlx["implementation"]


def test_both_stacks_served_the_same_prompts(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    hf, mlx = rows["serve", "hf"], rows["serve", "mlx"]
    for column in ("workload_digest", "tokens_digest", "parameters"):
        assert hf[column] == mlx[column], column
        assert hf[column]
    assert (hf["prompt_tokens"], hf["generated_tokens"], hf["sequence_length"]) == (64, 16, 80)
    assert dict(hf["implementation"])["cache"] == "DynamicCache in float32"
    assert dict(mlx["implementation"])["cache"] == "BatchKVCache in float32"


@pytest.mark.parametrize("backend", ["hf", "mlx"])
def test_a_served_row_has_both_rates_the_first_token_and_memory(
    folder: Path, rows: dict[tuple[str, str], dict[str, Any]], backend: str
) -> None:
    row = rows["serve", backend]
    steps = [each for each in store.read(folder / "results", "steps").rows.to_pylist() if each["run_id"] == row["run_id"]]
    measured = {phase: [each for each in steps if each["phase"] == phase] for phase in ("prefill", "decode")}
    assert len(measured["prefill"]) == len(measured["decode"]) == row["steps"] - row["warmup_steps"]
    assert {each["tokens"] for each in measured["prefill"]} == {2 * 64}
    assert {each["tokens"] for each in measured["decode"]} == {2 * 15}
    first_s, decode_s = (median(each["duration_s"] for each in measured[phase]) for phase in ("prefill", "decode"))
    assert row["time_to_first_token_s"] == pytest.approx(first_s)
    assert row["prefill_tokens_per_s"] == pytest.approx(128 / first_s)
    assert row["tokens_per_s"] == pytest.approx(30 / decode_s)
    assert row["host_peak_bytes"] > 50_000_000
    assert (row["trainable_parameters"], row["loss_first"], row["loss_tokens_per_s"]) == (0, None, None)


def test_the_report_tells_what_was_served(folder: Path) -> None:
    page = (folder / "reports" / "lesson.md").read_text()
    assert "## Serving" in page
    assert page.count("2 × (64 + 16)") == 2


def test_a_row_holds_its_conditions(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    hf, mlx = rows["lora", "hf"], rows["lora", "mlx"]
    assert {"torch", "transformers", "trl", "peft"} <= set(dict(hf["versions"]))
    assert {"mlx", "mlx-lm"} <= set(dict(mlx["versions"]))
    assert hf["framework_peak_bytes"] is None
    assert mlx["framework_peak_bytes"] > 0
    assert hf["host_peak_bytes"] > 100_000_000
    assert (hf["rank"], hf["optimizer"], hf["weights_dtype"], hf["batch_size"]) == (8, "adamw", "float32", 2)


def test_the_report_compares_what_is_equal(folder: Path) -> None:
    page = (folder / "reports" / "lesson.html").read_text()
    assert MODEL in page
    assert (folder / "reports" / "lesson.md").read_text().startswith("# ")


def test_the_readmes_query_works_as_printed(folder: Path) -> None:
    line = re.search(r"^ {4}(duckdb -c .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert line is not None
    found = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = subprocess.run(line.group(1), check=False, shell=True, cwd=folder, env=found, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(MODEL) == 8
    for column in ("method", "backend", "tokens_per_s", "host_peak_bytes"):
        assert column in done.stdout


def test_the_same_command_again_adds_nothing(folder: Path) -> None:
    before = sorted((folder / "results").rglob("*.parquet"))
    ran = wingspan("run", ROOT / "suites" / "smoke.toml", "--only", f"{MODEL}/*", "--repeats", 1, cwd=folder)
    assert "nothing left to do" in ran.stderr
    assert sorted((folder / "results").rglob("*.parquet")) == before
