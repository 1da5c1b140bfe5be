"""Real runs at the edge of memory, through real workers: the sweep goes on, and each row says how far its run came."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import LLAMA

from bench import store
from bench.limits import Limit
from bench.record import Machine
from bench.run import Options, Summary, sweep
from bench.suite import read_suite
from bench.sweep.lock import lock_path

Measured = Callable[..., tuple[Summary, list[dict[str, Any]]]]


class Silent:
    """An observer that is told and says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


@pytest.fixture
def measured(tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Measure tiny models of so many entries of vocabulary, in that order of names, under a limit: the summary and the rows."""
    monkeypatch.setenv("MLX_DISABLE_COMPILE", "1")

    def measure(backend: str, limit: Limit, **vocabularies: int) -> tuple[Summary, list[dict[str, Any]]]:
        for name, vocabulary in vocabularies.items():
            (tmp_path / f"{name}.json").write_text(json.dumps({**LLAMA, "vocab_size": vocabulary}))
        suite = tmp_path / "probe.toml"
        paths = json.dumps([f"./{name}.json" for name in vocabularies])
        suite.write_text(
            f'question = "Does it fit?"\nrepeats = 1\n[sweep]\nmodel = {paths}\nmethod = ["full"]\nbackend = ["{backend}@cpu"]\n'
            '[fixed]\nsequence_length = 16\nbatch_size = 2\nweights_dtype = "float32"\n'
            "[measure]\nwarmup_steps = 1\nwarmup_max_steps = 1\nsteps = 2\nevent_timeout_s = 300\n"
        )
        summary = sweep(read_suite(suite), machine, Options(results=tmp_path / "results", limit=limit), Silent())
        return summary, list(store.read(tmp_path / "results", "runs").rows.to_pylist())

    assert lock_path().parent == tmp_path
    return measure


@pytest.mark.slow
def test_torch_on_the_cpu_is_refused_memory_by_the_kernel_and_the_sweep_goes_on(measured: Measured) -> None:
    """0.2 GB of weights, as much of gradients and twice that of Adam's state do not fit beside what imports took."""
    summary, rows = measured("hf", Limit(700_000_000), big=400_000, small=512, huge=4_000_000)
    found = {row["model"]: row for row in rows}
    assert {name: (row["outcome"], row["failed_at"]) for name, row in found.items()} == {
        "big": ("oom_host", "first step"),
        "huge": ("oom_host", "load"),
        "small": ("ok", None),
    }
    assert "DefaultCPUAllocator: can't allocate memory" in found["big"]["reason"]
    for row in rows:
        assert (row["memory_limit"], row["capacity_bytes"], row["tier"]) == ("rlimit-data", 700_000_000, "measured")
        assert "limited" in row["flags"]
    assert summary.exit_code == 0


@pytest.mark.slow
def test_mlx_is_found_above_its_limit_and_the_sweep_goes_on(measured: Measured) -> None:
    summary, rows = measured("mlx", Limit(3_100_000, "a small one"), a=512, b=20_000, c=5_000)
    found = {row["model"]: (row["outcome"], row["failed_at"]) for row in rows}
    assert found == {"a": ("over_limit", "later step"), "b": ("over_limit", "load"), "c": ("over_limit", "first step")}
    assert {row["memory_limit"] for row in rows} == {"accounting"}
    assert {row["tier"] for row in rows} == {"stand-in"}
    assert summary.exit_code == 0
